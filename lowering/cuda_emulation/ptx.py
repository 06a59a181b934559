"""Inline PTX of CUDA source as calls of the functions that emulate its instructions.

Takes an `asm` statement of one instruction. Gives a call of the function in ``device/ptx.hpp`` that has the
instruction's name, with its operands in order. Refuses instructions that the emulation has no function for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlirtri.errors import UnsupportedOperationError

INSTRUCTIONS = re.compile(
    r"cp\.async\.(ca|cg)\.shared\.global|cp\.async\.(commit_group|wait_group|wait_all)"
    r"|ldmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?\.shared\.b16"
    r"|mma\.sync\.aligned\.(m16n8k16\.row\.col\.f32\.(f16\.f16|bf16\.bf16)\.f32"
    r"|m16n8k32\.row\.col\.s32\.[su]8\.[su]8\.s32)"
    r"|wgmma\.mma_async\.sync\.aligned\.m64n(64|128|256)(k16\.f32\.(f16\.f16|bf16\.bf16)|k32\.s32\.[su]8\.[su]8)"
    r"|wgmma\.(fence|commit_group|wait_group)\.sync\.aligned|fence\.proxy\.async\.shared::cta"
)
"""The instructions that ``device/ptx.hpp`` has functions for."""
_STATEMENT = re.compile(r"(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r"%\d+|\w+")


@dataclass(frozen=True)
class _Statement:
    """The parts of an `asm` statement: its text, and the expressions of its operands, outputs first."""

    text: str
    operands: tuple[str, ...]


def without_ptx(source: str) -> str:
    """Return CUDA source with calls in place of its `asm` statements, on as many lines."""
    parts, position = [], 0
    while (start := _STATEMENT.search(source, position)) is not None:
        end = _closing(source, start.end() - 1)
        statement = source[start.end() : end]
        parts += [source[position : start.start()], _call(_parsed(statement)), "\n" * statement.count("\n")]
        position = end + 1
    return "".join([*parts, source[position:]])


def _closing(source: str, opening: int) -> int:
    """Return the position of the parenthesis that closes the one at `opening`."""
    depth, is_string = 0, False
    for position in range(opening, len(source)):
        character = source[position]
        if character == '"' and source[position - 1] != "\\":
            is_string = not is_string
        if is_string:
            continue
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
    return len(source) - 1


def _parsed(statement: str) -> _Statement:
    sections: list[list[str]] = [[]]
    for part in re.split(r'("(?:[^"\\]|\\.)*")', statement):
        if part.startswith('"'):
            sections[-1].append(part)
            continue
        first, *others = part.split(":")
        sections[-1].append(first)
        sections += [[other] for other in others]
    text = "".join(match.group(1) for match in _STRING.finditer("".join(sections[0])))
    operands = [expression for section in sections[1:3] for expression in _expressions("".join(section))]
    return _Statement(text.replace("\\n", "\n").replace("\\t", " "), tuple(operands))


def _expressions(section: str) -> list[str]:
    """Return the operand expressions: the text in parentheses after each constraint."""
    starts = [match.end() for match in re.finditer(r'"[^"]*"\s*\(', section)]
    return [section[start : _closing(section, start - 1)].strip() for start in starts]


def _call(statement: _Statement) -> str:
    instructions = [line.strip() for line in re.split(r"[;\n]", statement.text) if line.strip()]
    name, _, operands = instructions[0].partition(" ") if len(instructions) == 1 else ("", "", "")
    if not INSTRUCTIONS.fullmatch(name):
        raise UnsupportedOperationError(
            f"the emulation of CUDA has no PTX instruction {statement.text.strip()!r}",
            help='run the kernel on a device, with target="cuda"',
        )
    arguments = [_argument(match.group(), statement.operands) for match in _OPERAND.finditer(operands)]
    if name.startswith("wgmma.mma"):
        # As many registers as it has would be too many parameters.
        sums, _, others = operands.partition("}")
        count, held = sums.count("%"), others.partition("}")[0].count("%") if "{" in others else 0
        registers = ", ".join(f"&{register}" for register in arguments[:count])
        parts = [f"{{{', '.join(arguments[count : count + held])}}}"] if held else []
        arguments = [f"{{{registers}}}", *parts, *arguments[count + held :]]
    return f"emulated::{re.sub('[.:]', '_', name)}({', '.join(arguments)})"


def _argument(operand: str, expressions: tuple[str, ...]) -> str:
    return f"({expressions[int(operand[1:])]})" if operand.startswith("%") else operand
