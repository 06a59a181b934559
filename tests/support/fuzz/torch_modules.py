"""torch modules: random graphs of operators with sampled arguments, through torch.export; and kernels that spell
torch's functions. The peer is eager torch.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import mlirtri as mt
from fuzz import tensor_rules  # noqa: F401 - fills RULES
from fuzz.bounded_array import Bounded
from fuzz.bounded_tensor import NUMPY, RULES, BoundedTensor, bounded
from fuzz.program import Environment, Program, execute, imported
from fuzz.templates import LARGEST, SIZES, Generator, finish, random_array

PIPELINES = ("linalg", "mlir", "poly")

UNARY = "sin cos tanh exp log sqrt abs neg square floor ceil round sigmoid relu erf expm1 log1p rsqrt reciprocal tan atan sign".split()
ACTIVATIONS = "silu gelu softplus elu leaky_relu hardtanh relu6 hardsigmoid hardswish mish logsigmoid softsign".split()
BINARY = "add sub mul div maximum minimum pow atan2 fmod remainder".split()
COMMON: tuple[tuple[int, str], ...] = (
    *((1, f"torch.{name}({{f}})") for name in UNARY),
    *((1, f"torch.{name}({{f}}, {{d}})") for name in BINARY),
    *((5, f"{{a}} {sign} {{b}}") for sign in ("+", "-", "*", "/")), *((1, f"{{a}} {sign} {{b}}") for sign in ("<", ">=", "!=")),
    (3, "torch.where({a} > 0, {b}, {b2})"), (1, "torch.clamp({a}, -1, 1)"), (1, "{f} ** 2"), (2, "{a}.to(torch.{dtype})"),
    *((2, f"torch.{name}({{v}}, dim={{axis}}, keepdim={{keep}})") for name in ("sum", "mean", "amax", "amin", "prod")),
    (1, "torch.sum({v}, dim={several})"), (1, "torch.amax({v}, dim={several})"), (1, "{f}.sum()"), (1, "torch.cumsum({v}, dim={axis})"),
    (2, "torch.softmax({w}, dim={axis})"), (1, "torch.log_softmax({w}, dim={axis})"), (1, "torch.logsumexp({w}, dim={axis})"),
    (1, "torch.var({w}, dim={axis}, correction={k}, keepdim={keep})"), (1, "torch.argmax({w}, dim={axis})"),
    (1, "torch.any({m}, dim={axis})"), (1, "torch.all({m}, dim={axis})"),
    (4, "{v} @ {q}"), (2, "{M} @ {d}.transpose(-1, -2)"), (1, "torch.matmul({M}.mT, {d})"),
    (3, "{v}[{index}]"), (2, "{v}.permute{axes}"), (2, "{M}.transpose(0, {axis})"), (2, "{a}.reshape({shape})"), (1, "{v}.flatten()"),
    (1, "torch.flip({v}, [{axis}])"), (1, "torch.roll({v}, {shift}, {axis})"), (2, "torch.cat([{v}, {d}], dim={axis})"),
    (1, "torch.stack([{a}, {d}], dim={axis})"), (1, "{a}.unsqueeze(0)"), (1, "{a}.squeeze()"), (1, "torch.tile({v}, ({size},))"),
    (1, "torch.tril({M}, {shift})"), (1, "torch.triu({M})"), (1, "{v}.repeat_interleave({size}, dim={axis})"), (1, "torch.zeros_like({a}) + 1"),
    (1, "{a}.expand({wider})"), (1, "{v}.narrow({axis}, 0, 1)"), (1, "torch.movedim({M}, 0, -1)"), (1, "{a}.clone()"), (1, "{M}.diagonal()"),
)  # fmt: skip
MODULES: tuple[tuple[int, str], ...] = (
    *((1, f"F.{name}({{f}})") for name in ACTIVATIONS),
    (2, "F.layer_norm({w}, {w}.shape[-1:])"), (1, "F.layer_norm({w}, {w}.shape[-1:], {w}.shape and x0[0, :1].expand({w}.shape[-1]))"),
    (3, "F.linear({w}, {l})"), (2, "F.conv1d({c3}, {k3})"), (2, "F.conv1d({c3}, {k3}, padding=1)"), (1, "F.conv1d({c3}, {k3}, stride=2, padding=2)"),
    (3, "F.conv2d({c4}, {k4}, padding=1)"), (1, "F.conv2d({c4}, {k4}, stride=2, padding=1)"), (1, "F.conv2d({c4}, {k4}, dilation=2, padding=2)"),
    (2, "F.max_pool2d({c4}, 2)"), (1, "F.max_pool2d({c4}, 3, 2, 1)"), (2, "F.avg_pool2d({c4}, 2)"), (1, "F.pad({v}, (1, 2))"), (1, "F.pad({v}, (0, 1), 'constant', 0.5)"),
    (1, "F.normalize({w}, dim={axis})"), (1, "{f}.masked_fill({f} > {s}, {s2})"), (1, "torch.addmm({q}, {M}, {q})"),
    (1, "torch.index_select({v}, {axis}, torch.tensor([0, 0]))"), (1, "torch.gather({v}, {axis}, torch.zeros_like({v}).to(torch.int64))"),
)  # fmt: skip


class _Modules(Generator):
    dtypes = ("float32", "float64", "int32", "int64", "bool", "float32", "bfloat16", "float16")

    def __init__(self, random: Random, environment: Environment, names: list[str], modules: bool):
        super().__init__(random, environment, names)
        self.templates = [*COMMON, *(MODULES * 2 if modules else ())]
        self.weights = [weight for weight, _ in self.templates]

    def kind(self, name: str) -> str:
        dtype = self.value(name).dtype
        return "f" if dtype.is_floating_point else "b" if dtype == torch.bool else "i"

    def slot(self, slot: str, full: str) -> str:
        """Images and weights of convolutions have ranks of their own."""
        if slot in ("c", "k") and full[2:-1].isdigit() and full != "{k}":
            rank = int(full[2:-1])
            names = [name for name in self.names if len(self.shape(name)) == rank and self.kind(name) == "f"]
            if slot == "k":
                channels = self.subject()[1]
                names = [name for name in names if self.shape(name)[1] == channels]
            self.slots.setdefault("subject", chosen := self.choose(names))
            return chosen
        return super().slot(slot, full)

    def slot_l(self) -> str:
        inner = self.subject()[-1]
        return self.choose(
            [
                name
                for name in self.names
                if len(self.shape(name)) == 2 and self.shape(name)[1] == inner and self.kind(name) == "f"
            ]
        )

    def cut(self, size: int) -> str:
        """Torch has no negative steps."""
        return super().cut(size).replace("::-1", "::2").replace("::-2", "::2")

    def statement(self) -> None:
        ((_, template),) = self.random.choices(self.templates, self.weights)
        name = self.name()
        text = f"{name} = {self.fill(template)}"
        trial = dict(self.environment)
        try:
            execute(text, trial)
        except Exception:
            return
        value = trial[name]
        if isinstance(value, BoundedTensor) and 0 < value.numel() <= LARGEST and comparable(value):
            self.attempt_checked(text, trial, name)

    def attempt_checked(self, text: str, trial: Environment, name: str) -> None:
        from fuzz.program import Statement

        self.environment.update(trial)
        self.statements.append(Statement(text))
        self.names.append(name)


def comparable(value: BoundedTensor) -> bool:
    if value.error is None:
        return True
    return bool(
        (value.error <= 2.0**-6 * (1 + value.high.abs())).all()
        & value.high.isfinite().all()
        & value.low.isfinite().all()
    )


class _Torch:
    """The name ``torch`` of a program whose reference runs."""

    def __getattr__(self, name: str) -> Any:
        if name == "tensor":
            return lambda *arguments, **named: bounded(torch.tensor(*arguments, **named))
        return RULES[name] if name in RULES else getattr(torch, name)


class _Functional:
    def __getattr__(self, name: str) -> Any:
        return RULES[name] if name in RULES else getattr(F, name)


def start(program: Program) -> Environment:
    environment: Environment = {"torch": _Torch(), "F": _Functional()}
    for name, value in program.arguments.items():
        environment[name] = bounded(value.clone())
    return environment


def evaluate_torch(program: Program) -> Environment:
    environment = start(program)
    for statement in program.statements:
        execute(statement.text, environment)
    return environment


def expected(program: Program, environment: Environment) -> list[Any]:
    """Return the results as NumPy's, with their bounds."""
    return [_array(environment[name]) for name in program.results]


def _array(value: BoundedTensor) -> Bounded:
    low = as_numpy(value.low)
    if value.error is None:
        return Bounded(low, low, None)
    return Bounded(low, value.high.numpy().astype(np.longdouble), value.error.numpy().astype(np.longdouble))


def as_numpy(value: torch.Tensor) -> Any:
    value = value.detach()
    if value.dtype == torch.bfloat16:
        return value.contiguous().view(torch.int16).numpy().view(NUMPY[torch.bfloat16])
    return value.numpy()


def generate(random: Random, kind: str = "torch") -> Program:
    while True:
        rows, columns = random.choice(SIZES), random.choice(SIZES)
        channels, size = random.randint(1, 4), random.choice((5, 6, 8, 9))
        shapes = [(rows, columns), (rows, columns), (columns,), (columns, rows), (2, rows, columns), (rows,)]
        images = [
            (1, channels, size, size),
            (random.randint(1, 5), channels, 3, 3),
            (2, channels, size),
            (3, channels, 3),
        ]
        chosen = [
            (rows, columns),
            *random.sample(shapes, random.randint(1, 4)),
            *(images if kind == "torch" and random.random() < 0.4 else ()),
        ]
        main = random.choice(("float32", "float32", "float32", "float64", "bfloat16", "float16"))
        arguments: dict[str, Any] = {}
        for position, shape in enumerate(chosen):
            dtype = (
                main if random.random() < 0.8 or not position else random.choice(("float32", "int64", "int32", "bool"))
            )
            plain = random_array(random, "float32" if "float" in dtype else dtype, shape)
            arguments[f"x{position}"] = torch.from_numpy(plain.copy()).to(getattr(torch, dtype))
        program = Program(kind, arguments, (), ())
        generator = _Modules(random, start(program), list(arguments), kind == "torch")
        wanted = random.randint(3, 16)
        for _ in range(30 * wanted):
            try:
                generator.statement()
            except LookupError:
                continue
            if len(generator.statements) >= wanted:
                break
        program = finish(kind, generator, arguments)
        if generator.statements:
            return program


def generate_kernels(random: Random) -> Program:
    return generate(random, "torch_kernels")


HEADER = "import torch\nimport torch.nn.functional as F\n\nimport mlirtri as mt\n\n\n"


def text_of(program: Program) -> str:
    returned = f"return {', '.join(program.results)}"
    lines = [*(line for statement in program.statements for line in statement.text.splitlines()), returned]
    if program.kind == "torch_kernels":
        return (
            f"{HEADER}def program({', '.join(program.arguments)}):\n"
            + "\n".join(f"    {line}" for line in lines)
            + "\n"
        )
    method = f"class Module(torch.nn.Module):\n    def forward(self, {', '.join(program.arguments)}):\n"
    return HEADER + method + "\n".join(f"        {line}" for line in lines) + "\n"


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")


def run(program: Program, pipeline: str) -> list[Any]:
    file = Path(_FOLDER.name) / "module.py"
    file.write_text(text_of(program))
    spec = importlib.util.spec_from_file_location("module", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = tuple(value.clone() for value in program.arguments.values())
    if program.kind == "torch_kernels":
        returned = mt.jit(module.program, pipeline=pipeline)(*arguments)
    else:
        returned = imported(program, lambda: mt.from_torch(module.Module().eval(), arguments)).compile(
            pipeline=pipeline
        )(*arguments)
    return [
        as_numpy(each) if isinstance(each, torch.Tensor) else each
        for each in (returned if isinstance(returned, (tuple, list)) else [returned])
    ]


def as_test(program: Program, pipeline: str, title: str) -> str:
    """Return a test of the module against eager torch."""
    arguments = "".join(
        f"torch.tensor({value.tolist()!r}, dtype={value.dtype}), " for value in program.arguments.values()
    )
    text = text_of(program)
    if program.kind == "torch_kernels":
        compiled, eager = f"mt.jit(program, pipeline={pipeline!r})", "program"
    else:
        compiled, eager = f"mt.from_torch(Module(), arguments).compile(pipeline={pipeline!r})", "Module()"
    return (
        f'"""{title}"""\n\n{text}\n\ndef test_program():\n    arguments = ({arguments})\n    expected = {eager}(*arguments)\n'
        f"    result = {compiled}(*arguments)\n    torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-3)\n"
    )


__all__ = ["PIPELINES", "as_test", "expected", "generate", "run", "start", "text_of"]
