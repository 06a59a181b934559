"""Random expressions for generated programs: of a wanted kind and shape, from what stands in a scope.

Floats stay below 4 and every operation moves its result about as far as its operands; conditions compare integers, or
floats that nobody computed. So the numbers of a program hardly depend on rounding, and its branches not at all.
"""

from __future__ import annotations

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


class Expressions:
    """Makes expressions as text; `scope` says what they may use."""

    random: Random
    scope: Scope
    rows: int
    columns: int
    float: str
    int: str

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

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
            "np.clip({a}, -1, 1.5)", "({i} % 4) * 0.5", "{r}", "{r}", "{m}",
        ))  # fmt: skip
        return self.filled(form, FLOAT, shape, depth)

    def int_expression(self, shape: Shape, depth: int) -> str:
        form = self.random.choice((
            "({a} + {b})", "({a} - {b})", "{a} * {b}", "{a} // 3", "{a} % 5", "np.maximum({a}, {b})", "({a} & {b})",
            "({a} ^ 6)", "({a} >> 1)", "np.abs({a})", "np.where({c}, {a}, {b})", "-({a})", "{r}", "{m}",
        ))  # fmt: skip
        return self.filled(form, INT, shape, depth)

    def filled(self, form: str, kind: str, shape: Shape, depth: int) -> str:
        if "{r}" in form:
            return self.reduction(kind, shape, depth)
        if "{m}" in form:
            return self.moved(kind, shape, depth)
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

    def moved(self, kind: str, shape: Shape, depth: int) -> str:
        """Elements at other indices, or selected ones."""
        a = self.expression(kind, shape, depth - 1)
        if not shape:
            # Which of two scalars it is would decide the dtype otherwise.
            dtype = self.float if kind == FLOAT else self.int
            a, b = (f"np.{dtype}({each})" for each in (a, self.expression(kind, shape, depth - 1)))
            chosen = f"({a} if {self.condition((), 1)} else {b})"
            return self.random.choice((chosen, f"min({a}, {b})", f"max({a}, {b})"))
        forms = [f"np.roll({a}, {self.random.randint(-2, 2)}, axis=0)", f"np.flip({a}, 0)"]
        if len(shape) == 2:
            forms.append(f"({self.expression(kind, shape[::-1], depth - 1)}).T")
            forms.append(f"({a}).reshape({shape[1]}, {shape[0]}).T.reshape({shape[0]}, {shape[1]})")
        else:
            name, size = ("u", self.rows) if kind == FLOAT else ("w", self.columns)
            forms.append(f"{name}[({self.expression(INT, shape, depth - 1)}) % {size}]")
        if len(shape) == 1 and shape[0] > 1:
            cut = self.random.randint(1, shape[0] - 1)
            halves = [self.expression(kind, (size,), depth - 1) for size in (cut, shape[0] - cut)]
            forms.append(f"np.concatenate(({', '.join(halves)}))")
            forms.append(f"np.sort({a})" if kind == INT else f"0.2 * np.cumsum({a})")
        return self.random.choice(forms)

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
