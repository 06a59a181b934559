"""Write shared libraries of object files for x86-64 Linux, where there is no C compiler that would link them.

Takes relocatable ELF files of position-independent code that LLVM made. Gives a library that calls its own functions,
whatever else is loaded, and whose other functions the system's loader finds in the libraries that it needs. Refuses
relocations and sections that such code does not have.

    read-only   header, symbols, relocations for the loader, constants
    code        the functions; stubs that jump to functions of other libraries
    written     data, the global offset table (addresses that the loader fills in), the dynamic section
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlirtri.errors import CodegenError

_PAGE = 4096
_ELF_HEADER, _SECTION, _SYMBOL, _RELOCATION = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq"
_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
"""Types of sections."""
_WRITE, _ALLOCATED, _CODE, _THREAD_LOCAL = 1, 2, 4, 0x400
"""Flags of sections."""
_ABSOLUTE, _COMMON = 0xFFF1, 0xFFF2
_SUPPORTED_TYPES = (1, 7, _NO_BITS, 0x70000001)
"""Contents, notes, zeros, and tables for unwinding."""
_ABS64, _FILLED, _RELATIVE = 1, 6, 8
_PC32, _PLT32, _PC64, _GOTOFF64, _GOT64, _GOTPC64, _PLTOFF64 = 2, 4, 24, 25, 27, 29, 31
_GOTPCREL = (9, 41, 42)
"""Kinds of relocations of the x86-64 psABI."""
_BASE = "_GLOBAL_OFFSET_TABLE_"
_NEEDED, _HASH, _STRINGS, _SYMBOLS, _RELA, _FLAGS = 1, 4, 5, 6, 7, 30


@dataclass(eq=False)
class _Section:
    """One section that is in memory, and after the layout its address."""

    flags: int
    alignment: int
    data: bytearray
    relocations: list[tuple[int, int, _Symbol, int]] = field(default_factory=list)
    """Offset, kind, symbol and addend."""
    address: int = 0

    @property
    def segment(self) -> int:
        """Return 0 for what is read only, 1 for code, 2 for what the loader or the code writes."""
        if self.flags & _CODE:
            return 1
        return 2 if self.flags & _WRITE or any(kind == _ABS64 for _, kind, _, _ in self.relocations) else 0


@dataclass(eq=False)
class _Symbol:
    name: str
    info: int
    """Its binding (local, global, weak) and type."""
    section: _Section | None = None
    value: int = 0

    @property
    def binding(self) -> int:
        return self.info >> 4

    @property
    def address(self) -> int:
        return self.value + (self.section.address if self.section is not None else 0)


def shared_object(objects: Sequence[bytes], needed: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return the library of these object files, which needs these libraries, and the names that it does not define."""
    sections: list[_Section] = []
    named: dict[str, _Symbol] = {}
    try:
        parsed = [_parsed(data, sections) for data in objects]
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise CodegenError(f"an object file cannot be read: {problem}") from None
    for symbol in (symbol for symbols in parsed for symbol in symbols if symbol.binding):
        known = named.get(symbol.name)
        if known is None or (symbol.section is not None and (known.section is None or known.binding > symbol.binding)):
            named[symbol.name] = symbol
    library = _Library(sections, named, needed)
    return library.linked(), [symbol.name for symbol in library.outside if symbol.binding == 1]


def _parsed(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    """Append the sections of an object file to `sections`; return its symbols."""
    header = struct.unpack_from(_ELF_HEADER, data)
    if header[0][:6] != b"\x7fELF\x02\x01" or header[1:3] != (1, 62):
        raise CodegenError("an object file is not one for x86-64")
    rows = [struct.unpack_from(_SECTION, data, header[6] + 64 * index) for index in range(header[12])]
    names = rows[header[13]]
    by_index: dict[int, _Section] = {}
    for index, (name, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(rows):
        if not flags & _ALLOCATED or _text(data, names[4] + name) == ".eh_frame":
            continue
        if kind not in _SUPPORTED_TYPES or flags & _THREAD_LOCAL:
            raise CodegenError(
                f"the compiled code has a section {_text(data, names[4] + name)!r}; link it with a C compiler"
            )
        contents = bytearray(size) if kind == _NO_BITS else bytearray(data[offset : offset + size])
        by_index[index] = _Section(flags, max(1, alignment), contents)
    sections += by_index.values()
    symbols = _symbols(data, rows, by_index, sections)
    for _, kind, _, _, offset, size, _, target, _, _ in rows:
        if kind == _RELOCATIONS and target in by_index:
            for place, info, addend in struct.iter_unpack(_RELOCATION, data[offset : offset + size]):
                relocation = (place, info & 0xFFFFFFFF, symbols[info >> 32], addend)
                by_index[target].relocations.append(relocation)
    return symbols


def _symbols(
    data: bytes, rows: Sequence[tuple[int, ...]], by_index: dict[int, _Section], sections: list[_Section]
) -> list[_Symbol]:
    tables = [row for row in rows if row[1] == _SYMBOL_TABLE]
    symbols = []
    for _, _, _, _, offset, size, strings, _, _, _ in tables[:1]:
        for name, info, _, index, value, length in struct.iter_unpack(_SYMBOL, data[offset : offset + size]):
            symbol = _Symbol(_text(data, rows[strings][4] + name), info, by_index.get(index), value)
            if index == _COMMON:
                symbol.section, symbol.value = _Section(_WRITE | _ALLOCATED, max(1, value), bytearray(length)), 0
                sections.append(symbol.section)
            elif index == _ABSOLUTE and symbol.binding:
                raise CodegenError(f"the compiled code has the absolute symbol {symbol.name!r}")
            symbols.append(symbol)
    return symbols


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


class _Library:
    def __init__(self, sections: list[_Section], named: dict[str, _Symbol], needed: Sequence[str]):
        self.sections, self.named = sections, named
        self.table: dict[_Symbol, int] = {}
        """Symbol to its slot in the global offset table."""
        self.stubs: dict[_Symbol, int] = {}
        self.fixes: list[tuple[_Section, int, _Symbol, int]] = []
        """Addresses in data that the loader fills in."""
        for section in sections:
            for offset, kind, symbol, addend in section.relocations:
                self._collect(section, offset, kind, self._resolved(symbol), addend)
        used = {*self.table, *(symbol for _, _, symbol, _ in self.fixes)}
        self.outside = [symbol for symbol in named.values() if symbol in used and symbol.section is None]
        exported = [symbol for symbol in named.values() if symbol.section is not None]
        self.numbers = {symbol: number for number, symbol in enumerate([*self.outside, *exported], 1)}
        self.strings = bytearray(b"\0")
        self.needed = [self._string(name) for name in needed]
        self.names = {symbol: self._string(symbol.name) for symbol in self.numbers}

    def _string(self, text: str) -> int:
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text.encode()) - 1

    def _resolved(self, symbol: _Symbol) -> _Symbol:
        return self.named.get(symbol.name, symbol) if symbol.binding else symbol

    def _collect(self, section: _Section, offset: int, kind: int, symbol: _Symbol, addend: int) -> None:
        is_outside = symbol.section is None and symbol.name != _BASE
        if kind in (*_GOTPCREL, _GOT64) or (is_outside and kind in (_PLT32, _PLTOFF64)):
            self.table.setdefault(symbol, len(self.table))
        if is_outside and kind in (_PLT32, _PLTOFF64):
            self.stubs.setdefault(symbol, len(self.stubs))
        elif kind == _ABS64:
            self.fixes.append((section, offset, symbol, addend))
        elif is_outside and kind not in (*_GOTPCREL, _GOT64):
            raise CodegenError(f"the compiled code reads {symbol.name!r} of another library; link it with a C compiler")

    def linked(self) -> bytes:
        """Return the file; addresses in it are offsets."""
        count = len(self.numbers) + 1
        sizes = [64 + 56 * 5, 24 * count, len(self.strings), 4 * (3 + count), 24 * (len(self.table) + len(self.fixes))]
        places, end = [], 0
        for size in sizes:
            places.append(end)
            end = _aligned(end + size, 8)
        ends, starts, dynamic, entries = [], [], 0, b""
        for segment in range(3):
            starts.append(0 if segment == 0 else _aligned(end, _PAGE))
            end = self._placed(segment, max(end, starts[-1]))
            if segment == 1:
                self.first_stub = end = _aligned(end, 16)
                end += 16 * len(self.stubs)
            if segment == 2:
                self.base = end = _aligned(end, 16)
                dynamic = end = end + 8 * len(self.table)
                entries = self._dynamic(places, sizes)
                end += len(entries)
            ends.append(end)
        image = bytearray(end)
        self._fill(image)
        parts = [self._symbol_table(), bytes(self.strings), self._hash(count), self._relocations()]
        for place, part in zip([*places[1:], dynamic], [*parts, entries], strict=True):
            image[place : place + len(part)] = part
        image[: sizes[0]] = _headers(list(zip(starts, ends, (4, 5, 6), strict=True)), dynamic, len(entries))
        return bytes(image)

    def _placed(self, segment: int, end: int) -> int:
        for section in self.sections:
            if section.segment == segment:
                section.address = _aligned(end, section.alignment)
                end = section.address + len(section.data)
        return end

    def _fill(self, image: bytearray) -> None:
        for section in self.sections:
            for offset, kind, symbol, addend in section.relocations:
                self._relocate(section, offset, kind, self._resolved(symbol), addend)
            image[section.address : section.address + len(section.data)] = section.data
        for symbol, number in self.stubs.items():
            place = self.first_stub + 16 * number
            # jmp *slot(%rip)
            image[place : place + 6] = b"\xff\x25" + struct.pack("<i", self._slot(symbol) - place - 6)

    def _slot(self, symbol: _Symbol) -> int:
        return self.base + 8 * self.table[symbol]

    def _relocate(self, section: _Section, offset: int, kind: int, symbol: _Symbol, addend: int) -> None:
        place = section.address + offset
        is_stub = symbol in self.stubs and kind in (_PLT32, _PLTOFF64)
        address = self.first_stub + 16 * self.stubs[symbol] if is_stub else symbol.address
        if kind in (_PC32, _PLT32, _PC64):
            value = address + addend - place
        elif kind in _GOTPCREL:
            value = self._slot(symbol) + addend - place
        elif kind == _GOT64:
            value = self._slot(symbol) + addend - self.base
        elif kind in (_GOTOFF64, _PLTOFF64):
            value = address + addend - self.base
        elif kind == _GOTPC64:
            value = self.base + addend - place
        elif kind == _ABS64:
            return
        else:
            raise CodegenError(f"the compiled code has relocations of kind {kind}; link it with a C compiler")
        struct.pack_into("<i" if kind in (_PC32, _PLT32, *_GOTPCREL) else "<q", section.data, offset, value)

    def _relocations(self) -> bytes:
        entries = [(self._slot(symbol), _FILLED, symbol, 0) for symbol in self.table]
        entries += [
            (section.address + offset, _ABS64, symbol, addend) for section, offset, symbol, addend in self.fixes
        ]
        return b"".join(
            struct.pack(_RELOCATION, place, self.numbers[symbol] << 32 | kind, addend)
            if symbol.section is None
            else struct.pack(_RELOCATION, place, _RELATIVE, symbol.address + addend)
            for place, kind, symbol, addend in entries
        )

    def _symbol_table(self) -> bytes:
        rows = [
            # Any section but none: the loader adds the library's address.
            struct.pack(_SYMBOL, self.names[symbol], symbol.info, 0, int(symbol.section is not None), symbol.address, 0)
            for symbol in self.numbers
        ]
        return bytes(24) + b"".join(rows)

    def _hash(self, count: int) -> bytes:
        """Return a table of one bucket: the loader compares all names."""
        chain = [*range(1, count), 0]
        return struct.pack(f"<{2 + 1 + count}I", 1, count, chain[0], 0, *chain[1:])

    def _dynamic(self, places: Sequence[int], sizes: Sequence[int]) -> bytes:
        rows = [(_NEEDED, name) for name in self.needed]
        rows += [(_SYMBOLS, places[1]), (11, 24), (_STRINGS, places[2]), (10, sizes[2]), (_HASH, places[3])]
        rows += [(_RELA, places[4]), (8, sizes[4]), (9, 24), (_FLAGS, 8), (0, 0)]
        return b"".join(struct.pack("<QQ", *row) for row in rows)


def _headers(segments: Sequence[tuple[int, int, int]], dynamic: int, size: int) -> bytes:
    """Return the ELF header and the program headers; segments are start, end and access."""
    magic = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack(_ELF_HEADER, magic, 3, 62, 1, 0, 64, 0, 0, 64, 56, 5, 64, 0, 0)
    rows = [(1, access, start, start, start, end - start, end - start, _PAGE) for start, end, access in segments]
    rows += [(2, 6, dynamic, dynamic, dynamic, size, size, 8), (0x6474E551, 6, 0, 0, 0, 0, 0, 16)]
    return header + b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows)
