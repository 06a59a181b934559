"""Random programs over arrays as source text: expressions, loops, slices, branches, masks, updates in place.

Every program runs in plain NumPy without errors, and its numbers hardly depend on rounding: floats stay below 4, every
float operation moves its result about as far as its operands, and no branch hangs on a float that was computed.
"""

from __future__ import annotations

from contextlib import contextmanager
from random import Random

from fuzz.expressions import BOOL, FLOAT, INT, Expressions, Scope


class Program(Expressions):
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
        choices = [self.assign, self.update, self.update, self.masked_update, self.view_update, self.scatter]
        if self.depth < 3:
            choices += [self.loop, self.loop, self.accumulate, self.branch, self.count_down, self.over_elements]
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

    def view_update(self) -> None:
        """A part of an array gets a name, and what is written to that name is written to the array."""
        name = self.random.choice(sorted(self.scope.writable))
        kind, shape = self.scope.arrays[name]
        part, left = self.part(name, shape)
        if not left:
            self.emit("pass")
            return
        view = self.name("p")
        self.emit(f"{view} = {part}")
        value = self.expression(kind, left, 2)
        if kind == FLOAT:
            how = self.random.choice((f"{view}[:] = {value}", f"{view} *= np.cos({value})", f"{view}[0] = 0.75"))
        else:
            how = self.random.choice((f"{view} += {value}", f"{view}[...] = {value}", f"{view}[-1] -= 2"))
        self.emit(how)

    def scatter(self) -> None:
        """Elements at positions that are computed, which may be the same ones."""
        name, size = self.random.choice((("v", self.columns), ("w", self.columns), ("m", self.rows)))
        indices = f"({self.expression(INT, (self.random.randint(1, 4),), 1)}) % {size}"
        value = "0.25" if name == "v" else self.random.choice(("7", "-1"))
        self.emit(f"{name}[{indices}] {self.random.choice(('=', '+=')) if name != 'v' else '='} {value}")

    def over_elements(self) -> None:
        """A loop over an array itself, with or without numbers."""
        total, each = self.name("a"), self.name("e")
        self.emit(f"{total} = 0.0")
        over, counters = self.random.choice((
            (f"for {each} in v:", {}),
            (f"for {each} in x[:, {self.random.randint(0, self.columns - 1)}]:", {}),
            (f"for q, {each} in enumerate(u):", {"q": (0, self.rows - 1)}),
            (f"for {each}, f in zip(u, y[:, 0]):", {}),
        ))  # fmt: skip
        with self.block(over, counters):
            self.scope.arrays[each] = (FLOAT, ())
            self.emit(f"{total} += 0.125 * ({self.expression(FLOAT, (), 2)})")
            if self.chance(0.3):
                self.update()
        self.scope.arrays[total] = (FLOAT, ())

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
