"""MLIR modules of linalg on tensors: generics of random maps, iterator types and bodies, open sizes, tensor operations.

The peer is `generics.generic`, the definition of a `linalg.generic`: operands are gathered over the iteration space, the
body runs on all of it, and the reduced axes are combined.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

import mlirtri as mt
from fuzz.bounded_array import Bounded, low
from fuzz.generics import COMBINE, COMPARISONS, FLOAT_BODY, INTEGER_BODY, TYPES, generic, loop_sizes, neutral
from fuzz.module_tests import run_module, test_of_module
from fuzz.program import Environment, Program, comparable, enter, evaluate
from fuzz.templates import SIZES, Generator, finish, random_array

PIPELINES = ("linalg", "mlir", "poly")


class _Modules(Generator):
    def __init__(self, *arguments: Any, dynamic: bool):
        super().__init__(*arguments)
        self.dynamic = dynamic

    def statement(self) -> None:
        forms = [self.generic, self.generic, self.generic, self.contraction]
        if not self.dynamic:
            forms += [self.window, self.moved, self.moved, self.gather]
        self.random.choice(forms)()

    # --- generics ----------------------------------------------------------------------------------------------------

    def generic(self) -> None:
        """Elementwise over random maps; some of the loops may be reduced."""
        first = self.choose(self.names)
        rank = len(self.shape(first))
        loops = [f"d{position}" for position in range(rank)]
        self.random.shuffle(loops)
        sizes = dict(zip(loops, self.shape(first), strict=True))
        operands, maps = [first], [", ".join(loops)]
        for _ in range(self.random.randint(0, 2)):
            other = self.choose(self.names)
            indices = self.matching(self.shape(other), sizes)
            if indices is not None:
                operands.append(other)
                maps.append(", ".join(indices))
        kept = list(sizes)
        reduced = self.random.random() < 0.4 and rank > 0
        if reduced:
            kept = self.random.sample(kept, self.random.randint(0, rank - 1))
        self.random.shuffle(kept)
        self.emit(operands, maps, kept, sorted(sizes), reduced)

    def matching(self, shape: tuple[int, ...], sizes: dict[str, int]) -> list[str] | None:
        """Return loops of these extents, each once."""
        free, indices = dict(sizes), []
        for size in shape:
            same = [name for name, extent in free.items() if extent == size]
            if not same:
                return None
            indices.append(self.random.choice(same))
            del free[indices[-1]]
        return indices

    def contraction(self) -> None:
        """A product over axes that two operands share."""
        first, second = self.choose(self.names), self.choose(self.names)
        if self.value(first).dtype != self.value(second).dtype or not self.shape(first) or not self.shape(second):
            raise LookupError
        loops = [f"d{position}" for position in range(len(self.shape(first)))]
        sizes = dict(zip(loops, self.shape(first), strict=True))
        indices, shared = [], []
        for size in self.shape(second):
            same = [name for name, extent in sizes.items() if extent == size and name not in indices and name in loops]
            if same and self.random.random() < 0.7:
                indices.append(self.random.choice(same))
                shared.append(indices[-1])
            else:
                name = f"d{len(sizes)}"
                sizes[name] = size
                indices.append(name)
        if not shared or np.prod(list(sizes.values())) > 6000:
            raise LookupError
        gone = set(self.random.sample(shared, self.random.randint(1, len(shared))))
        kept = [name for name in sizes if name not in gone]
        self.random.shuffle(kept)
        self.emit([first, second], [", ".join(loops), ", ".join(indices)], kept, sorted(sizes), True, product=True)

    def window(self) -> None:
        """A convolution of one axis, or of two, with a stride."""
        image, kernel = self.choose(self.names), self.choose(self.names)
        rank = len(self.shape(image))
        if self.value(image).dtype != self.value(kernel).dtype or rank != len(self.shape(kernel)) or not 0 < rank < 3:
            raise LookupError
        stride = self.random.choice((1, 1, 2))
        scale = f"{stride} * " if stride > 1 else ""
        image_map = ", ".join(f"{scale}d{axis} + d{axis + rank}" for axis in range(rank))
        kernel_map = ", ".join(f"d{axis + rank}" for axis in range(rank))
        kept = [f"d{axis}" for axis in range(rank)]
        self.emit(
            [image, kernel], [image_map, kernel_map], kept, [f"d{axis}" for axis in range(2 * rank)], True, product=True
        )

    def emit(
        self,
        operands: list[str],
        maps: list[str],
        kept: list[str],
        loops: list[str],
        reduced: bool,
        product: bool = False,
    ) -> None:
        """Write a generic in both languages."""
        name = self.name()
        steps, lines, result, dtype = self.body(name, operands, product)
        combine = self.random.choice(("add", "add", "max", "min") if not product else ("add",)) if reduced else ""
        if combine and dtype == "bool":
            raise LookupError
        init = self.initial(kept, dtype, operands, maps) if combine and not self.dynamic else None
        reference = (
            f"{name} = generic({tuple(maps)!r}, ({', '.join(operands)},), {'; '.join(steps)!r}, {result!r}, {', '.join(kept)!r}, "
            f"{combine!r}, {init})"
        )
        # Loops are numbered without gaps in MLIR as here: `loops` are all of them in order.
        iterators = ", ".join('"parallel"' if loop in kept else '"reduction"' for loop in loops)
        affine = ", ".join(f"affine_map<({', '.join(loops)}) -> ({text})>" for text in [*maps, ", ".join(kept)])
        start = [f"%{name}_e = {self.empty(name, kept, operands, maps)}"]
        out = f"%{init}" if init else f"%{name}_e"
        if combine and init is None:
            start += [f"%{name}_z = arith.constant {neutral(combine, dtype)} : {TYPES[dtype]}",
                      f"%{name}_f = linalg.fill ins(%{name}_z : {TYPES[dtype]}) outs(%{name}_e : <{name}>) -> <{name}>"]  # fmt: skip
            out = f"%{name}_f"
        inputs = ", ".join(
            f"%{name}_in{position}: {TYPES[str(self.value(each).dtype)]}" for position, each in enumerate(operands)
        )
        yielded = f"%{name}_{result}"
        if combine:
            operation = COMBINE[combine][2 if dtype.startswith("float") else 3]
            lines = [*lines, f"%{name}_o = {operation} {yielded}, %{name}_out : {TYPES[dtype]}"]
            yielded = f"%{name}_o"
        text = "\n".join([
            *start,
            f"%{name} = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{iterators}]}}",
            f"    ins({', '.join(f'%{each}' for each in operands)} : {', '.join(f'<{each}>' for each in operands)}) outs({out} : <{name}>) {{",
            f"^bb0({inputs}, %{name}_out: {TYPES[dtype]}):", *(f"  {line}" for line in lines),
            f"  linalg.yield {yielded} : {TYPES[dtype]}", f"}} -> <{name}>",
        ])  # fmt: skip
        self.attempt(reference, text, [name])

    def initial(self, kept: list[str], dtype: str, operands: list[str], maps: list[str]) -> str | None:
        """Return a tensor to accumulate onto, where there is one of the result's shape."""
        if self.random.random() < 0.6:
            return None
        values = [self.value(each) for each in operands]
        sizes = loop_sizes(tuple(maps), tuple(values))
        shape = tuple(sizes[loop] for loop in kept)
        fitting = [each for each in self.names if self.shape(each) == shape and str(self.value(each).dtype) == dtype]
        return self.random.choice(fitting) if fitting else None

    def empty(self, name: str, kept: list[str], operands: list[str], maps: list[str]) -> str:
        """Return the operation that makes the result's memory; open sizes come from the operands."""
        if not self.dynamic:
            return f"tensor.empty() : <{name}>"
        sizes, before = [], []
        for position, loop in enumerate(kept):
            operand, axis = next((each, text.split(", ").index(loop)) for each, text in zip(operands, maps, strict=True)
                                 if loop in text.split(", "))  # fmt: skip
            before.append(
                f"%{name}_c{position} = arith.constant {axis} : index\n%{name}_d{position} = tensor.dim %{operand}, %{name}_c{position} : <{operand}>"
            )
            sizes.append(f"%{name}_d{position}")
        self.before = "\n".join(before)
        return f"tensor.empty({', '.join(sizes)}) : <{name}>"

    def attempt(self, text: str, source: str = "", names: Any = ()) -> bool:
        before, self.before = getattr(self, "before", ""), ""
        return super().attempt(text, f"{before}\n{source}".strip("\n"), names)

    # --- bodies ------------------------------------------------------------------------------------------------------

    def body(self, name: str, operands: list[str], product: bool) -> tuple[list[str], list[str], str, str]:
        """Return steps of the reference, lines of MLIR, the name of the result and its dtype."""
        values = {f"in{position}": str(self.value(each).dtype) for position, each in enumerate(operands)}
        steps: list[str] = []
        lines: list[str] = []
        count = 1 if product else self.random.randint(1, 4)
        for position in range(count):
            new = f"v{position}"
            if product:
                floats = values["in0"].startswith("float")
                if values["in0"] == "bool":
                    raise LookupError
                step, line, dtype = (
                    "in0 * in1",
                    f"arith.mul{'f' if floats else 'i'} %{name}_in0, %{name}_in1 : {TYPES[values['in0']]}",
                    values["in0"],
                )
            else:
                step, line, dtype = self.step(name, values, f"%{name}_{new}")
            steps.append(f"{new} = {step}")
            lines += [*line.split("\n")[:-1], f"%{name}_{new} = " + line.split("\n")[-1]]
            values[new] = dtype
        return steps, lines, new, values[new]

    def step(self, name: str, values: dict[str, str], prefix: str) -> tuple[str, str, str]:
        """Return one operation of a body, in both languages, and its result's dtype."""
        a = self.random.choice(list(values)[-2:] if self.random.random() < 0.7 else list(values))
        dtype = values[a]
        same = [each for each, other in values.items() if other == dtype]
        b, c = self.random.choice(same), self.random.choice(same)
        mlir = {"a": f"%{name}_{a}", "b": f"%{name}_{b}", "c": f"%{name}_{c}"}
        plain, kind = {"a": a, "b": b, "c": c}, TYPES[dtype]
        floats = dtype.startswith("float")
        form = self.random.random()
        if dtype == "bool":
            other = self.random.choice(("int32", "float32", "int64"))
            return (
                f"{a}.astype(np.{other})",
                f"arith.{'uitofp' if other[0] == 'f' else 'extui'} {mlir['a']} : i1 to {TYPES[other]}",
                other,
            )
        if form < 0.12:
            return self.cast(a, mlir["a"], dtype)
        if form < 0.24:
            sign, (ordered, integer) = self.random.choice(list(COMPARISONS.items()))
            compare = f"arith.cmpf {ordered}" if floats else f"arith.cmpi {integer}"
            lines = f"{prefix}_c = {compare}, {mlir['a']}, {mlir['b']} : {kind}\narith.select {prefix}_c, {mlir['a']}, {mlir['c']} : {kind}"
            return f"np.where({a} {sign} {b}, {a}, {c})", lines, dtype
        if form < 0.36:
            number = self.random.choice(("0.5", "-1.25", "2.0")) if floats else self.random.choice(("1", "-3", "7"))
            operation = self.random.choice(("add", "mul"))
            line = f"{prefix}_k = arith.constant {number} : {kind}\narith.{operation}{'f' if floats else 'i'} {mlir['a']}, {prefix}_k : {kind}"
            return f"{a} {'+' if operation == 'add' else '*'} {number}", line, dtype
        step, line = self.random.choice(FLOAT_BODY if floats else INTEGER_BODY)
        if not line:
            line = (f"{prefix}_a = math.absf {{b}} : {kind}\n{prefix}_1 = arith.constant 1.0 : {kind}\n"
                    f"{prefix}_s = arith.addf {prefix}_a, {prefix}_1 : {kind}\narith.divf {{a}}, {prefix}_s")  # fmt: skip
        return step.format(**plain), line.format(**mlir) + f" : {kind}", dtype

    def cast(self, a: str, value: str, dtype: str) -> tuple[str, str, str]:
        to = self.random.choice([each for each in ("float32", "float64", "int32", "int64", "int8") if each != dtype])
        wide = np.dtype(to).itemsize > np.dtype(dtype).itemsize
        operation = {
            ("f", "f"): "extf" if wide else "truncf", ("i", "i"): "extsi" if wide else "trunci", ("i", "f"): "sitofp", ("f", "i"): "fptosi",
        }[dtype[0], to[0]]  # fmt: skip
        return f"{a}.astype(np.{to})", f"arith.{operation} {value} : {TYPES[dtype]} to {TYPES[to]}", to

    # --- elements moved ----------------------------------------------------------------------------------------------

    def moved(self) -> None:
        name = self.name()
        a = self.choose([each for each in self.names if self.shape(each)])
        shape, rank = self.shape(a), len(self.shape(a))
        form = self.random.randrange(6)
        if form == 0:
            axes = self.random.sample(range(rank), rank)
            text = f"%{name}_e = tensor.empty() : <{name}>\n%{name} = linalg.transpose ins(%{a} : <{a}>) outs(%{name}_e : <{name}>) permutation = {axes}"
            self.attempt(f"{name} = np.transpose({a}, {axes})", text, [name])
        elif form == 1:
            steps = [self.random.choice((1, 1, 2)) for _ in shape]
            starts = [self.random.randrange(size) for size in shape]
            counts = [
                self.random.randint(1, (size - start - 1) // step + 1)
                for size, start, step in zip(shape, starts, steps, strict=True)
            ]
            index = ", ".join(
                f"{start}:{start + (count - 1) * step + 1}:{step}"
                for start, count, step in zip(starts, counts, steps, strict=True)
            )
            self.attempt(
                f"{name} = {a}[{index}]",
                f"%{name} = tensor.extract_slice %{a}{starts} {counts} {steps} : <{a}> to <{name}>",
                [name],
            )
        elif form == 2 and rank > 1:
            axis = self.random.randrange(rank - 1)
            groups = [[each] for each in range(axis)] + [[axis, axis + 1]] + [[each] for each in range(axis + 2, rank)]
            reference = f"{name} = {a}.reshape(*{a}.shape[:{axis}], -1, *{a}.shape[{axis + 2}:])"
            self.attempt(reference, f"%{name} = tensor.collapse_shape %{a} {groups} : <{a}> into <{name}>", [name])
        elif form == 3:
            before, after = ([self.random.randint(0, 2) for _ in shape] for _ in range(2))
            dtype = str(self.value(a).dtype)
            number = {"f": "0.5", "i": "3", "b": "true"}[dtype[0]]
            indices = ", ".join(f"%{name}_i{axis}: index" for axis in range(rank))
            text = (f"%{name}_k = arith.constant {number}{'' if dtype == 'bool' else f' : {TYPES[dtype]}'}\n%{name} = tensor.pad %{a} low{before} high{after} {{\n"
                    f"^bb0({indices}):\n  tensor.yield %{name}_k : {TYPES[dtype]}\n}} : <{a}> to <{name}>")  # fmt: skip
            pairs = tuple(zip(before, after, strict=True))
            self.attempt(f"{name} = np.pad({a}, {pairs}, constant_values={number.capitalize()})", text, [name])
        elif form == 4:
            axis = self.random.randrange(rank)
            b = self.choose(
                [
                    each
                    for each in self.names
                    if self.shape(each) == shape and self.value(each).dtype == self.value(a).dtype
                ]
            )
            self.attempt(
                f"{name} = np.concatenate(({a}, {b}), axis={axis})",
                f"%{name} = tensor.concat dim({axis}) %{a}, %{b} : (<{a}>, <{b}>) -> <{name}>",
                [name],
            )
        else:
            axis = self.random.randrange(rank + 1)
            text = f"%{name}_e = tensor.empty() : <{name}>\n%{name} = linalg.broadcast ins(%{a} : <{a}>) outs(%{name}_e : <{name}>) dimensions = [{axis}]"
            reference = f"{name} = np.repeat(np.expand_dims({a}, {axis}), 3, axis={axis})"
            self.attempt(reference, text, [name])

    def gather(self) -> None:
        """A body that reads elements at indices it computes: an axis is reversed."""
        name = self.name()
        a = self.choose([each for each in self.names if len(self.shape(each)) == 1])
        kind = TYPES[str(self.value(a).dtype)]
        text = "\n".join([
            f"%{name}_e = tensor.empty() : <{name}>", f"%{name}_n = arith.constant {self.shape(a)[0] - 1} : index",
            f'%{name} = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}} outs(%{name}_e : <{name}>) {{',
            f"^bb0(%{name}_out: {kind}):", f"  %{name}_i = linalg.index 0 : index", f"  %{name}_j = arith.subi %{name}_n, %{name}_i : index",
            f"  %{name}_v = tensor.extract %{a}[%{name}_j] : <{a}>", f"  linalg.yield %{name}_v : {kind}", f"}} -> <{name}>",
        ])  # fmt: skip
        self.attempt(f"{name} = np.flip({a}, 0)", text, [name])


def start(program: Program) -> Environment:
    return {**enter(program), "generic": generic}


def generate(random: Random) -> Program:
    while True:
        dynamic = random.random() < 0.3
        rows, columns = random.choice(SIZES[1:]), random.choice(SIZES[1:])
        shapes = [(rows, columns), (rows, columns), (columns, rows), (columns,), (rows,), (3, rows, columns)]
        shapes += [(3,), (3, 3), (2, 2)]
        choices = ("float32", "float32 float64 int32", "int32 int64 int8 bool")
        dtypes = [random.choice(names.split()) for names in choices]
        arguments = {
            f"x{position}": random_array(random, random.choice(dtypes), shape)
            for position, shape in enumerate(random.sample(shapes, random.randint(2, 6)))
        }
        program = Program("linalg", arguments, (), (), options={"dynamic": dynamic})
        generator = _Modules(random, start(program), list(arguments), dynamic=dynamic)
        wanted = random.randint(2, 12)
        for _ in range(20 * wanted):
            with suppress(LookupError, ValueError):
                generator.statement()
            if len(generator.statements) >= wanted:
                break
        program = finish("linalg", generator, arguments, options={"dynamic": dynamic})
        if generator.statements and _sound(program):
            return program


def _sound(program: Program) -> bool:
    with suppress(Exception):
        environment = evaluate(program, start)
        return all(comparable(environment[name]) for name in program.results)
    return False


def expected(program: Program, environment: Environment) -> list[Any]:
    return [environment[name] for name in program.results]


def type_of(value: Any, dynamic: bool) -> str:
    array = low(value) if isinstance(value, Bounded) else value
    sizes = "".join(f"{'?' if dynamic else size}x" for size in np.shape(array))
    return f"tensor<{sizes}{TYPES[str(array.dtype)]}>"


def text_of(program: Program) -> str:
    """Return the module: the types of values are those that the reference has."""
    environment = evaluate(program, start)
    dynamic = program.options["dynamic"]

    def typed(text: str) -> str:
        def type_at(match: re.Match[str]) -> str:
            name = match.group(1)
            return type_of(environment[name], dynamic) if name in environment else match.group(0)

        return re.sub(r"<(\w+)>", type_at, text)

    arguments = ", ".join(f"%{name}: <{name}>" for name in program.arguments)
    types = ", ".join(f"<{name}>" for name in program.results)
    names = ", ".join(f"%{name}" for name in program.results)
    lines = [f"func.func @program({arguments}) -> ({types}) {{"]
    lines += [f"  {line}" for statement in program.statements for line in statement.source.splitlines()]
    return typed("\n".join([*lines, f"  return {names} : {types}", "}"])) + "\n"


def run(program: Program, pipeline: str) -> list[Any]:
    return run_module(program, mt.from_mlir, text_of(program), pipeline)


def as_test(program: Program, pipeline: str, title: str) -> str:
    return test_of_module(program, start, "from_mlir", text_of(program), pipeline, title)
