"""Generates programs by filling templates: a statement is kept if the reference runs it and bounds its error.

A template is text with slots. ``{a}`` is any array, ``{f}``, ``{i}``, ``{m}`` an array of floats, integers, bools,
``{v}`` one of rank 1 and more, ``{M}`` of rank 2 and more; the first of them in a template is the subject. Slots after
it depend on it: ``{b}`` broadcasts with it, ``{d}`` has its shape, ``{c}`` is a condition of its shape, ``{q}`` can be
multiplied with it as a matrix, ``{axis}``, ``{axes}``, ``{shape}``, ``{index}``, ``{size}``, ``{padding}`` say
something about it. ``{k}`` and ``{s}`` are numbers, ``{dtype}`` is a dtype, ``{keep}`` a bool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from fuzz.bounded_array import Bounded
from fuzz.program import Environment, Program, Statement, comparable, execute

SUBJECTS = {"a": "fcib", "f": "f", "g": "fc", "i": "iu", "m": "b", "v": "fcib", "M": "fcib", "w": "f", "n": "fciu"}
"""Slots of arrays, and the kinds of dtypes that they take; ``w`` is a float of rank 1 and more, ``n`` a number."""
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
LARGEST = 2048
"""Elements of a value: long double is slow, and vectors, remainders and tiles are all met below this."""
TRIES = 400


class Generator:
    """Makes one program: `environment` has the values of all names so far."""

    dtypes: Sequence[str] = ("float32", "float64", "int32", "int64", "bool")
    finite = False
    """Whether NaN and infinities are no values of the language, which says nothing about them."""
    literals: Sequence[str] = ("0.5", "-1.5", "2.0", "3", "-2", "1", "0.1")

    def __init__(self, random: Random, environment: Environment, names: list[str]):
        self.random = random
        self.environment = environment
        self.names = names
        self.statements: list[Statement] = []
        self.slots: dict[str, str] = {}
        self.fresh = 0

    # --- values ------------------------------------------------------------------------------------------------------

    def value(self, name: str) -> Any:
        return self.environment[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.value(name).shape)

    def subject(self) -> tuple[int, ...]:
        return self.shape(self.slots["subject"])

    def kind(self, name: str) -> str:
        """Return NumPy's letter for the kind of a value's dtype."""
        return self.value(name).dtype.kind

    def choose(self, names: Sequence[str]) -> str:
        """Choose a name, the later ones rather: depth makes fusion interesting."""
        if not names:
            raise LookupError
        return names[max(self.random.randrange(len(names)) for _ in range(2))]

    def broadcasting(self, kinds: str = "fciub") -> list[str]:
        mine = self.subject()
        return [name for name in self.names if self.kind(name) in kinds and _broadcast(mine, self.shape(name))]

    # --- templates ---------------------------------------------------------------------------------------------------

    def fill(self, template: str) -> str:
        self.slots = {}
        return re.sub(r"\{(\w+?)(\d*)\}", lambda match: self.slot(match.group(1), match.group(0)), template)

    def slot(self, slot: str, full: str) -> str:
        """Return what a slot becomes; one that stands twice becomes the same."""
        if full not in self.slots:
            self.slots[full] = self.array(slot) if slot in SUBJECTS else getattr(self, f"slot_{slot}")()
            self.slots.setdefault("subject", self.slots[full])
        return self.slots[full]

    def array(self, slot: str) -> str:
        rank = {"v": 1, "w": 1, "M": 2}.get(slot, 0)
        kinds = SUBJECTS[slot]
        return self.choose([name for name in self.names if self.kind(name) in kinds and len(self.shape(name)) >= rank])

    def slot_b(self) -> str:
        if self.random.random() < 0.25:
            return self.random.choice(self.literals)
        return self.choose(self.broadcasting())

    def slot_d(self) -> str:
        return self.choose([name for name in self.names if self.shape(name) == self.subject()])

    def slot_c(self) -> str:
        if self.random.random() < 0.6:
            return f"({self.choose(self.broadcasting('fiu'))} {self.random.choice(('<', '>', '<=', '!='))} 0)"
        return self.choose(self.broadcasting("b"))

    def slot_q(self) -> str:
        inner = self.subject()[-1]
        return self.choose([
            name for name in self.names
            if self.shape(name) and self.kind(name) != "b" and self.shape(name)[-2 if len(self.shape(name)) > 1 else 0] == inner
        ])  # fmt: skip

    def slot_axis(self) -> str:
        rank = len(self.subject())
        return str(self.random.randrange(-rank, rank)) if rank else "0"

    def slot_maybe(self) -> str:
        return "None" if self.random.random() < 0.3 else self.slot_axis()

    def slot_axes(self) -> str:
        axes = list(range(len(self.subject())))
        self.random.shuffle(axes)
        return f"({', '.join(map(str, axes))},)" if axes else "()"

    def slot_several(self) -> str:
        rank = len(self.subject())
        axes = self.random.sample(range(rank), self.random.randint(1, rank)) if rank else []
        return f"({', '.join(map(str, axes))},)" if axes else "()"

    def slot_shape(self) -> str:
        """Another shape of as many elements."""
        left, sizes = int(np.prod(self.subject())), []
        for _ in range(self.random.randint(0, 2)):
            factor = self.random.choice([size for size in range(1, left + 1) if left % size == 0][:12])
            sizes.append(factor)
            left //= factor
        sizes.insert(self.random.randint(0, len(sizes)), left)
        if self.random.random() < 0.3:
            sizes[self.random.randrange(len(sizes))] = -1
        return f"({', '.join(map(str, sizes))},)"

    def slot_wider(self) -> str:
        """Return the subject's shape with an axis in front."""
        return f"({', '.join(map(str, (self.random.randint(1, 3), *self.subject())))},)"

    def slot_index(self) -> str:
        parts = [self.cut(size) for size in self.subject()]
        if self.random.random() < 0.2:
            parts.insert(self.random.randint(0, len(parts)), "None")
        return ", ".join(parts) or "..."

    def cut(self, size: int) -> str:
        """An index or a slice of an axis."""
        if not size:
            return ":"
        low, high = sorted(self.random.randint(-size - 1, size + 1) for _ in range(2))
        return self.random.choice((
            ":", ":", "::-1", "::2", f"{low}:", f":{high}", f"{low}:{high}", "1:", ":-1", f"{self.random.randrange(-size, size)}",
            f"{self.random.randrange(size)}::-2",
        ))  # fmt: skip

    def slot_size(self) -> str:
        return str(self.random.randint(1, 3))

    def slot_padding(self) -> str:
        pairs = [f"({self.random.randint(0, 2)}, {self.random.randint(0, 2)})" for _ in self.subject()]
        return f"({', '.join(pairs)},)"

    def slot_shift(self) -> str:
        return str(self.random.randint(-3, 3))

    def slot_k(self) -> str:
        return str(self.random.choice((0, 1, 2, 3, -1, -2, 5, 7)))

    def slot_s(self) -> str:
        return self.random.choice(("0.5", "-1.25", "2.0", "0.1", "1.0"))

    def slot_dtype(self) -> str:
        return self.random.choice(self.dtypes)

    def slot_keep(self) -> str:
        return self.random.choice(("True", "False"))

    # --- statements --------------------------------------------------------------------------------------------------

    def attempt(self, text: str, source: str = "", names: Sequence[str] = ()) -> bool:
        """Run a statement on what there is; keep it, and its names, if their values can be compared."""
        trial = dict(self.environment)
        try:
            execute(text, trial)
        except Exception:
            return False
        for name in names:
            value = trial[name]
            if not isinstance(value, Bounded) or not value.size <= LARGEST or not comparable(value):
                return False
            if self.finite and not np.all(np.isfinite(value.low)):
                return False
        self.environment.update(trial)
        self.statements.append(Statement(text, source))
        self.names.extend(names)
        return True

    def name(self) -> str:
        self.fresh += 1
        return f"t{self.fresh}"


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return np.prod(np.broadcast_shapes(a, b)) <= LARGEST
    except ValueError:
        return False


def random_array(random: Random, dtype: str, shape: tuple[int, ...], special: bool = False) -> Any:
    """Return numbers of both signs that every float dtype holds; integers of all sizes; NaN and infinities if
    wanted."""
    numbers = np.random.default_rng(random.getrandbits(32))
    kind = np.dtype(dtype).kind
    if kind == "b":
        return numbers.random(shape) < 0.5
    if kind in "iu":
        limits = np.iinfo(dtype)
        small = numbers.integers(max(limits.min, -5), 6, shape).astype(dtype)
        if not special:
            return small
        return np.where(numbers.random(shape) < 0.2, numbers.choice([limits.min, limits.max], shape), small).astype(
            dtype
        )
    values = (numbers.integers(-16, 17, shape) / 8).astype(np.float64)
    if random.random() < 0.5:
        values = numbers.uniform(-2, 2, shape)
    if special:
        values = np.where(
            numbers.random(shape) < 0.1, numbers.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30], shape), values
        )
    if kind == "c":
        values = values + 1j * numbers.uniform(-2, 2, shape)
    return np.asarray(values).astype(dtype)


def finish(kind: str, generator: Generator, arguments: dict[str, Any], **more: Any) -> Program:
    """Return the program of a generator's statements; its last values are results, and a few others."""
    computed = [name for name in generator.names if name not in arguments] or list(arguments)[:1]
    used = " ".join(statement.text.split("=", 1)[-1] for statement in generator.statements)
    unread = [name for name in computed if not re.search(rf"\b{name}\b", used)]
    others = [name for name in computed if name not in unread]
    results = unread[-4:] + generator.random.sample(others, min(len(others), 2))
    return Program(kind, arguments, tuple(generator.statements), tuple(results), **more)
