"""Relax modules: random graphs of operators. The peer is NumPy, which says what each operator means.

A template has both languages: NumPy's before the arrow, Relax's after it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import mlirtri as mt
from fuzz.module_tests import run_module, test_of_module
from fuzz.program import Environment, Program, comparable, enter, evaluate
from fuzz.templates import SIZES, Generator, finish, random_array

PIPELINES = ("relax", "linalg", "mlir")

SAME_NAMES = "sin cos tan exp log sqrt abs negative square floor ceil sinh cosh sign trunc tanh".split()
OTHER_NAMES = {"arctan": "atan", "arcsin": "asin", "arccos": "acos", "rint": "round"}
BINARY = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "maximum": "maximum", "minimum": "minimum",
          "power": "power"}  # fmt: skip
COMPARISONS = {
    "less": "less",
    "greater": "greater",
    "less_equal": "less_equal",
    "equal": "equal",
    "not_equal": "not_equal",
}
TEMPLATES: tuple[tuple[int, str], ...] = (
    *((1, f"np.{name}({{f}}) -> R.{name}({{f}})") for name in SAME_NAMES),
    *((1, f"np.{name}({{f}}) -> R.{other}({{f}})") for name, other in OTHER_NAMES.items()),
    *((3, f"np.{name}({{f}}, {{e}}) -> R.{other}({{f}}, {{e}})") for name, other in BINARY.items()),
    *((1, f"np.{name}({{n}}, {{e}}) -> R.{other}({{n}}, {{e}})") for name, other in COMPARISONS.items()),
    *((1, f"np.{name}({{i}}, {{e}}) -> R.{name}({{i}}, {{e}})") for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "add", "multiply", "maximum")),
    (2, "{f} * np.{dt}({s}) -> R.multiply({f}, R.const({s}, '{dt}'))"), (2, "{f} + np.{dt}({s}) -> R.add({f}, R.const({s}, '{dt}'))"),
    (1, "np.maximum({f}, np.{dt}(0)) -> R.nn.relu({f})"), (1, "1 / (1 + np.exp(-{f})) -> R.sigmoid({f})"), (1, "1 / np.sqrt({f}) -> R.rsqrt({f})"),
    (1, "{f} / (1 + np.exp(-{f})) -> R.nn.silu({f})"), (1, "np.clip({f}, -1, 1) -> R.clip({f}, -1, 1)"),
    (2, "np.where({m}, {x}, {y}) -> R.where({m}, {x}, {y})"), (1, "np.where({n} > 0, {n}, {e}) -> R.where(R.greater({n}, R.const(0, '{dt}')), {n}, {e})"),
    (2, "{n}.astype(np.{dtype}) -> R.astype({n}, '{dtype}')"), (1, "~{m} -> R.logical_not({m})"), (1, "{m} & {e} -> R.logical_and({m}, {e})"),
    *((2, f"np.{name}({{w}}, axis={{axis}}, keepdims={{keep}}) -> R.{name}({{w}}, axis=[{{axis}}], keepdims={{keep}})")
      for name in ("sum", "mean", "max", "min", "prod")),
    *((1, f"np.{name}({{w}}, axis={{several}}) -> R.{name}({{w}}, axis={{several}})") for name in ("sum", "max", "mean")),
    (1, "np.var({w}, axis={axis}) -> R.variance({w}, axis=[{axis}])"), (1, "np.std({w}, axis={axis}) -> R.std({w}, axis=[{axis}])"),
    (1, "np.argmax({w}, axis={axis}) -> R.argmax({w}, axis={axis})"), (1, "np.argmin({w}, axis={axis}) -> R.argmin({w}, axis={axis})"),
    (1, "np.cumsum({w}, axis={axis}) -> R.cumsum({w}, axis={axis})"), (1, "np.sort({w}, axis={axis}) -> R.sort({w}, axis={axis})"),
    (2, "softmax({w}, {axis}) -> R.nn.softmax({w}, axis={axis})"), (1, "np.log(softmax({w}, {axis})) -> R.nn.log_softmax({w}, axis={axis})"),
    (3, "{w} @ {r} -> R.matmul({w}, {r})"), (2, "{F} @ np.swapaxes({o}, -1, -2) -> R.matmul({F}, R.permute_dims({o}, {lastswap}))"),
    (2, "np.transpose({v}, {axes}) -> R.permute_dims({v}, {axes})"), (2, "{n}.reshape({shape}) -> R.reshape({n}, {shape})"),
    (1, "np.flip({v}, {positive}) -> R.flip({v}, {positive})"), (2, "np.concatenate(({v}, {o}), axis={axis}) -> R.concat(({v}, {o}), axis={axis})"),
    (1, "np.stack(({v}, {o}), axis={positive}) -> R.stack(({v}, {o}), axis={positive})"), (1, "np.expand_dims({v}, {axis}) -> R.expand_dims({v}, {axis})"),
    (1, "np.squeeze({v}) -> R.squeeze({v})"), (1, "np.repeat({v}, {size}, axis={axis}) -> R.repeat({v}, {size}, axis={axis})"),
    (1, "np.tile({v}, {size}) -> R.tile({v}, {size})"), (1, "np.broadcast_to({v}, {wider}) -> R.broadcast_to({v}, {wider})"),
    (1, "np.tril({M}, {shift}) -> R.tril({M}, {shift})"), (1, "np.triu({M}, {shift}) -> R.triu({M}, {shift})"),
    (1, "np.take({v}, [0, -1], axis={axis}) -> R.take({v}, R.const([0, -1], 'int64'), axis={axis}, mode='wrap')"),
    (2, "{v}[{begin}:{end}:{size}] -> R.strided_slice({v}, axes=[0], begin=[{begin}], end=[{end}], strides=[{size}])"),
    (1, "np.pad({w}, {padding}) -> R.nn.pad({w}, {padwidth})"), (1, "np.zeros_like({v}) + {v} -> R.add(R.zeros_like({v}), {v})"),
    (1, "np.ones_like({f}) * {f} -> R.multiply(R.ones_like({f}), {f})"), (1, "np.outer({V}, {o}) -> R.outer({V}, {o})"),
)  # fmt: skip


class _Modules(Generator):
    dtypes = ("float32", "float64", "int32", "int64", "float32", "float16")
    finite = True

    def slot_e(self) -> str:
        """An operand of the subject's dtype, which broadcasts with it: Relax promotes nothing."""
        return self.choose(
            [name for name in self.broadcasting() if self.value(name).dtype == self.value(self.slots["subject"]).dtype]
        )

    def slot_o(self) -> str:
        return self.choose(
            [
                name
                for name in self.names
                if self.shape(name) == self.subject()
                and self.value(name).dtype == self.value(self.slots["subject"]).dtype
            ]
        )

    def slot_x(self) -> str:
        self.second = self.choose([name for name in self.broadcasting("fi")])
        return self.second

    def slot_y(self) -> str:
        dtype = self.value(self.second).dtype
        return self.choose([name for name in self.broadcasting("fi") if self.value(name).dtype == dtype])

    def slot_r(self) -> str:
        mine = self.value(self.slots["subject"]).dtype
        inner = self.subject()[-1]
        return self.choose(
            [
                name
                for name in self.names
                if len(self.shape(name)) > 1 and self.shape(name)[-2] == inner and self.value(name).dtype == mine
            ]
        )

    def slot_F(self) -> str:
        return self.choose([name for name in self.names if len(self.shape(name)) > 1 and self.kind(name) == "f"])

    def slot_V(self) -> str:
        return self.choose([name for name in self.names if len(self.shape(name)) == 1 and self.kind(name) == "f"])

    def slot_lastswap(self) -> str:
        axes = list(range(len(self.subject())))
        axes[-1], axes[-2] = axes[-2], axes[-1]
        return str(axes)

    def slot_positive(self) -> str:
        return str(self.random.randrange(max(1, len(self.subject()))))

    def slot_dt(self) -> str:
        return str(self.value(self.slots["subject"]).dtype)

    def slot_begin(self) -> str:
        self.begin = self.random.randrange(self.subject()[0])
        return str(self.begin)

    def slot_end(self) -> str:
        return str(self.random.randint(self.begin + 1, self.subject()[0]))

    def slot_padwidth(self) -> str:
        return self.slots["{padding}"].replace("(", "").replace(")", "").join("[]").replace(",]", "]")

    def statement(self) -> None:
        ((_, template),) = self.random.choices(TEMPLATES, [weight for weight, _ in TEMPLATES])
        name = self.name()
        reference, source = self.fill(template).split(" -> ")
        self.attempt(f"{name} = {reference}", f"{name} = {source}", [name])


def softmax(value: Any, axis: int) -> Any:
    powers = np.exp(value - np.max(value, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def start(program: Program) -> Environment:
    return {**enter(program), "softmax": softmax}


def generate(random: Random) -> Program:
    while True:
        rows, columns = random.choice(SIZES), random.choice(SIZES)
        shapes = [
            (rows, columns),
            (rows, columns),
            (columns, rows),
            (columns,),
            (columns,),
            (rows, 1),
            (2, rows, columns),
        ]
        main = random.choice(("float32", "float32", "float32", "float64", "float16", "int32"))
        arguments = {
            f"x{position}": random_array(
                random, main if random.random() < 0.75 else random.choice(("float32", "int32", "int64", "bool")), shape
            )
            for position, shape in enumerate(random.sample(shapes, random.randint(2, 5)))
        }
        program = Program("relax", arguments, (), ())
        generator = _Modules(random, start(program), list(arguments))
        wanted = random.randint(3, 20)
        for _ in range(30 * wanted):
            try:
                generator.statement()
            except (LookupError, AttributeError):
                continue
            if len(generator.statements) >= wanted:
                break
        program = finish("relax", generator, arguments)
        if generator.statements and _sound(program):
            return program


def _sound(program: Program) -> bool:
    try:
        environment = evaluate(program, start)
    except Exception:
        return False
    return all(comparable(environment[name]) for name in program.results)


def expected(program: Program, environment: Environment) -> list[Any]:
    return [environment[name] for name in program.results]


def text_of(program: Program) -> str:
    parameters = ", ".join(
        f'{name}: R.Tensor({tuple(np.shape(value))}, "{value.dtype}")' for name, value in program.arguments.items()
    )
    lines = [statement.source for statement in program.statements]
    results = ", ".join(program.results)
    body = "\n".join(f"            {line}" for line in [*lines, f"result = ({results},)", "R.output(result)"])
    return (
        "@I.ir_module\nclass Module:\n"
        f"    @R.function\n    def main({parameters}):\n        with R.dataflow():\n{body}\n        return result\n"
    )


def run(program: Program, pipeline: str) -> list[Any]:
    return run_module(program, mt.from_relax, text_of(program), pipeline)


def as_test(program: Program, pipeline: str, title: str) -> str:
    return test_of_module(program, start, "from_relax", text_of(program), pipeline, title)
