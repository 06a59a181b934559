"""Compute what depends on weights alone once, when they are bound: packed copies for products, and what else there is.

    gv = R.call_tir(cls.fused_matmul_add, (x, weight, bias))
      ──►
    packed = R.call_tir(cls.pack_weight, (weight,))            pack_weight has the attribute ``mlirtri.once``
    gv = R.call_tir(cls.fused_matmul_add, (x, packed, bias))

The runtime computes calls of marked functions when tensors are bound, not in each call (`runtime.preparation`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.relax.call_merging import is_view
from mlirtri.lowering.relax.product_operands import with_regions_of
from mlirtri.lowering.schedule.fusable_forms import is_convolution, packs_filters
from mlirtri.lowering.schedule.products.packed_weights import (
    WeightLayout,
    filter_layout,
    narrow_load,
    weight_layout,
)
from mlirtri.lowering.tir.blocks import NotStaticLoopsError, blocks_of
from mlirtri.lowering.tir.primfunc import LoopAxis, Statements, buffer, build, load, store
from mlirtri.lowering.tir.product_recognition import OP_PATTERN, OPAQUE, Product, find_product
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.tir.tiles import zero_of
from mlirtri.lowering.toolchain.tvm_names import (
    ONCE,
    VIEW,
    Binding,
    BindingBlock,
    BlockBuilder,
    Buffer,
    Expr,
    GlobalVar,
    IRModule,
    Node,
    PrimFunc,
    SBlock,
    TensorLoad,
    TensorType,
    Var,
    ir,
    relax,
    structural_map,
    structural_walk,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_passes import (
    bindings_of,
    relax_functions,
    takes_tensors,
    with_arguments,
    with_functions,
)

MAX_GROWTH = 1 << 16
"""The most bytes by which a value that is computed once may exceed what it is computed from."""


def fixed_weights(mod: IRModule, context: CompileContext) -> list[Var]:
    """Return the parameters of the module's only Relax function that hold the same tensors at every call."""
    functions = relax_functions(mod)
    bound = context.interface.bound if context.interface is not None else ()
    if len(functions) != 1 or not bound or context.target.is_cuda:
        return []
    parameters = list(functions[0][1].params)[-len(bound) :]
    states = {position for position, _ in context.interface.states}
    return [
        parameter
        for position, (parameter, leaf) in enumerate(zip(parameters, bound, strict=True))
        if leaf.name in context.fixed and position not in states
    ]


def pack_weights(mod: IRModule, weights: Collection[Var]) -> IRModule:
    """Return the module whose products read packed copies of `weights`, parameters of its Relax function."""
    [(name, function)] = relax_functions(mod)
    packing = _Packing(mod, weights)
    blocks = [packing.block(block) for block in function.body.blocks]
    if not packing.is_changed:
        return mod
    body = relax.SeqExpr(blocks, function.body.body)
    changed = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    packing.builder.update_func(mod.get_global_var(name), changed)
    return relax.transform.DeadCodeElimination()(packing.builder.get())


@dataclass(frozen=True)
class _Operand:
    """A parameter of a function that it reads packed."""

    position: int
    layout: WeightLayout
    order: tuple[int, ...]
    """For each axis of the parameter, its number in the layout; -1 for axes of size 1."""


_Key = tuple[Var, tuple[int, ...], tuple[int, ...]]
"""A weight, its packed shape, and the order of its axes."""
_Rewritten = tuple[tuple[_Operand, ...], GlobalVar | None]
"""The parameters that a function reads packed, and the function that does; None where there are none."""


class _Packing:
    def __init__(self, mod: IRModule, weights: Collection[Var]):
        self.builder = BlockBuilder(mod)
        self.weights = set(weights)
        self.is_changed = self.is_dataflow = False
        self.functions = {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc)}
        self.packed: dict[_Key, Var] = {}
        """The variables of packed copies."""
        self.rewritten: dict[tuple[str, tuple[int, ...]], _Rewritten] = {}
        """By function and the positions of weights."""

    def block(self, block: BindingBlock) -> BindingBlock:
        self.is_dataflow = isinstance(block, relax.DataflowBlock)
        # A variable of one dataflow block is not visible in others.
        self.packed = {key: packed for key, packed in self.packed.items() if not isinstance(packed, relax.DataflowVar)}
        bindings = [new for binding in block.bindings for new in self._bindings(binding)]
        return relax.DataflowBlock(bindings) if self.is_dataflow else relax.BindingBlock(bindings)

    def _bindings(self, binding: Binding) -> Iterator[Binding]:
        if takes_tensors(binding):
            call, arguments = binding.value, list(binding.value.args[1].fields)
            operands, callee = self._rewritten(call.args[0].name_hint, arguments)
            for operand in operands:
                key = (arguments[operand.position], operand.layout.shape, operand.order)
                if key not in self.packed:
                    yield self._pack(key, operand.layout)
                arguments[operand.position] = self.packed[key]
            if operands:
                changed = [callee, relax.Tuple(arguments), *call.args[2:]]
                yield relax.VarBinding(binding.var, with_arguments(call, changed))
                return
            if is_computed_once(binding.value, self.weights):
                # A view of a weight, or several in one tensor.
                self.weights.add(binding.var)
        yield binding

    def _rewritten(self, name: str, arguments: list[Var]) -> _Rewritten:
        """Return the arguments that a function reads packed, of those that are weights, and the function that does."""
        positions = tuple(number for number, argument in enumerate(arguments) if argument in self.weights)
        if not positions or name not in self.functions:
            return (), None
        if (name, positions) not in self.rewritten:
            self.rewritten[name, positions] = self._rewrite(name, positions)
        return self.rewritten[name, positions]

    def _rewrite(self, name: str, positions: Collection[int]) -> _Rewritten:
        function = self.functions[name]
        products = products_of(function)
        found = [_operand(function, product, positions, len(products)) for product in products]
        operands = tuple(operand for operand in found if operand is not None)
        if not operands:
            return (), None
        packed = function
        for operand in operands:
            packed = _reading_packed(packed, operand)
        return operands, self.builder.add_func(packed, f"{name}_packed")

    def _pack(self, key: _Key, layout: WeightLayout) -> Binding:
        weight, _, order = key
        callee = self.builder.add_func(_pack_function(weight, layout, order), "pack_weight")
        kind = relax.TensorType(layout.shape, str(weight.ty.dtype))
        value = self.builder.normalize(relax.call_tir(callee, relax.Tuple([weight]), kind))
        self.packed[key] = (relax.DataflowVar if self.is_dataflow else relax.Var)(f"{weight.name}_packed", value.ty)
        self.is_changed = True
        return relax.VarBinding(self.packed[key], value)


def products_of(function: PrimFunc) -> list[Product]:
    """Return the products of a function whose reductions are all products; else none."""
    try:
        reductions = [(facts, block) for facts, block in blocks_of(function) if not facts.is_spatial]
    except (NotStaticLoopsError, ValueError):
        return []
    products = [product for reduction in reductions if (product := find_product(*reduction)) is not None]
    return products if len(products) == len(reductions) else []


def _operand(function: PrimFunc, product: Product, weights: Collection[int], products: int) -> _Operand | None:
    """Return which of the parameters `weights` a product can read packed, and in which layout; None for none.

    The left operand is packed for the only product of a function, as filters.
    """
    candidates: list[tuple[Expr, WeightLayout | None]] = []
    if products == 1 and packs_filters(product):
        candidates.append((product.left, filter_layout(product)))
    if not is_convolution(product):
        right = narrow_load(product.right, product.dtype)
        candidates.append((product.right if right is None else right, weight_layout(product)))
    for operand, layout in candidates:
        if layout is None or not isinstance(operand, TensorLoad) or _loads(function, operand.source) != 1:
            continue
        position = next((n for n in weights if function.params[n].same_as(operand.source)), None)
        if position is not None:
            axes = [axis.variable for axis in (layout.column, *layout.reduced)]
            order = tuple(next((n for n, axis in enumerate(axes) if axis.same_as(i)), -1) for i in operand.indices)
            return _Operand(position, layout, order)
    return None


def _loads(function: PrimFunc, source: Buffer) -> int:
    loads: list[Node] = []
    structural_walk(function.body, (TensorLoad, loads.append))
    return sum(node.source.same_as(source) for node in loads)


def _reading_packed(function: PrimFunc, operand: _Operand) -> PrimFunc:
    """Return the function with a weight packed: its one load of it reads the packed copy."""
    position, layout, order = operand.position, operand.layout, operand.order
    weight = function.params[position]
    packed = buffer(f"{weight.name}_packed", layout.shape, str(weight.dtype))
    parameters = [packed if n == position else parameter for n, parameter in enumerate(function.params)]

    def loaded(node: Node) -> Expr:
        if not node.source.same_as(weight):
            return node
        by_axis = {axis: i for axis, i in zip(order, node.indices, strict=True)}
        column, *reduced = (by_axis[axis] for axis in range(len(layout.reduced) + 1))
        return load(packed, layout.indices(column, reduced))

    def with_regions(node: Node) -> Node:
        if not node.iter_vars or not any(read.source.same_as(weight) for read in node.reads):
            return node
        return with_regions_of(node, [*(region.source for region in (*node.reads, *node.writes)), packed])

    body = structural_map(function.body, [(TensorLoad, loaded), (SBlock, with_regions)], order="post")
    return PrimFunc(parameters, body, function.ret_type, function.attrs)


def _pack_function(weight: Var, layout: WeightLayout, order: tuple[int, ...]) -> PrimFunc:
    """Return the function that packs a weight, whose axes are those of the layout in this order."""
    dtype = str(weight.ty.dtype)
    source = buffer("weight", [int(size) for size in weight.ty.shape], dtype)
    target = buffer("packed", layout.shape, dtype)

    def statements(variables: list[Var]) -> Statements:
        column, reduced = layout.axes(variables)
        axes = [column, *reduced]
        value = load(source, [index(0) if axis < 0 else axes[axis] for axis in order])
        if layout.column.extent % layout.lanes:
            is_column = tirx.LT(column, index(layout.column.extent))
            value = tirx.if_then_else(is_column, value, zero_of(dtype))
        return Statements(store(target, value, variables))

    function = build("pack_weight", [source], [target], [LoopAxis(extent) for extent in layout.shape], statements)
    return function.with_attrs({ONCE: True})


def keep_small_weights(mod: IRModule, weights: Collection[Var]) -> IRModule:
    """Return the module where small results of weights alone are not fused into what reads them."""
    [(_, function)] = relax_functions(mod)
    bindings = list(bindings_of(function))
    once = computed_once(bindings, weights)
    calls = [
        (position in once, binding.value)
        for position, binding in enumerate(bindings)
        if takes_tensors(binding) and isinstance(binding.value.ty_args[0], relax.TensorType)
    ]
    often = {call.args[0].name_hint for is_once, call in calls if not is_once}
    names = {
        call.args[0].name_hint for is_once, call in calls if is_once and _bytes(call.ty_args[0]) <= MAX_GROWTH
    } - often
    opaque = {
        gv: mod[gv].with_attrs({OP_PATTERN: OPAQUE})
        for gv in mod.get_global_vars()
        if gv.name_hint in names and not is_view(mod[gv])
    }
    return with_functions(mod, opaque)


def mark_once(mod: IRModule, weights: Collection[Var]) -> IRModule:
    """Return the module with ``mlirtri.once`` on functions that are called with what depends on weights alone."""
    [(_, function)] = relax_functions(mod)
    fixed, once, often = set(weights), set(), set()
    for binding in filter(takes_tensors, bindings_of(function)):
        callee = binding.value.args[0].name_hint
        if is_computed_once(binding.value, fixed):
            once.add(callee)
            fixed.add(binding.var)
        else:
            often.add(callee)
    marked = {
        gv: mod[gv].with_attrs({ONCE: True})
        for gv in mod.get_global_vars()
        if gv.name_hint in once - often and VIEW not in (mod[gv].attrs or {}) and ONCE not in (mod[gv].attrs or {})
    }
    return with_functions(mod, marked)


def computed_once(bindings: Sequence[Binding], weights: Collection[Var]) -> set[int]:
    """Return the positions of the bindings that compute what depends on weights alone."""
    fixed, found = set(weights), set()
    for position, binding in enumerate(bindings):
        is_call = takes_tensors(binding) and len(binding.value.args[1].fields) > 0
        if is_call and is_computed_once(binding.value, fixed):
            fixed.add(binding.var)
            found.add(position)
    return found


def is_computed_once(call: Expr, fixed: AbstractSet[Var]) -> bool:
    """Return whether a call reads fixed values alone, and gives a value that is not much larger."""
    arguments = call.args[1].fields
    is_fixed = all(argument in fixed or isinstance(argument, ir.GenericConst) for argument in arguments)
    return is_fixed and _is_small(call, arguments)


def _is_small(call: Expr, arguments: Sequence[Expr]) -> bool:
    [kind] = call.ty_args
    results = kind.fields if isinstance(kind, relax.TupleType) else [kind]
    before, after = sum(_bytes(argument.ty) for argument in arguments), sum(map(_bytes, results))
    return after <= before + MAX_GROWTH


def _bytes(kind: TensorType) -> int:
    size = 1
    for extent in kind.shape:
        if not isinstance(extent, tirx.IntImm):
            return 1 << 62
        size *= int(extent)
    return size * as_dtype(str(kind.dtype)).bytes
