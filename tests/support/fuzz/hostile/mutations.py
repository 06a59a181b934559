"""Damage inputs: what a broken download, an editor or an attacker does to text and to bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

_TOKEN = re.compile(rb"[%@#!^]?[A-Za-z_][\w.$]*|\d+|\s+|.", re.DOTALL)
_NUMBER = re.compile(rb"(?<![\w.%])\d+")
_TYPE = re.compile(rb"\b(?:f16|bf16|f32|f64|i1|i8|i16|i32|i64|ui8|si8|index|complex<f32>)\b")
_SHAPE = re.compile(rb"tensor<[^<>]*>")
_NUMBERS = (
    b"0", b"1", b"-1", b"2", b"3", b"127", b"65536", b"2147483648", b"4294967296", b"99999999999",
    b"4611686018427387904", b"9223372036854775807", b"9223372036854775808", b"1000000000000000000000000", b"?",
    b"-9223372036854775808",
)  # fmt: skip
_TYPES = (b"f16", b"bf16", b"f32", b"f64", b"i1", b"i8", b"i64", b"i3", b"i128", b"index", b"complex<f32>", b"f8E4M3FN",
          b"none", b"memref<4xf32>", b"vector<4xf32>", b"!foo.bar", b"tuple<>", b"ui8")  # fmt: skip
_SHAPES = (b"tensor<f32>", b"tensor<0xf32>", b"tensor<?xf32>", b"tensor<*xf32>", b"tensor<99999999999xf32>",
           b"tensor<4x4x4x4x4x4x4x4xf32>", b"tensor<4xf32, #x>", b"tensor<4x!foo.bar>", b"tensor<2x2xi8>")  # fmt: skip


def truncated(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def with_flipped_bits(data: bytes, random: Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def with_other_bytes(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + random.randbytes(random.choice((1, 4, 64))) + data[start + random.choice((0, 1, 4, 64)) :]


def with_repeated_part(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    part = data[start : start + random.choice((8, 64, 512))]
    return data[:start] + part * random.choice((2, 3, 100)) + data[start + len(part) :]


def with_swapped_tokens(data: bytes, random: Random) -> bytes:
    tokens = _TOKEN.findall(data)
    words = [position for position, token in enumerate(tokens) if not token.isspace()]
    if len(words) < 2:
        return data
    for _ in range(random.choice((1, 1, 3))):
        first, second = random.sample(words, 2)
        tokens[first], tokens[second] = tokens[second], tokens[first]
    return b"".join(tokens)


def with_a_missing_token(data: bytes, random: Random) -> bytes:
    tokens = _TOKEN.findall(data)
    del tokens[random.randrange(len(tokens))]
    return b"".join(tokens)


def with_a_copied_line(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    line = random.choice(lines)
    lines.insert(random.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def with_a_moved_line(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    line = lines.pop(random.randrange(len(lines)))
    lines.insert(random.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def _with_another(pattern: re.Pattern[bytes], others: tuple[bytes, ...]) -> Callable[[bytes, Random], bytes]:
    def replaced(data: bytes, random: Random) -> bytes:
        matches = list(pattern.finditer(data))
        if not matches:
            return with_other_bytes(data, random)
        match, other = random.choice(matches), random.choice(others)
        if random.random() < 0.3:  # everywhere, so that types still agree
            return re.sub(rb"(?<![\w%%])%s(?!\w)" % re.escape(match[0]), lambda _: other, data)
        return data[: match.start()] + other + data[match.end() :]

    return replaced


with_another_number = _with_another(_NUMBER, _NUMBERS)
with_another_type = _with_another(_TYPE, _TYPES)
with_another_shape = _with_another(_SHAPE, _SHAPES)
BYTES = (truncated, with_flipped_bits, with_flipped_bits, with_other_bytes, with_repeated_part)
TEXT = (
    *BYTES, with_swapped_tokens, with_a_missing_token, with_a_copied_line, with_a_moved_line,
    *(with_another_number, with_another_type, with_another_shape) * 3,
)  # fmt: skip


def mutated(data: bytes, random: Random, is_text: bool) -> bytes:
    """Return `data` with one to three damages of random kinds; never empty input for a next damage."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if data:
            data = random.choice(TEXT if is_text else BYTES)(data, random)
    return data


_INTEGERS = (0, 1, -1, 2, 7, 127, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
_FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5)
_WORDS = (
    "",
    "x",
    "y",
    "axis",
    "Add",
    "Reshape",
    "Loop",
    "If",
    "pads",
    "kernel_shape",
    "\0",
    "a" * 1000,
    "../../etc/passwd",
    "ü",
)


def with_other_fields(message: Any, random: Random) -> None:
    """Change fields of a protobuf message, in place: numbers, words, an element repeated, removed or moved."""
    for _ in range(random.choice((1, 1, 2, 3))):
        with suppress(ValueError):  # protobuf refuses some numbers of enumerations
            _change(random.choice(list(_messages(message))), random)


def _messages(message: Any) -> Any:
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for element in value if hasattr(value, "__len__") else [value]:
                yield from _messages(element)


def _change(message: Any, random: Random) -> None:
    fields = message.ListFields()
    if not fields:
        return
    field, value = random.choice(fields)
    if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        _change_list(message, field, list(value), random)
    elif field.type == field.TYPE_MESSAGE:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _another(field, value, random))


def _change_list(message: Any, field: Any, elements: list[Any], random: Random) -> None:
    position = random.randrange(len(elements))
    kind = random.choice(("remove", "repeat", "move", "change"))
    element = elements.pop(position)
    if kind == "repeat":
        elements += [element, element]
    elif kind == "move":
        elements.insert(random.randrange(len(elements) + 1), element)
    elif kind == "change" and field.type != field.TYPE_MESSAGE:
        elements.insert(position, _another(field, element, random))
    message.ClearField(field.name)
    getattr(message, field.name).extend(elements)


def _another(field: Any, value: Any, random: Random) -> Any:
    if isinstance(value, bytes):
        return mutated(value, random, False)
    if isinstance(value, str):
        return random.choice(_WORDS)
    if isinstance(value, float):
        return random.choice(_FLOATS)
    if field.enum_type is not None:
        return random.randrange(30)
    is_short = field.type == field.TYPE_INT32
    return random.choice([number for number in _INTEGERS if not is_short or abs(number) < 1 << 31])
