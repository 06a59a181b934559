"""Random programs over arrays as source text: expressions, loops, slices, branches, masks, updates in place.

Every program runs in plain NumPy without errors, and its numbers hardly depend on rounding: floats stay below 4, every
float operation moves its result about as far as its operands, and no branch hangs on a float that was computed.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

Shape = tuple[int, ...]
FLOAT, INT, BOOL = "F", "I", "B"


@dataclass
class Scope:
    """What the next statement may use."""

    arrays: dict[str, tuple[str, Shape]]
    """Name to kind and shape; rank 0 is a scalar."""
    writable: set[str]
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Loop counters with the least and the greatest value each takes."""


class Program:
    """Makes one program; `text` has it, `arguments` says what its parameters are."""

    def __init__(self, random: Random):
        self.random = random
        self.rows, self.columns = random.randint(1, 5), random.randint(1, 5)
        self.float = random.choice(("float64", "float32"))
        self.int = random.choice(("int64", "int32"))
        matrix, row, column = (self.rows, self.columns), (self.columns,), (self.rows,)
        self.arguments = {
            "x": (FLOAT, matrix), "y": (FLOAT, matrix), "v": (FLOAT, row), "u": (FLOAT, column),
            "m": (INT, matrix), "w": (INT, row), "s": (FLOAT, ()),
        }  # fmt: skip
        self.scope = Scope(dict(self.arguments), {"x", "v", "m", "w"})
        self.fresh = 0
        self.depth = 0
        self.lines: list[str] = []
        for _ in range(random.randint(2, 6)):
            self.statement()
        candidates = [name for name in self.scope.arrays if name not in self.arguments] or ["x"]
        returned = random.sample(candidates, min(len(candidates), 3))
        self.lines.append(f"    return {', '.join(returned)}")

    @property
    def text(self) -> str:
        header = "import numpy as np\n\n\ndef half(a, b=1):\n    return 0.5 * (a + b)\n\n\n"
        return f"{header}def program({', '.join(self.arguments)}):\n" + "\n".join(self.lines) + "\n"

    # --- choices ---------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def emit(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    @contextmanager
    def block(self, header: str, counters: dict[str, tuple[int, int]] | None = None):
        """An indented block, whose new names end with it."""
        self.emit(header)
        outer = self.scope
        self.scope = Scope(dict(outer.arrays), set(outer.writable), {**outer.counters, **(counters or {})})
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = outer

    # --- statements ------------------------------------------------------------------------------------------------

    def statement(self) -> None:
        choices = [self.assign, self.update, self.update, self.masked_update]
        if self.depth < 3:
            choices += [self.loop, self.loop, self.accumulate, self.branch, self.count_down]
        if self.scope.counters:
            choices += [self.growing_slice, self.growing_slice]
        self.random.choice(choices)()

    def body(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.random.choice([self.update, self.update, self.masked_update, self.statement])()

    def assign(self) -> None:
        """A new name for an array or a scalar."""
        kind, shape = self.random.choice(((FLOAT, (self.rows, self.columns)), (FLOAT, (self.columns,)), (FLOAT, ()),
                                          (INT, (self.columns,)), (INT, ()), (BOOL, (self.columns,))))  # fmt: skip
        name = self.name("t")
        self.emit(f"{name} = {self.expression(kind, shape, 3)}")
        self.scope.arrays[name] = (kind, shape)
        if shape and kind != BOOL and not self.is_view(self.lines[-1]):
            self.scope.writable.add(name)

    def is_view(self, line: str) -> bool:
        """Whether the name is another one for memory that has one already: written to, it would be a test of views."""
        value = line.split("=", 1)[1].strip()
        return value.isidentifier() or value.endswith("]")

    def update(self) -> None:
        """A part of an array, or all of it, in place."""
        name = self.random.choice(sorted(self.scope.writable))
        kind, shape = self.scope.arrays[name]
        target, part = self.part(name, shape)
        if kind == FLOAT:
            value = self.expression(FLOAT, part, 3)
            how = self.random.choice(("= {}", "*= np.sin({})", "= 0.5 * ({target} - {})", "+= 0.001 * ({})"))
        else:
            value = self.expression(INT, part, 2)
            how = self.random.choice(("= {}", "+= {}", "-= {}", "^= {}"))
        self.emit(f"{target} {how.format(value, target=target)}")

    def masked_update(self) -> None:
        name = self.random.choice(sorted(self.scope.writable))
        kind, shape = self.scope.arrays[name]
        value = self.random.choice(("0.5", "-1.25")) if kind == FLOAT else "3"
        self.emit(f"{name}[{self.condition(shape, 1)}] {self.random.choice(('=', '*='))} {value}")

    def loop(self) -> None:
        counter = self.random.choice([name for name in "ijk" if name not in self.scope.counters] or [self.name("i")])
        low, high = self.random.randint(0, 2), self.random.randint(1, 5)
        shown, values = f"{low}, {high}", range(low, high)
        outer = sorted(self.scope.counters)
        if self.chance(0.25):
            shown, values = f"{high}, {low - 1}, -1", range(high, low - 1, -1)
        elif self.chance(0.25):
            shown, values = f"{low}, {high}, 2", range(low, high, 2)
        elif outer and self.chance(0.5):
            other = self.random.choice(outer)
            shown, values = f"{other}, {high}", range(self.scope.counters[other][0], high)
        bounds = (min(values, default=0), max(values, default=0))
        with self.block(f"for {counter} in range({shown}):", {counter: bounds}):
            self.body()
            if self.chance(0.2):
                self.emit(f"if {self.condition((), 1)}:")
                self.emit(f"    {self.random.choice(('break', 'continue'))}")
                self.update()

    def accumulate(self) -> None:
        """A sum or a count over a loop, with a name from before it."""
        name, counter = self.name("a"), self.name("k")
        kind = self.random.choice((FLOAT, INT))
        self.emit(f"{name} = {'0.0' if kind == FLOAT else '0'}")
        count = self.random.randint(1, 5)
        with self.block(f"for {counter} in range({count}):", {counter: (0, count - 1)}):
            value = f"0.125 * ({self.expression(FLOAT, (), 2)})" if kind == FLOAT else f"{counter} % 3"
            if self.chance(0.4):
                self.emit(f"if {self.condition((), 1)}:")
                self.emit(f"    {name} += {value}")
            else:
                self.emit(f"{name} += {value}")
        self.scope.arrays[name] = (kind, ())

    def count_down(self) -> None:
        """A `while` with a counter of its own."""
        name = self.name("n")
        self.emit(f"{name} = {self.random.randint(1, 4)}")
        stop = f" and ({self.condition((), 1)})" if self.chance(0.3) else ""
        with self.block(f"while {name} > 0{stop}:"):
            self.emit(f"{name} -= 1")
            self.body()

    def branch(self) -> None:
        with self.block(f"if {self.condition((), 2)}:"):
            self.body()
        if self.chance(0.5):
            with self.block("else:"):
                self.body()

    def growing_slice(self) -> None:
        """Slices whose size changes with a loop."""
        counter = self.random.choice(sorted(self.scope.counters))
        name = self.random.choice(("v", "w"))
        cut = self.random.choice((f":{counter}", f"{counter}:", f"{counter} + 1:", f":{counter} + 1"))
        value = {
            "v": (
                "= 0.5 * (v[{}] + x[0, {}])",
                "= np.cos(y[-1, {}])",
                "= 0.5 * v[{}] + 0.1 * np.sin(v[{}] @ y[0, {}])",
            ),
            "w": ("+= m[0, {}]", "-= 2", "= w[{}] * np.sum(m[-1, {}])"),
        }[name]
        self.emit(f"{name}[{cut}] {self.random.choice(value).replace('{}', cut)}")

    # --- expressions -----------------------------------------------------------------------------------------------

    def expression(self, kind: str, shape: Shape, depth: int) -> str:
        if kind == BOOL:
            return self.condition(shape, depth)
        if depth == 0 or self.chance(0.2):
            return self.leaf(kind, shape)
        return self.float_expression(shape, depth) if kind == FLOAT else self.int_expression(shape, depth)

    def float_expression(self, shape: Shape, depth: int) -> str:
        form = self.random.choice((
            "0.5 * ({a} + {b})", "0.5 * ({a} - {b})", "0.25 * {a} * {b}", "np.sin({a})", "np.tanh({a})",
            "np.maximum({a}, {b})", "np.minimum({a}, {b})", "np.abs({a})", "-({a})", "{a} / (1 + np.abs({b}))",
            "np.sqrt(1 + np.abs({a}))", "np.where({c}, {a}, {b})", "half({a}, {b})", "half({a})",
            "np.clip({a}, -1, 1.5)", "({i} % 4) * 0.5", "{r}",
        ))  # fmt: skip
        return self.filled(form, FLOAT, shape, depth)

    def int_expression(self, shape: Shape, depth: int) -> str:
        form = self.random.choice((
            "({a} + {b})", "({a} - {b})", "{a} * {b}", "{a} // 3", "{a} % 5", "np.maximum({a}, {b})", "({a} & {b})",
            "({a} ^ 6)", "({a} >> 1)", "np.abs({a})", "np.where({c}, {a}, {b})", "-({a})", "{r}",
        ))  # fmt: skip
        return self.filled(form, INT, shape, depth)

    def filled(self, form: str, kind: str, shape: Shape, depth: int) -> str:
        if "{r}" in form:
            return self.reduction(kind, shape, depth)
        parts = {"a": (kind, shape), "b": (kind, self.narrower(shape)), "c": (BOOL, shape), "i": (INT, shape)}
        made = {key: self.expression(*what, depth - 1) for key, what in parts.items() if "{" + key + "}" in form}
        return form.format(**made)

    def narrower(self, shape: Shape) -> Shape:
        """A shape that broadcasts to `shape`."""
        return shape[self.random.randint(0, len(shape)) :] if self.chance(0.4) else shape

    def reduction(self, kind: str, shape: Shape, depth: int) -> str:
        """An array with one more axis, folded; or a product with a matrix."""
        if len(shape) > 1:
            return self.leaf(kind, shape)
        size = self.random.randint(1, 4)
        inner = self.expression(kind, (*shape, size), min(depth - 1, 1))
        if kind == INT:
            return f"np.{self.random.choice(('max', 'min'))}({inner}, axis=-1)"
        return f"np.{self.random.choice(('max', 'min', 'mean'))}({inner}, axis=-1)"

    def condition(self, shape: Shape, depth: int) -> str:
        """Comparisons of integers, and of floats that nobody computed."""
        if depth and self.chance(0.3):
            sides = [self.condition(shape, depth - 1) for _ in range(2)]
            sign = self.random.choice(("&", "|")) if shape else self.random.choice(("and", "or"))
            return f"({sides[0]}) {sign} ({sides[1]})"
        if self.chance(0.3):
            return f"{self.leaf(FLOAT, shape, ['y', 'u'])} > 0.25"
        left = self.leaf(INT, shape)
        return f"{left} {self.random.choice(('<', '<=', '>', '==', '!='))} {self.random.randint(-2, 3)}"

    def leaf(self, kind: str, shape: Shape, names: list[str] | None = None) -> str:
        """Something of that very shape: an array, a part of one, or a number spread out."""
        found = [name for name in names or sorted(self.scope.arrays) if self.fits(name, kind, shape)]
        if kind == INT and not shape and self.scope.counters and self.chance(0.4):
            return self.random.choice(sorted(self.scope.counters))
        if not found or (names is None and self.chance(0.1)):
            number = str(self.random.choice((0.5, -1.5, 2.0)) if kind == FLOAT else self.random.randint(-3, 4))
            if not shape and names is None:
                return f"({number})"
            return f"np.full({shape}, {number}, np.{self.float if kind == FLOAT else self.int})"
        name = self.random.choice(found)
        axes, sizes = self.scope.arrays[name][1], list(shape)
        kept = sorted(self.random.sample(range(len(axes)), len(sizes)))
        if not all(axes[axis] >= size for axis, size in zip(kept, sizes, strict=True)):
            kept = list(range(len(axes) - len(sizes), len(axes)))
        wanted = dict(zip(kept, sizes, strict=True))
        return self.indexed(name, [self.cut(size, wanted.get(axis)) for axis, size in enumerate(axes)])

    def fits(self, name: str, kind: str, shape: Shape) -> bool:
        """Whether a part of an array has the shape: its last axes are large enough."""
        found, axes = self.scope.arrays[name]
        if found != kind or len(axes) < len(shape):
            return False
        return all(axis >= size for axis, size in zip(axes[len(axes) - len(shape) :], shape, strict=True))

    def part(self, name: str, shape: Shape) -> tuple[str, Shape]:
        """A random part of an array, as a target of an assignment, and its shape."""
        sizes = [self.random.choice((None, size, self.random.randint(1, size))) for size in shape]
        text = self.indexed(name, [self.cut(size, wanted) for size, wanted in zip(shape, sizes, strict=True)])
        return (f"{name}[:]" if text == name else text), tuple(size for size in sizes if size is not None)

    def indexed(self, name: str, cuts: list[str]) -> str:
        while cuts and cuts[-1] == ":":
            cuts.pop()
        return f"{name}[{', '.join(cuts)}]" if cuts else name

    def cut(self, size: int, wanted: int | None) -> str:
        """An index or a slice of an axis: `wanted` elements of it, or one without its axis."""
        counters = {name: bounds for name, bounds in self.scope.counters.items() if bounds[1] + (wanted or 1) <= size}
        counter = self.random.choice(sorted(counters)) if counters and self.chance(0.6) else None
        if wanted is None:
            return counter or str(self.random.randint(-size, size - 1))
        if wanted == size:
            return self.random.choice((":", ":", ":", "::-1"))
        if counter:
            return f"{counter}:{counter} + {wanted}"
        start = self.random.randint(0, size - wanted)
        if 2 * (wanted - 1) < size - start and self.chance(0.4):
            return f"{start}:{start + 2 * wanted - 1}:2"
        return self.random.choice((f"{start}:{start + wanted}", f"{start - size}:{start + wanted}"))
