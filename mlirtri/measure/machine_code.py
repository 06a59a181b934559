"""What an assembly listing says of its hottest loop: vector width, fused multiply-adds, gathers, calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SCALAR = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\d*)s[sd]$")
_PACKED = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\d*)p[sd]$")
_FUSED = re.compile(r"^vfn?m(?:add|sub)\d*[sp][sd]$")
_DOUBLE = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\d*)[sp]d$")
_GATHER = re.compile(r"^v?p?gather[dq]\w*$")
_ORIGIN = re.compile(r"^; (?P<origin>\S+:\d+)$")
_REGISTER = re.compile(r"\b%?([xyz])mm\d+")
_WIDTHS = {"x": 128, "y": 256, "z": 512}
_LABEL = re.compile(r"^(?P<name>[.\w$]+):")
_DISASSEMBLED = re.compile(r"^\s*(?P<address>[0-9a-f]+):\s+(?P<text>.*)$")
_JUMP = re.compile(r"^j\w+\s+(?:\*)?(?P<to>[.\w$]+)")
_CALL = re.compile(r"^call\w*\b")


@dataclass(frozen=True)
class LoopCode:
    """Instructions of loops that hold no other loop."""

    scalar: int
    """Floating-point instructions on one element."""
    packed: int
    fused: int
    """Multiply-adds in one instruction, scalar or packed."""
    width: int
    """Bits of the widest register in a packed instruction; 0 without any."""
    calls: int
    double: int = 0
    """Floating-point instructions on 64 bits per element, scalar or packed."""
    gathers: int = 0
    """Loads of vectors whose elements lie apart."""
    origins: frozenset[str] = frozenset()
    """``file:line`` of the source lines in it, where the listing has them."""

    @property
    def is_scalar(self) -> bool:
        return self.scalar > 0 and self.packed == 0

    def __str__(self) -> str:
        if self.scalar + self.packed == 0:
            return "no arithmetic on floats"
        kind = "scalar instructions" if self.is_scalar else f"vectors of {self.width} bits"
        return f"{kind}, {'with' if self.fused else 'without'} fused multiply-adds"

    @property
    def is_double(self) -> bool:
        return 2 * self.double > self.scalar + self.packed


def innermost_loops(assembly: str) -> list[LoopCode]:
    """Return the loops that hold no other loop, in the order of a listing by LLVM or by objdump."""
    lines = _instructions(assembly)
    position = {label: number for number, (labels, _, _) in enumerate(lines) for label in labels}
    spans = []
    for number, (_, text, _) in enumerate(lines):
        jump = _JUMP.match(text)
        start = position.get(jump["to"]) if jump else None
        if start is not None and start <= number:
            spans.append((start, number))
    inner = [span for span in spans if not any(_holds(span, other) for other in spans)]
    return [_facts(lines[start : end + 1]) for start, end in sorted(set(inner))]


def hottest_loop(assembly: str, origin: str = "") -> LoopCode | None:
    """Return the innermost loop with most arithmetic on floats; None without a loop that has any.

    Of loops from the source line `origin`, where the listing has some.
    """
    loops = [loop for loop in innermost_loops(assembly) if loop.scalar + loop.packed]
    loops = [loop for loop in loops if origin in loop.origins] or loops
    return max(loops, key=lambda loop: loop.scalar + loop.packed, default=None)


def function_text(assembly: str, name: str) -> str:
    """Return the part of a listing that belongs to a function and what was outlined of it; all if it has no such."""
    parts = re.split(r"^(?=[A-Za-z_][\w$.]*:)", assembly, flags=re.MULTILINE)
    own = [part for part in parts if part.partition(":")[0].startswith((name, f"__tvm_ffi_{name}"))]
    return "".join(own) or assembly


def _holds(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return other != span and span[0] <= other[0] and other[1] <= span[1]


def _instructions(assembly: str) -> list[tuple[list[str], str, str]]:
    """Return labels, text and source line of each instruction."""
    instructions: list[tuple[list[str], str, str]] = []
    labels: list[str] = []
    origin = ""
    for line in assembly.splitlines():
        if match := _DISASSEMBLED.match(line):
            instructions.append(([match["address"], *labels], match["text"].strip(), origin))
            labels = []
        elif match := _ORIGIN.match(line):
            origin = match["origin"]
        elif match := _LABEL.match(line):
            labels.append(match["name"])
        elif line.startswith(("\t", " ")) and not line.strip().startswith((".", "#", ";")):
            instructions.append((labels, line.strip(), origin))
            labels = []
    return instructions


def _facts(lines: Sequence[tuple[list[str], str, str]]) -> LoopCode:
    texts = [text for _, text, _ in lines]
    mnemonics = [text.split(None, 1)[0] for text in texts if text]
    packed = [text for text, word in zip(texts, mnemonics, strict=False) if _PACKED.match(word)]
    widths = [_WIDTHS[letter] for text in packed for letter in _REGISTER.findall(text)]
    return LoopCode(
        scalar=sum(bool(_SCALAR.match(word)) for word in mnemonics),
        packed=len(packed),
        fused=sum(bool(_FUSED.match(word)) for word in mnemonics),
        width=max(widths, default=0),
        calls=sum(bool(_CALL.match(word)) for word in mnemonics),
        double=sum(bool(_DOUBLE.match(word)) for word in mnemonics),
        gathers=sum(bool(_GATHER.match(word)) for word in mnemonics),
        origins=frozenset(origin for _, _, origin in lines),
    )
