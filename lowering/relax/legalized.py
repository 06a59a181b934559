"""Passes over the PrimFuncs that LegalizeOps has made of Relax's operators, before anything is fused.

- `protect_arithmetic`: TVM simplifies floats as real numbers, ``(x + y) - x`` to ``y``, finds by ``!=`` no NaN,
  and takes int32 and int64 never to overflow, ``x + 1 > x`` to true. The bridge's PrimFuncs are written around that;
  these get the same here. Index arithmetic stays as it is, and so does the update of a reduction, which schedules
  recognise by its form.
- `locate_blocks`: each block that has no ``mlirtri.loc`` gets the location of its Relax binding, from the attribute
  ``mlirtri.locations`` of the Relax function. A PrimFunc called from two lines is cloned, one per line.
- `fold_empty_loops`: a reduction over a dimension of size zero becomes its initial value, and a block without
  iterations is removed, because a loop that never runs would never store the initial value.
- `implement_sorts`: sorts and scans of Relax's library, which LegalizeOps leaves alone, become calls of PrimFuncs that
  call TVM's runtime, on a CPU. The language's own sorts are loops.
- `mark_elements`: PrimFuncs of one block with private buffers, each element of which reads one element of each operand,
  become elementwise for TVM's fusion, which takes every block with several stores for opaque. bf16, and other
  arithmetic that TVM must not simplify, uses such buffers.
"""

from __future__ import annotations

from mlirtri.lowering.bridge.scalar.floats import equal
from mlirtri.lowering.bridge.scalar.scalar_rules import hide_zero, same_bits
from mlirtri.lowering.tir.arithmetic import TWICE_AS_WIDE, difference, is_exact, is_update, reads_memory, wrapped
from mlirtri.lowering.tir.blocks import BlockFacts, NotStaticLoopsError, leaf_blocks
from mlirtri.lowering.tir.product_recognition import BROADCAST, ELEMENTWISE, OP_PATTERN, OPAQUE
from mlirtri.lowering.toolchain.tvm_names import (
    BINDING_LOCATIONS,
    IS_SCHEDULED,
    LOCATION,
    BlockBuilder,
    Expr,
    IRModule,
    Node,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    ir,
    relax,
    structural_map,
    tirx,
    tvm,
)
from mlirtri.lowering.toolchain.tvm_passes import (
    bindings_of,
    operator_of,
    relax_functions,
    with_arguments,
    with_functions,
)

_OPERATORS = (tirx.Add, tirx.Sub, tirx.Mul)


def protect_arithmetic(mod: IRModule) -> IRModule:
    """Rewrite float differences as sums, and compute integers in twice their width, in every PrimFunc."""
    changed = {
        gv: function.with_body(structural_map(function.body, (tirx.BufferStore, _protected), order="post"))
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc)
    }
    return with_functions(mod, changed)


def _protected(store: Stmt) -> Stmt:
    if isinstance(store.value, _OPERATORS) and is_update(store):
        return store
    rules = [(tirx.NE, _unequal), *((kind, _rewritten) for kind in _OPERATORS)]
    value = structural_map(store.value, rules, order="post")
    return tirx.BufferStore(store.buffer, value, store.indices)


def _unequal(node: Node) -> Expr:
    """Return x != y of floats as the negation of x == y: TVM's own != is false for NaN."""
    if not str(node.a.ty.dtype).startswith(("float", "bfloat")):
        return node
    return tirx.bitwise_xor(equal(node.a, node.b), tirx.IntImm("bool", 1))


def _rewritten(node: Node) -> Expr:
    dtype = str(node.ty.dtype)
    if not reads_memory(node):
        return node
    if dtype.startswith("float") and isinstance(node, tirx.Sub):
        return difference(node.a, node.b)
    if dtype.startswith("uint") and (signed := dtype.removeprefix("u")) in TWICE_AS_WIDE:
        # The simplifier multiplies constants of unsigned chains, and takes a difference for a negative number.
        operands = [same_bits(operand, signed) for operand in (node.a, node.b)]
        return same_bits(wrapped(type(node), *operands), dtype)
    can_overflow = dtype in TWICE_AS_WIDE and not is_exact(node.a, node.b)
    return wrapped(type(node), node.a, node.b) if can_overflow else node


CALL_TIR = ir.Op.get("relax.call_tir")


def locate_blocks(mod: IRModule) -> IRModule:
    """Annotate blocks of TIR functions with the line of their call; calls on several lines get a clone each."""
    functions = relax_functions(mod)
    if not any(BINDING_LOCATIONS in (function.attrs or {}) for _, function in functions):
        return mod
    clones = _Clones(mod)
    located = {name: _redirect(function, clones) for name, function in functions}
    result = clones.builder.get()
    for name, function in located.items():
        result.update_func(result.get_global_var(name), function)
    return result


class _Clones:
    """Clones of PrimFuncs, one per line; the first line keeps the function's own name."""

    def __init__(self, mod: IRModule):
        self.builder = BlockBuilder(mod)
        self._original = {gv.name_hint: function for gv, function in mod.functions_items()}
        self._clones: dict[tuple[str, str | None], ir.GlobalVar] = {}

    def clone_of(self, callee: ir.GlobalVar, location: str | None) -> ir.GlobalVar:
        """Return the function to call instead of `callee` on this line."""
        key = (callee.name_hint, location)
        if key not in self._clones:
            located = with_location(self._original[callee.name_hint], location)
            if any(name == callee.name_hint for name, _ in self._clones):
                self._clones[key] = self.builder.add_func(located, callee.name_hint)
            else:
                self.builder.update_func(callee, located)
                self._clones[key] = callee
        return self._clones[key]


def _redirect(function: relax.Function, clones: _Clones) -> relax.Function:
    locations = (function.attrs or {}).get(BINDING_LOCATIONS, {})

    def visit(binding):
        call = binding.value
        if not isinstance(call, relax.Call) or call.op != CALL_TIR:
            return binding
        location = locations.get(binding.var.name)
        callee = clones.clone_of(call.args[0], location and str(location))
        if callee.same_as(call.args[0]):
            return binding
        return relax.VarBinding(binding.var, with_arguments(call, [callee, *call.args[1:]]))

    return structural_map(function, (relax.VarBinding, visit), order="post")


_BLOCK_FIELDS = (
    "iter_vars", "reads", "writes", "name_hint", "body", "init", "alloc_buffers", "match_buffers", "annotations",
    "span",
)  # fmt: skip


def block_with(block: SBlock, **fields: object) -> SBlock:
    return SBlock(*(fields.get(name, getattr(block, name)) for name in _BLOCK_FIELDS))


def with_location(function: PrimFunc, location: str | None) -> PrimFunc:
    """Return `function` with `location` on each block that has none, except the root block."""
    if location is None:
        return function

    def visit(block):
        if LOCATION in block.annotations or block.name_hint == "root":
            return block
        return block_with(block, annotations={**block.annotations, LOCATION: location})

    return function.with_body(structural_map(function.body, (SBlock, visit), order="post"))


def fold_empty_loops(mod: IRModule) -> IRModule:
    """Remove empty loops from TIR functions: of reductions the loops, else the whole nest."""
    changed = {}
    for gv, function in mod.functions_items():
        if isinstance(function, PrimFunc):
            body = structural_map(function.body, (tirx.For, _fold_nest), order="pre")
            if body is not function.body:
                changed[gv] = function.with_body(body)
    return with_functions(mod, changed)


def _fold_nest(loop: tirx.For):
    """Return a loop nest around one block without empty reduction loops; no statement if a spatial loop is empty."""
    loops, inner = [], loop
    while isinstance(inner, tirx.For):
        loops.append(inner)
        inner = inner.body
    if not isinstance(inner, SBlockRealize) or not any(_is_empty(enclosing.extent) for enclosing in loops):
        return loop
    block = inner.block
    spatial = [
        (axis, value)
        for axis, value in zip(block.iter_vars, inner.iter_values, strict=True)
        if axis.iter_type != tirx.IterVar.CommReduce
    ]
    if block.init is None or any(_is_empty(axis.dom.extent) for axis, _ in spatial):
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    # Fusion inlines the value into its readers: TVM would fold a division of a plain zero, by NaN too, to zero.
    init = structural_map(block.init, (tirx.BufferStore, _hidden), order="post")
    initial = SBlock(
        [axis for axis, _ in spatial], [], block.writes, block.name_hint, init, annotations=block.annotations
    )
    result = SBlockRealize([value for _, value in spatial], inner.predicate, initial)
    for enclosing in reversed(loops):
        if not _is_empty(enclosing.extent):
            result = tirx.For(
                enclosing.loop_var, enclosing.min, enclosing.extent, enclosing.kind, result,
                annotations=enclosing.annotations,
            )  # fmt: skip
    return result


def _hidden(store: tirx.BufferStore) -> tirx.BufferStore:
    return tirx.BufferStore(store.buffer, hide_zero(store.value), store.indices)


def _is_empty(extent: Expr) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 0


SORTS = frozenset({"relax.sort", "relax.argsort", "relax.topk", "relax.cumsum", "relax.cumprod"})


def has_sorts(mod: IRModule) -> bool:
    return any(
        operator_of(binding) in SORTS for _, function in relax_functions(mod) for binding in bindings_of(function)
    )


def implement_sorts(mod: IRModule) -> IRModule:
    """Return the module with these operators as calls of opaque PrimFuncs, which are neither fused nor scheduled."""
    existing = {gv.name_hint for gv, _ in mod.functions_items()}
    with tvm.target.Target("llvm"):
        result = relax.backend.DispatchSortScan()(mod)
    for gv, function in result.functions_items():
        if isinstance(function, PrimFunc) and gv.name_hint not in existing:
            result.update_func(gv, function.with_attrs({OP_PATTERN: OPAQUE, IS_SCHEDULED: True}))
    return result


def mark_elements(mod: IRModule) -> IRModule:
    """Return the module where elementwise blocks with private buffers fuse as other elementwise blocks do."""
    marked = {
        gv: function.with_attrs({OP_PATTERN: kind})
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and (kind := _kind(function)) is not None
    }
    return with_functions(mod, marked)


def _kind(function: PrimFunc) -> int | None:
    if (function.attrs or {}).get(OP_PATTERN) != OPAQUE:
        return None
    schedule = Schedule(function)
    try:
        blocks = leaf_blocks(schedule)
    except NotStaticLoopsError:
        return None
    if len(blocks) != 1 or not blocks[0].is_spatial or len(blocks[0].writes) != 1:
        return None
    block = blocks[0]
    if len(schedule.get(block.handle).alloc_buffers) == 0 or not _is_elementwise(block):
        return None
    # TVM, too, calls it elementwise if one operand has the result's indices; only such functions fuse after products.
    return ELEMENTWISE if any(read.axes == block.writes[0].axes for read in block.operands) else BROADCAST


def _is_elementwise(block: BlockFacts) -> bool:
    """Return whether the block's axes index results and operands in order, operands perhaps by some of them."""
    all_operands = [read.axes for read in block.operands]
    are_ordered = all(
        None not in axes and list(axes) == sorted(axis for axis in set(axes) if axis is not None)
        for axes in all_operands
    )
    return are_ordered and block.writes[0].axes == tuple(range(len(block.kinds)))
