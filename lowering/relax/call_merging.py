"""Merge several calls of PrimFuncs into one: their blocks in order, with intermediate results in local buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mlirtri.lowering.relax.legalized import block_with
from mlirtri.lowering.toolchain.tvm_names import (
    Binding,
    BindingBlock,
    BlockBuilder,
    Buffer,
    Expr,
    IRModule,
    Node,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    TensorLoad,
    TensorType,
    Var,
    ir,
    relax,
    structural_map,
    structural_walk,
    tirx,
    tvm,
    with_values,
)
from mlirtri.lowering.toolchain.tvm_passes import takes_tensors

_WORDS = 4
_FLOATS = ("float32", "float64", "float16")
_LITERALS = (*_FLOATS, "int32", "int64", "bool")
_renewed = tvm.get_global_func("s_tir.RenewDefs")
Unit = tuple[int, ...]
"""Positions of calls in a dataflow block."""


@dataclass(frozen=True, eq=False)
class Launch:
    """A call of a PrimFunc with one result."""

    binding: Binding
    name: str
    function: PrimFunc
    arguments: tuple[Expr, ...]

    @property
    def result(self) -> relax.Var:
        return self.binding.var


@dataclass(frozen=True, eq=False)
class Merged:
    """A function in place of several, and what it is called with."""

    function: PrimFunc
    arguments: tuple[Expr, ...]
    results: tuple[Var, ...]
    """The Relax variables of the results, in the order of the outputs."""
    types: tuple[TensorType, ...]


def is_view(function: PrimFunc) -> bool:
    """Return whether a function only reshapes its operand."""
    if len(function.params) != 2:
        return False
    source, target = (parameter.ty for parameter in function.params)
    if not all(isinstance(kind, tirx.BufferType) for kind in (source, target)) or source.dtype != target.dtype:
        return False
    size = _size(source)
    return size is not None and size == _size(target) and relax.analysis.has_reshape_pattern(function)


def _size(kind: TensorType) -> int | None:
    if not all(isinstance(extent, tirx.IntImm) for extent in kind.shape):
        return None
    return prod(int(extent) for extent in kind.shape)


def with_blocks(mod: IRModule, change: Callable[[BindingBlock, BlockBuilder], BindingBlock]) -> IRModule:
    """Return the module with `change` of each dataflow block, which adds to the builder the functions that it calls.

    A block that is returned as it was is no change.
    """
    builder = BlockBuilder(mod)
    for gv, function in mod.functions_items():
        if not isinstance(function, relax.Function) or not isinstance(function.body, relax.SeqExpr):
            continue
        old = list(function.body.blocks)
        new = [change(block, builder) if isinstance(block, relax.DataflowBlock) else block for block in old]
        if any(after is not before for after, before in zip(new, old, strict=True)):
            body = relax.SeqExpr(new, function.body.body)
            changed = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
            builder.update_func(gv, changed)
    return builder.get()


class Dependencies:
    """Which of these bindings read the results of which, by their positions."""

    def __init__(self, bindings: Sequence[Binding]):
        self.position_of = {binding.var: position for position, binding in enumerate(bindings)}
        self.reads = [self._read_by(binding) for binding in bindings]
        self.readers: list[list[int]] = [[] for _ in bindings]
        for position, read in enumerate(self.reads):
            for source in read:
                self.readers[source].append(position)

    def _read_by(self, binding: Binding) -> list[int]:
        variables: list[Var] = []
        structural_walk(binding.value, (relax.Var, variables.append), order="post")
        return sorted({self.position_of[variable] for variable in variables if variable in self.position_of})


def launch_of(binding: Binding, mod: IRModule) -> Launch | None:
    """Return the call of a binding that has one result and only tensors as arguments, constants included; else None."""
    if not takes_tensors(binding):
        return None
    call = binding.value
    function = mod[call.args[0]]
    is_plain = len(call.args) == 2 and len(call.ty_args) == 1 and isinstance(call.ty_args[0], relax.TensorType)
    arguments = tuple(call.args[1].fields)
    if not is_plain or len(function.params) != len(arguments) + 1:
        return None
    if not all(isinstance(argument, (relax.Var, ir.GenericConst)) for argument in arguments):
        return None
    return Launch(binding, call.args[0].name_hint, function, arguments)


def merged(launches: Sequence[Launch], is_seen: Callable[[Var], bool]) -> Merged:
    """Return one function for `launches`; a result that `is_seen` outside is an output. Constants become literals."""
    inputs: dict[Expr, Buffer] = {}
    produced: dict[Var, Buffer] = {}
    bodies, memory, outputs, results = [], [], [], []
    for launch in launches:
        function = _renewed(launch.function)
        *parameters, target = function.params
        replacements: dict[Buffer, Buffer] = {}
        literals: dict[Buffer, Expr] = {}
        for parameter, argument in zip(parameters, launch.arguments, strict=True):
            literal = _number(argument)
            if literal is not None and not (literal.value == 0 and _is_factor(parameter, function)):
                literals[parameter] = literal
                continue
            if argument not in produced and argument not in inputs:
                inputs[argument] = _like(parameter, parameter.name)
            replacements[parameter] = produced.get(argument, inputs.get(argument))
        produced[launch.result] = replacements[target] = _like(target, launch.result.name)
        if is_seen(launch.result):
            outputs.append(produced[launch.result])
            results.append(launch.result)
        else:
            memory.append(produced[launch.result])
        body = _with_literals(function.body, literals) if literals else function.body
        root = with_values(body, replacements).block
        bodies.extend(root.body.seq if isinstance(root.body, tirx.SeqStmt) else [root.body])
        memory.extend(root.alloc_buffers)
    body = SBlock([], [], [], "root", tirx.SeqStmt(_with_unique_names(bodies)), None, memory)
    function = PrimFunc([*inputs.values(), *outputs], SBlockRealize([], True, body))
    types = tuple(relax.TensorType(variable.ty.shape, variable.ty.dtype) for variable in results)
    return Merged(function.with_attrs({"s_tir": True, "tirx.noalias": True}), tuple(inputs), tuple(results), types)


def form_of(launches: Sequence[Launch], is_seen: Callable[[Var], bool]) -> tuple[object, ...]:
    """Return what decides the merged function of calls, besides names: their functions, and what they read of which."""
    numbers: dict[Expr, int] = {}
    calls = []
    for launch in launches:
        read = tuple(numbers.setdefault(argument, len(numbers)) for argument in launch.arguments)
        result = numbers.setdefault(launch.result, len(numbers))
        calls.append((launch.name, read, result, is_seen(launch.result)))
    return tuple(calls)


def _number(argument: Expr) -> Expr | None:
    if not isinstance(argument, ir.GenericConst) or len(argument.ty.shape) or str(argument.ty.dtype) not in _LITERALS:
        return None
    dtype, value = str(argument.ty.dtype), argument.value.numpy().item()
    return tirx.FloatImm(dtype, value) if dtype in _FLOATS else tirx.IntImm(dtype, int(value))


def _is_factor(parameter: Buffer, function: PrimFunc) -> bool:
    """Return whether the function multiplies or divides by a parameter: TVM folds that with a literal 0, or fails."""
    factors: list[TensorLoad] = []

    def visit(node: Node) -> None:
        sides = [side.value if isinstance(side, tirx.Cast) else side for side in (node.a, node.b)]
        factors.extend(side for side in sides if isinstance(side, TensorLoad) and side.source.same_as(parameter))

    structural_walk(function.body, [(kind, visit) for kind in (tirx.Mul, tirx.Div)])
    return bool(factors)


def _with_literals(body: Stmt, literals: dict[Buffer, Expr]) -> Stmt:
    def load(node: Node) -> Expr:
        return literals.get(node.source, node)

    def block(node: Node) -> SBlock:
        reads = [region for region in node.reads if region.source not in literals]
        return block_with(node, reads=reads)

    return structural_map(body, [(TensorLoad, load), (SBlock, block)], order="post")


def _like(parameter: Buffer, name: str) -> Buffer:
    return tirx.decl_buffer(parameter.ty.shape, str(parameter.dtype), name, layout=None)


def _with_unique_names(bodies: list[Stmt]) -> list[Stmt]:
    names: set[str] = set()

    def visit(block: SBlock) -> SBlock:
        name, count = str(block.name_hint), 0
        while name in names:
            count += 1
            name = f"{block.name_hint}_{count}"
        names.add(name)
        return block if name == block.name_hint else block_with(block, name_hint=name)

    return [structural_map(body, (SBlock, visit), order="post") for body in bodies]


def merged_name(names: Sequence[str]) -> str:
    """Return a name built from the first of the calls' names."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) <= _WORDS:
        return "_".join(distinct)
    return "_".join([*distinct[: _WORDS - 1], f"and_{len(distinct) - _WORDS + 1}_more"])


def in_order(units: Sequence[Unit], needed: Mapping[Unit, Collection[Unit]]) -> Iterator[Unit]:
    """Yield groups of calls, each after those that it needs, and otherwise in the order of their last calls."""
    pending, emitted = sorted(units, key=lambda unit: unit[-1]), set()
    while pending:
        unit = next(candidate for candidate in pending if emitted.issuperset(needed[candidate]))
        pending.remove(unit)
        emitted.add(unit)
        yield unit


def merged_call(replacement: Merged, name: str, builder: BlockBuilder) -> Iterator[Binding]:
    """Yield the bindings that call a merged function, which `builder` takes by this name, and name its results."""
    callee = builder.add_func(replacement.function, name)
    if len(replacement.results) == 1:
        yield relax.VarBinding(
            replacement.results[0], relax.call_tir(callee, relax.Tuple(replacement.arguments), replacement.types[0])
        )
        return
    value = builder.normalize(relax.call_tir(callee, relax.Tuple(replacement.arguments), list(replacement.types)))
    several = relax.DataflowVar(name, value.ty)
    yield relax.VarBinding(several, value)
    for index, result in enumerate(replacement.results):
        yield relax.VarBinding(result, builder.normalize(relax.TupleGetItem(several, index)))
