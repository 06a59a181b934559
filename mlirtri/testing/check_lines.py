"""Write the FileCheck directives that a text of IR passes: labels per function, captured names, no unstable parts.

func.func @f(%a: tensor<4xf32>) {        CHECK-LABEL: func.func @f(
  %0 = "tri.exp"(%a) : …           ──►   CHECK-SAME: %[[A:[^ ,:)]+]]: tensor<4xf32>) {
                                         CHECK-NEXT: %[[V0:[^ ,:)]+]] = "tri.exp"(%[[A]]) : …
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

NAME = r"[A-Za-z0-9_.$-]+"
"""A name of an SSA value or an alias."""
CAPTURED = "[^ ,:)]+"
"""The same for FileCheck, short since it is on every line."""
_BANNER = re.compile(r"^(?://|#|;) (===== .* =====)$", re.MULTILINE)
"""What stands above each of several stages."""
_SUFFIX = r"\.(?:py|mlir|onnx|pt2|stablehlo|tosa)"
_FILE = re.compile(rf"(?:/[\w.+@-]+)*/[\w.+@-]+({_SUFFIX}\"?)(:\d+)?|(?<![\w./+@-])[\w.+@-]+({_SUFFIX})(?=:\d)(:\d+)")
"""A file on this machine, with a line; or without its folder, with one. Its suffix is captured."""
_OF_THE_RUNTIME = re.compile(r"^define .*@__(?!tvm_parallel_lambda)\w+\(")
"""A function of LLVM IR that is in every kernel: checks of arguments, errors, conversions of halves."""
_LONG = re.compile(r'(dense(?:_resource)?<)[^<>]{200,}(>)|"(?:0x)[0-9A-Fa-f]{64,}"')
_BLOCK = re.compile(r"(\.LBB)\d+_\d+")


@dataclass(frozen=True)
class Line:
    """A line of the text that becomes a directive."""

    number: int
    text: str
    is_label: bool = False
    is_pattern: bool = False
    """Whether the text is a pattern of FileCheck's already."""


def check_lines(text: str, prefix: str, keep: str | None = None, prefixes: Collection[str] = ()) -> list[str]:
    """Return directives for a text of any stage, without comment signs; empty where there is nothing to check.

    With `keep`, a regular expression, only labels and lines that it finds become directives. Without it, assembly is
    checked for functions and their arithmetic on vectors alone, on scalars where no function has any on vectors:
    registers, widths and order are those of this CPU. Functions of the runtime are left out where `keep` finds nothing
    in them: checks of arguments are of no test's kernel.
    `prefixes` are all of the file; no variable is called like one, for ``[[A:`` would be a directive of it.
    """
    reserved = frozenset((prefix, *prefixes))
    # The text in front of the first banner, then banners and what stands below each.
    first, *parts = _BANNER.split(text)
    directives = _section(first, prefix, keep, reserved)
    for banner, section in zip(parts[::2], parts[1::2], strict=True):
        directives += [f"{prefix}-LABEL: {literal(banner)}", *_section(section, prefix, keep, reserved)]
    return directives


def _section(text: str, prefix: str, keep: str | None, reserved: frozenset[str]) -> list[str]:
    scan, names = _language(text)
    if keep is None and scan in (_assembly, _disassembly):
        lines = _that_compute(list(_arithmetic(scan(text), "p"))) or _that_compute(list(_arithmetic(scan(text), "s")))
        lines = lines or [line for line in scan(text) if line.is_label]
        return [each for line in lines for each in _directives(line, prefix, False, names(text))]
    lines = [line for line in scan(text) if line.is_label or keep is None or re.search(keep, line.text)]
    lines = _of_kernels(lines, is_whole=keep is None) if scan is _llvm else lines
    scope, directives, previous = replace(names(text), reserved=reserved), [], None
    for line in lines:
        is_next = previous is not None and line.number == previous.number + 1
        directives += _directives(line, prefix, is_next, scope)
        previous = line
    return directives


def _of_kernels(lines: list[Line], is_whole: bool) -> list[Line]:
    """Return the lines of LLVM IR without functions of the runtime: all, or those of which only labels are left."""
    kept: list[Line] = []
    starts = [number for number, line in enumerate(lines) if line.is_label]
    for start, end in pairwise([*starts, len(lines)]):
        if not _OF_THE_RUNTIME.match(lines[start].text) or (not is_whole and end > start + 1):
            kept += lines[start:end]
    return kept or lines


def _directives(line: Line, prefix: str, is_next: bool, scope: Names) -> list[str]:
    indent = " " * (len(line.text) - len(line.text.lstrip()) + 1)
    if not line.is_label:
        return [f"{prefix}{'-NEXT' if is_next else ''}:{indent}{_pattern(line, scope)}"]
    scope.enter()
    label, rest = _split_label(line.text.strip())
    directives = [f"{prefix}-LABEL:{indent}{literal(label)}"]
    if rest:
        directives.append(f"{prefix}-SAME:{indent}{scope.pattern(rest)}")
    return directives


def _pattern(line: Line, scope: Names) -> str:
    return line.text if line.is_pattern else scope.pattern(line.text.strip())


def _split_label(text: str) -> tuple[str, str]:
    """Return a function's name with what stands before it, and the rest: a label has no captured names."""
    match = re.match(r'(.*?@(?:[\w.$-]+|"[^"]*")\()(.*)$', text)
    return (match[1], match[2]) if match and "%" in match[2] else (text, "")


def literal(text: str) -> str:
    """Return a pattern that matches the text, except for its parts that are other on the next machine."""
    pieces, end = [], 0
    for match in re.finditer(rf"{_FILE.pattern}|{_LONG.pattern}|{_BLOCK.pattern}", text):
        pieces += [_escaped(text[end : match.start()]), _loosened(match)]
        end = match.end()
    return "".join([*pieces, _escaped(text[end:])])


def _loosened(match: re.Match[str]) -> str:
    suffix, line, bare_suffix, _, before, after, block = match.groups()
    if block is not None:
        return f"{block}{{{{[0-9]+_[0-9]+}}}}"
    if bare_suffix is not None:
        return f'{{{{[^"]*}}}}{bare_suffix}:{{{{[0-9]+}}}}'
    if suffix is None:
        return f"{before or ''}{{{{.*}}}}{after or ''}"
    # A copy of the test has another name, and a line moves with every edit above it; the column stays.
    return f'{{{{[^"]*}}}}{suffix}{":{{[0-9]+}}" if line else ""}'


def _escaped(text: str) -> str:
    return re.sub(r"\[\[+|\{\{+", lambda match: "{{" + re.sub(r"(.)", r"\\\1", match[0]) + "}}", text)


@dataclass
class Names:
    """The names that a text defines, as variables of FileCheck; those of SSA values hold for one function."""

    aliases: frozenset[str] = frozenset()
    """Names after ``#`` that the text defines."""
    labels: frozenset[str] = frozenset()
    """Names after ``%`` that are blocks, written without it where they are defined."""
    is_ssa: bool = False
    reserved: frozenset[str] = frozenset()
    """Variables that are taken."""
    variables: dict[str, str] = field(default_factory=dict)

    def enter(self) -> None:
        """Begin a function: its names are its own, the aliases stay."""
        self.variables = {name: variable for name, variable in self.variables.items() if name.startswith("#")}

    def pattern(self, text: str) -> str:
        """Return a pattern of the line, in which names that it defines are captured and others refer to those."""
        if not self.is_ssa:
            return literal(text)
        pieces, end = [], 0
        for match in re.finditer(rf'"[^"]*"|%{NAME}(?:#\d+)?|#{NAME}', text):
            name = match[0].partition("#")[0] if match[0].startswith("%") else match[0]
            if not self._is_name(name):
                continue
            pieces += [literal(text[end : match.start()]), name[0], self._use(name, text, match.start())]
            end = match.start() + len(name)
        return "".join([*pieces, literal(text[end:])])

    def _is_name(self, name: str) -> bool:
        return name in self.aliases if name.startswith("#") else name.startswith("%") and name not in self.labels

    def _use(self, name: str, text: str, start: int) -> str:
        if name in self.variables and not _is_definition(name, text, start):
            return f"[[{self.variables[name]}]]"
        self.variables[name] = self._variable(name)
        return f"[[{self.variables[name]}:{CAPTURED}]]"

    def _variable(self, name: str) -> str:
        """Return the variable of a name: ``%a_0`` is ``A_0``, ``%0`` is ``V0``, and ``#map`` is ``$MAP``."""
        if name in self.variables:
            return self.variables[name]
        bare = re.sub(r"\W", "_", name[1:]).upper()
        bare = f"V{bare}" if bare[0].isdigit() else bare
        base = f"${bare}" if name.startswith("#") else bare
        taken, variable, count = {*self.variables.values(), *self.reserved}, base, 1
        while variable in taken:
            count += 1
            variable = f"{base}_{count}"
        return variable


def _is_definition(name: str, text: str, start: int) -> bool:
    """Return whether a line defines a name that is known already: MLIR gives sibling regions the same names."""
    after = text[start + len(name) :]
    if re.match(r"(?::\d+)?\s*=(?!=)", after) or re.match(rf"(?:, %{NAME})*\) = ", after):
        return True
    return text.lstrip().startswith("^") and after.startswith(":")


def _language(text: str) -> tuple[Callable[[str], Iterator[Line]], Callable[[str], Names]]:
    """Return what reads the lines of a text, and what knows its names."""
    for pattern, scan, names in (
        (r"^; ModuleID|^define ", _llvm, _llvm_names),
        (r"^\s*\.(?:text|globl)\b", _assembly, lambda text: Names()),
        (r"^[0-9a-f]{16} <.*>:$", _disassembly, lambda text: Names()),
        (r"__global__ void", _cuda, lambda text: Names()),
        (r"^# from tvm\.script|^@I\.ir_module", _tvmscript, lambda text: Names()),
        (r'^\s*(?:"?builtin\.module|module\b|func\.func|llvm\.func|"func\.func")', _mlir, _mlir_names),
    ):
        if re.search(pattern, text, re.MULTILINE):
            return scan, names
    return _plain, lambda text: Names()


def _mlir_names(text: str) -> Names:
    aliases = re.findall(rf"^(#{NAME}) = ", text, re.MULTILINE)
    return Names(frozenset(aliases), is_ssa=True)


def _llvm_names(text: str) -> Names:
    labels = re.findall(rf"^({NAME}):", text, re.MULTILINE)
    return Names(labels=frozenset(f"%{label}" for label in labels), is_ssa=True)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.split("\n"), 1)


def _mlir(text: str) -> Iterator[Line]:
    for number, line in _numbered(text):
        stripped = line.strip()
        if not stripped or re.match(
            r"(?:module\b.*\{|\}|\"builtin\.module\".*|\}\) : \(\) -> \(\)|\{-#|#-\})$", stripped
        ):
            continue
        if stripped.startswith("//"):
            continue
        is_label = re.match(r"(?:func\.func|llvm\.func)", stripped) is not None
        # Predecessors are a comment.
        yield Line(number, re.sub(r"\s*// (?:\d+ preds?:|pred:|no predecessors).*$", "", line), is_label)


def _tvmscript(text: str) -> Iterator[Line]:
    for number, line in _numbered(text):
        stripped = line.strip()
        if not stripped or stripped.startswith(("# from ", "@I.ir_module", "# with ")) or stripped == "class Module:":
            continue
        yield Line(number, line, stripped.startswith(("def ", "# =====")))


def _llvm(text: str) -> Iterator[Line]:
    is_inside = False
    for number, line in _numbered(text):
        is_inside = is_inside or line.startswith("define ")
        if is_inside and line.strip() and not line.lstrip().startswith(("#dbg_", ";")):
            # Attribute groups, metadata and comments have numbers of their own.
            bare = re.split(r" #\d+\b|,? ![\w.]+ !\d+| +; ", line)[0]
            yield Line(number, bare, line.startswith("define "))
        is_inside = is_inside and line != "}"


def _assembly(text: str) -> Iterator[Line]:
    for number, line in _numbered(text):
        stripped = re.sub(r"\s*#.*$", "", line).strip()
        if re.match(r"[A-Za-z_][\w.$]*:$", stripped):
            yield Line(number, stripped, is_label=True)
        elif stripped and not stripped.startswith("."):
            yield Line(number, re.sub(r"\s+", " ", stripped))


def _disassembly(text: str) -> Iterator[Line]:
    for number, line in _numbered(text):
        label = re.match(r"[0-9a-f]{16} (<.*>:)$", line)
        instruction = re.match(r"\s*[0-9a-f]+:\s+(.*)$", line)
        if label or instruction:
            yield Line(number, label[1] if label else re.sub(r"\s+", " ", instruction[1]), bool(label))


_NUMBERS = re.compile(
    r"v?(?:(?P<plain>add|sub|mul|div|sqrt|max|min)|(?P<fused>fn?m(?:add|sub))\d+)(?P<dtype>[ps][sd])$"
)
"""Instructions of x86 on vectors (p) and on scalars (s). Not every CPU multiplies and adds at once; all have others."""

_FUSED = {"add": "fmadd[0-9]+", "sub": "fn?m(add|sub)[0-9]+"}
"""What a product and this become on a CPU that does both at once."""


def _arithmetic(lines: Iterator[Line], packing: str) -> Iterator[Line]:
    """Yield the labels, and of each function the kinds of arithmetic on vectors ("p") or scalars ("s"), each once."""
    function: list[tuple[int, str, str]] = []
    for line in lines:
        match = None if line.is_label else _NUMBERS.match(line.text.split(" ")[0])
        if match and match["dtype"].startswith(packing):
            function.append((line.number, match["plain"] or match["fused"], match["dtype"]))
        elif line.is_label:
            yield from _kinds(function)
            function = []
            yield line
    yield from _kinds(function)


def _that_compute(lines: list[Line]) -> list[Line]:
    """Return the lines without functions that have no such arithmetic."""
    return [
        line
        for line, following in zip(lines, [*lines[1:], None], strict=True)
        if not line.is_label or (following is not None and not following.is_label)
    ]


def _kinds(function: list[tuple[int, str, str]]) -> Iterator[Line]:
    """Yield a pattern for each kind of a function's instructions, which CPUs with and without fused ones pass."""
    kinds = {(kind, dtype): number for number, kind, dtype in reversed(function)}
    for (kind, dtype), number in sorted(kinds.items(), key=lambda item: item[1]):
        sums = [each for each in ("add", "sub") if (each, dtype) in kinds]
        is_fused = any((each, dtype) in kinds for each in ("fmadd", "fmsub", "fnmadd", "fnmsub"))
        if kind in sums and ("mul", dtype) in kinds and not is_fused:
            continue  # a CPU with fused instructions has one of those for the product and this
        if kind.startswith("f"):
            name = f"{{{{v?({kind}[0-9]+|mul)}}}}"
        elif kind == "mul" and sums and not is_fused:
            name = f"{{{{v?({'|'.join(['mul', *(_FUSED[each] for each in sums)])})}}}}"
        else:
            name = f"{{{{v?}}}}{kind}"
        yield Line(number, f"{name}{dtype}", is_pattern=True)


def _cuda(text: str) -> Iterator[Line]:
    is_inside = False
    for number, line in _numbered(text):
        is_label = re.match(r'extern "C" __global__ .*\{$', line) is not None
        is_inside = is_inside or is_label
        if is_inside and line.strip() and not re.match(r"\s*//|#line", line):
            yield Line(number, line, is_label)
        is_inside = is_inside and line != "}"


def _plain(text: str) -> Iterator[Line]:
    for number, line in _numbered(text):
        if line.strip() and not re.match(r"\s*\^?[~^]+\s*$", line):
            yield Line(number, line, "=====" in line)
