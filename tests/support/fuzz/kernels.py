"""NumPy-language kernels: straight code from templates over dtypes, complex numbers, views, masks, run-time lengths and
device regions; and loops, branches and updates from `imperative.py`.
"""

from __future__ import annotations

import ast
import importlib.util
import tempfile
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import mlirtri as mt
from fuzz.bounded_array import bounded, low
from fuzz.imperative import Program as ImperativeText
from fuzz.program import Environment, Program, Statement, comparable, copied, enter, evaluate
from fuzz.templates import SIZES, Generator, finish, random_array

PIPELINES = ("interpreter", "linalg", "relax", "mlir", "poly")

UNARY = (
    "sin cos tan tanh exp log sqrt abs negative square reciprocal floor ceil trunc rint sign exp2 expm1 log1p log2 log10 arctan "
    "arcsin arccos sinh cosh arcsinh arccosh arctanh cbrt isnan isinf isfinite signbit logical_not deg2rad positive fabs"
).split()
BINARY = (
    "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot copysign less "
    "greater_equal not_equal equal logical_and logical_or logical_xor heaviside logaddexp"
).split()
TEMPLATES: tuple[tuple[int, str], ...] = (
    *((1, f"np.{name}({{f}})") for name in UNARY),
    *((1, f"np.{name}({{a}}, {{b}})") for name in BINARY),
    *((4, f"{{a}} {sign} {{b}}") for sign in ("+", "-", "*", "/")),
    *((1, f"{{a}} {sign} {{b}}") for sign in ("//", "%", "<", ">=", "==", "!=")),
    *((1, f"{{i}} {sign} {{b}}") for sign in ("&", "|", "^", "<<", ">>", "//", "%")),
    *((1, f"{{m}} {sign} {{b}}") for sign in ("&", "|", "^")),
    (1, "{f} ** {k}"), (1, "{i} ** 2"), (1, "~{i}"), (1, "~{m}"), (1, "-{a}"), (1, "np.abs({a})"), (1, "abs({i})"),
    (4, "np.where({a} > 0, {b}, {b2})"), (2, "np.where({m}, {b}, {b2})"), (2, "np.clip({a}, -1, 1)"), (1, "np.clip({f}, {s}, 2.5)"),
    (3, "{a}.astype(np.{dtype})"), (1, "np.{dtype}({s}) * {f}"),
    # Sums, extrema, positions, scans.
    *((1, f"np.{name}({{a}}, axis={{maybe}}, keepdims={{keep}})") for name in ("sum", "prod", "mean", "max", "min", "var", "std")),
    *((1, f"np.{name}({{v}}, axis={{several}})") for name in ("sum", "max", "mean", "any")),
    *((1, f"np.{name}({{v}}, axis={{axis}})") for name in ("argmax", "argmin", "cumsum", "cumprod", "any", "all", "sort", "diff")),
    (1, "{a}.sum()"), (1, "{a}.max()"), (1, "np.std({w}, axis={axis}, ddof=1)"), (1, "np.argsort({v}, axis={axis}, kind='stable')"),
    (1, "{M}.sum(-1, keepdims=True)"), (1, "np.trace({M})"),
    # Products.
    (4, "{v} @ {q}"), (1, "np.dot({v}, {q})"), (1, "np.outer({v}, {d})"), (1, "np.einsum('ij,kj->ik', {M}, {d})"),
    (1, "np.einsum('ij,ij->j', {M}, {d})"), (2, "{M} @ {d}.T"), (1, "{M}.T @ {d}"),
    # Elements moved.
    (3, "{v}[{index}]"), (2, "np.transpose({v}, {axes})"), (2, "{M}.T"), (2, "{a}.reshape({shape})"), (1, "np.flip({v}, {axis})"),
    (1, "np.roll({v}, {shift}, axis={axis})"), (2, "np.concatenate(({v}, {d}), axis={axis})"), (1, "np.stack(({a}, {d}), axis={axis})"),
    (1, "np.expand_dims({v}, {axis})"), (1, "np.squeeze({a})"), (1, "np.swapaxes({M}, 0, {axis})"), (1, "np.tile({v}, {size})"),
    (1, "np.repeat({v}, {size}, axis={axis})"), (1, "np.pad({v}, {padding})"), (1, "np.pad({v}, {padding}, constant_values=1)"),
    (1, "np.tril({M}, {shift})"), (1, "np.triu({M}, {shift})"), (1, "np.diag({v})"), (1, "np.diagonal({M})"), (1, "{M}.ravel()"),
    (1, "np.broadcast_to({a}, {wider})"), (1, "np.pad({v}, {padding}, mode='edge')"), (1, "np.rot90({M})"),
    (1, "np.take({v}, [0, -1, 0], axis={axis})"), (1, "{v}[[0, -1]]"), (1, "{v}[np.arange(2)]"), (1, "{v}[::-1] - {d}"),
    (1, "np.take_along_axis({v}, np.argsort({v}, axis={axis}, kind='stable'), axis={axis})"), (1, "np.zeros_like({a})"),
    (1, "np.full_like({a}, 2)"), (1, "np.arange(5) * {k}"), (1, "np.arange(1.0, 4.0, 0.5)"), (1, "np.ones({size}) + {a}"),
    (1, "np.eye(3) * {s}"), (1, "{a}.copy()"), (1, "{a}[..., None]"), (1, "np.where({v}[1:] > {v}[:-1], 1.0, {s})"),
)  # fmt: skip
COMPLEX = (
    (2, "{g} * {b}"), (2, "{g} + {b}"), (1, "{g} / ({b} + 3)"), (1, "np.conj({g})"), (1, "{g}.real"), (1, "{g}.imag"), (1, "np.abs({g})"),
    (1, "{f} + 1j * {d}"), (1, "np.exp({g} * 0.25)"), (1, "np.square({g})"), (1, "{g} @ {q}"), (1, "np.sum({g}, axis={maybe})"),
    (1, "({g}).astype(np.complex64)"),
)  # fmt: skip
UPDATES = (
    "{v}[{index}] = {k}", "{v}[{index}] += {b}", "{f} *= {b}", "{w}[{w} > 0] = {s}", "{w}[{w} < {s}] *= {s2}", "{v}[:] = {d}",
    "{v}[1:] = {v}[:-1]", "{i} += {k}", "{M}[:] = {M}.T", "{v}[::-1] -= {d}", "{v}[{index}] *= {k}", "np.copyto({v}, {k})",
)  # fmt: skip
RUN_TIME_LENGTHS = ("{f}[{f} > {s}]", "{v}[{c}]", "{f}[{f} > {s}].sum()", "{f}[{f} < {s}] * 2")


class _Kernels(Generator):
    def __init__(self, *arguments: Any, complex_numbers: bool, lengths: bool, updates: bool, devices: bool):
        super().__init__(*arguments)
        self.templates = [*TEMPLATES, *(COMPLEX * 3 if complex_numbers else ())]
        self.templates += [(6, template) for template in RUN_TIME_LENGTHS if lengths]
        self.weights = [weight for weight, _ in self.templates]
        self.updates, self.devices = updates, devices
        self.dtypes = (
            "float32",
            "float64",
            "int32",
            "int64",
            "float16",
            "int8",
            "uint8",
            "bool_",
            *(["complex64"] * complex_numbers),
        )

    def grow(self, statements: int) -> None:
        for _ in range(40 * statements):
            if len(self.statements) >= statements:
                return
            try:
                self.statement()
            except LookupError:
                continue

    def statement(self) -> None:
        if self.updates and self.random.random() < 0.25:
            text = self.fill(self.random.choice(UPDATES))
            subject = self.slots["subject"]
            before = len(self.statements)
            if self.attempt(text) and not comparable(self.value(subject)):
                del self.statements[before:]
                raise _Lost
            return
        ((_, template),) = self.random.choices(self.templates, self.weights)
        name = self.name()
        text = f"{name} = {self.fill(template)}"
        if self.devices and self.random.random() < 0.3:
            text = f"with mt.device('cpu', {self.random.randint(0, 1)}):\n    {text}"
        self.attempt(text, names=[name])


class _Lost(Exception):
    """An update made a value that cannot be compared; what it changed cannot be undone."""


def start(program: Program) -> Environment:
    environment = enter(program)
    environment["mt"] = SimpleNamespace(device=lambda *_: nullcontext())
    environment["__arguments__"] = [environment[name] for name in program.arguments]
    return environment


def arguments_of(random: Random, dtypes: tuple[str, ...], special: bool) -> dict[str, Any]:
    """Return arrays whose sizes match here and there, some of them strided."""
    rows, columns = random.choice(SIZES), random.choice(SIZES)
    if random.random() < 0.03:
        columns = 0
    shapes = [(rows, columns), (rows, columns), (columns,), (rows,), (columns, rows), (), (2, rows, columns)]
    arguments: dict[str, Any] = {}
    for position, shape in enumerate(random.sample(shapes, random.randint(2, 5))):
        dtype = dtypes[0] if random.random() < 0.6 else random.choice(dtypes)
        array = random_array(random, dtype, shape, special and random.random() < 0.5)
        if len(shape) > 1 and random.random() < 0.15:
            array = np.ascontiguousarray(array.T).T
        arguments[f"x{position}"] = array if shape else array[()]
    return arguments


def generate(random: Random) -> Program:
    if random.random() < 0.4:
        return _imperative(random)
    while True:
        complex_numbers = random.random() < 0.15
        dtypes = [
            random.choice(("float32", "float64", "float32", "float16", "int32", "int64")),
            "int64",
            "float32",
            "bool",
            "int8",
            "uint8",
        ]
        if complex_numbers:
            dtypes[0] = random.choice(("complex64", "complex128"))
        arguments = arguments_of(random, tuple(dtypes), random.random() < 0.1)
        program = Program("kernels", arguments, (), ())
        generator = _Kernels(
            random, start(program), list(arguments), complex_numbers=complex_numbers, lengths=random.random() < 0.1,
            updates=random.random() < 0.3, devices=random.random() < 0.05,
        )  # fmt: skip
        try:
            generator.grow(random.randint(3, 24))
        except _Lost:
            continue
        program = finish("kernels", generator, arguments, helpers="import numpy as np\n\nimport mlirtri as mt\n")
        if generator.statements and _sound(program):
            return program


def _imperative(random: Random) -> Program:
    """A program with loops, branches and updates."""
    while True:
        made = ImperativeText(random)
        tree = ast.parse(made.text)
        function = tree.body[-1]
        assert isinstance(function, ast.FunctionDef)
        returned = function.body[-1]
        assert isinstance(returned, ast.Return)
        assert returned.value is not None
        results = returned.value.elts if isinstance(returned.value, ast.Tuple) else [returned.value]
        dtypes = {"F": made.float, "I": made.int}
        arguments = {
            name: random_array(random, dtypes[kind], shape) if shape else 0.75
            for name, (kind, shape) in made.arguments.items()
        }
        helpers = "import numpy as np\n\n\ndef half(a, b=1):\n    return 0.5 * (a + b)\n"
        program = Program(
            "kernels", arguments, tuple(Statement(ast.unparse(each)) for each in function.body[:-1]),
            tuple(ast.unparse(each) for each in results), helpers,
        )  # fmt: skip
        if _sound(program):
            return program


def _sound(program: Program) -> bool:
    """Whether the whole reference runs and bounds what it gives."""
    try:
        environment = evaluate(program, start)
    except Exception:
        return False
    return all(comparable(each) for each in expected(program, environment) if not isinstance(each, float))


def expected(program: Program, environment: Environment) -> list[Any]:
    """Return the results, then the arguments as they are after the call."""
    return [*(environment[name] for name in program.results), *environment["__arguments__"]]


def text_of(program: Program, name: str = "program") -> str:
    body = "\n".join(statement.text for statement in program.statements).splitlines()
    lines = [*body, f"return {', '.join(program.results)}" if program.results else "pass"]
    return (
        f"{program.helpers}\n\ndef {name}({', '.join(program.arguments)}):\n"
        + "\n".join(f"    {line}" for line in lines)
        + "\n"
    )


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")


def run(program: Program, pipeline: str) -> list[Any]:
    """Compile and call the program; return results, then arguments."""
    file = Path(_FOLDER.name) / "program.py"
    file.write_text(text_of(program))
    spec = importlib.util.spec_from_file_location("program", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = [copied(value) for value in program.arguments.values()]
    returned = mt.jit(module.program, pipeline=pipeline)(*arguments)
    results = returned if isinstance(returned, tuple) else (returned,) if program.results else ()
    return [*results, *arguments]


def as_test(program: Program, pipeline: str, title: str) -> str:
    """Return a test of the program against plain Python."""
    values = [f"{low(value).tolist()!r}, np.{value.dtype}" if isinstance(value, (np.ndarray, np.generic)) else repr(value)
              for value in program.arguments.values()]  # fmt: skip
    arrays = "".join(f"np.array({each}), " if "np." in each else f"{each}, " for each in values)
    return (
        f'"""{title}"""\n\nimport numpy as np\nfrom numpy_kernel_checks import compare_results\n\nimport mlirtri as mt\n\nnan, inf = np.nan, np.inf\n\n\n'
        + text_of(program).replace("import numpy as np\n", "").replace("import mlirtri as mt\n", "").lstrip("\n")
        + f"\n\ndef test_program():\n    arguments = ({arrays})\n    plain, compiled = ([np.copy(each)[()] for each in arguments] for _ in range(2))\n"
        + f"    expected = program(*plain)\n    result = mt.jit(program, pipeline={pipeline!r})(*compiled)\n"
        + '    compare_results(result, expected, 1e-3, "result")\n    compare_results(tuple(compiled), tuple(plain), 1e-3, "argument")\n'
    )


__all__ = ["PIPELINES", "as_test", "bounded", "expected", "generate", "run", "start", "text_of"]
