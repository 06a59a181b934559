"""Fold transposes, slices, broadcasts, widening casts and padding into products that read their results, before fusion.

t[i, j] = b[j, i]; out[i, j] += a[i, k] * t[k, j]   ──►   out[i, j] += a[i, k] * b[j, k]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mlirtri.lowering.relax.legalized import block_with
from mlirtri.lowering.schedule.fusable_forms import is_channels_first, pads_image
from mlirtri.lowering.tir.blocks import BlockFacts, blocks_of
from mlirtri.lowering.tir.padded_images import padded
from mlirtri.lowering.tir.product_recognition import OP_PATTERN, PRODUCT, find_product
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.toolchain.tvm_names import (
    Analyzer,
    Binding,
    BlockBuilder,
    Buffer,
    Expr,
    IRModule,
    Node,
    PrimFunc,
    Range,
    SBlock,
    TensorLoad,
    Var,
    ir,
    read_write_region,
    relax,
    structural_map,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_passes import bindings_of, relax_functions, takes_tensors, with_arguments


def fold_operands(mod: IRModule) -> IRModule:
    """Return the module with the producers of moved or widened operands folded into products."""

    def keeps_channels_first(original: OnlyBlock, folded: OnlyBlock) -> bool:
        """Return whether a convolution keeps the form that its schedule rule needs."""
        return not is_channels_first(find_product(*original)) or is_channels_first(find_product(*folded))

    return _folded(mod, _Folding(mod, _is_view_producer, keeps_channels_first))


def fold_padding(mod: IRModule) -> IRModule:
    """Return the module with paddings folded into the convolutions for which a CPU rule pads while it reads."""

    def is_padded_image(_: OnlyBlock, folded: OnlyBlock) -> bool:
        product = find_product(*folded)
        return product is not None and pads_image(product)

    return _folded(mod, _Folding(mod, _is_padding, is_padded_image))


def _folded(mod: IRModule, folding: _Folding) -> IRModule:
    changed = {}
    for name, function in relax_functions(mod):
        folding.note(function)
        changed[name] = structural_map(function, (relax.VarBinding, folding.binding), order="post")
    if not folding.is_changed:
        return mod
    result = folding.builder.get()
    for name, function in changed.items():
        result.update_func(result.get_global_var(name), function)
    return relax.transform.DeadCodeElimination()(result)


class OnlyBlock(NamedTuple):
    """The block of a PrimFunc with one block, with what is known of it."""

    facts: BlockFacts
    block: SBlock


class _Folding:
    """Producers folded into the calls of products that read them, call by call.

    t = call_tir(transpose, (b,))         ──►   out = call_tir(matmul_of_view, (a, b))
    out = call_tir(matmul, (a, t))
    """

    def __init__(
        self,
        mod: IRModule,
        is_foldable: Callable[[BlockFacts, SBlock], bool],
        fits: Callable[[OnlyBlock, OnlyBlock], bool],
    ):
        self.is_foldable, self.fits = is_foldable, fits
        """Whether a block makes an operand that is read through; whether a folded product may replace the original."""
        self.functions = {
            gv.name_hint: function for gv, function in mod.functions_items() if isinstance(function, PrimFunc)
        }
        self.builder = BlockBuilder(mod)
        self.producers: dict[Var, tuple[PrimFunc, Var]] = {}
        """From the variable of a foldable tensor to the function that makes it and that function's operand."""
        self.blocks: dict[str, OnlyBlock | None] = {}
        self.is_changed = False
        self._known: dict[tuple[PrimFunc, int, PrimFunc], PrimFunc | None] = {}
        """By function, argument number and producer: the function that reads through it, None where it may not."""

    def note(self, function: relax.Function) -> None:
        """Record the foldable producers among the bindings of a Relax function."""
        for binding in bindings_of(function):
            called = self._called(binding)
            if called is None or len(binding.value.args[1].fields) != 1:
                continue
            if (block := self._block(called)) is not None and self.is_foldable(*block):
                self.producers[binding.var] = (self.functions[called], binding.value.args[1].fields[0])

    def binding(self, binding: Binding) -> Binding:
        """Return the binding of a product with a call that reads the operands of its producers; others unchanged."""
        called = self._called(binding)
        if called is None or not any(operand in self.producers for operand in binding.value.args[1].fields):
            return binding
        original = self._block(called)
        if original is None or find_product(*original) is None:
            return binding
        call = binding.value
        function, arguments = self._folded(original, self.functions[called], call.args[1].fields)
        if function is self.functions[called]:
            return binding
        self.is_changed = True
        # The indices are plain now, so elementwise consumers fuse into the product even if it sums one row each.
        callee = self.builder.add_func(function.with_attrs({OP_PATTERN: PRODUCT}), f"{called}_of_moved")
        value = with_arguments(call, [callee, relax.Tuple(arguments), *call.args[2:]])
        return relax.VarBinding(binding.var, value)

    def _folded(self, original: OnlyBlock, function: PrimFunc, operands: Sequence[Var]) -> tuple[PrimFunc, list[Var]]:
        """Return the function that reads through all producers that it may, and its arguments."""
        arguments = list(operands)
        for number, argument in enumerate(arguments):
            while argument in self.producers:
                producer, source = self.producers[argument]
                through = self._through(original, function, number, producer)
                if through is None:
                    break
                function, argument = through, source
            arguments[number] = argument
        return function, arguments

    def _through(self, original: OnlyBlock, function: PrimFunc, number: int, producer: PrimFunc) -> PrimFunc | None:
        # Functions are objects that live as long as this one: layers of a network call the same ones.
        key = function, number, producer
        if key not in self._known:
            through = _reading_through(function, number, producer)
            folded = _only_block(through)
            self._known[key] = None if folded is None or not self.fits(original, folded) else through
        return self._known[key]

    def _called(self, binding: Binding) -> str | None:
        if not takes_tensors(binding):
            return None
        name = binding.value.args[0].name_hint
        return name if name in self.functions else None

    def _block(self, name: str) -> OnlyBlock | None:
        """Return the block of a function of one block; None for any other function."""
        if name not in self.blocks:
            self.blocks[name] = _only_block(self.functions[name])
        return self.blocks[name]


def _only_block(function: PrimFunc) -> OnlyBlock | None:
    try:
        blocks = blocks_of(function)
    except (ValueError, TypeError):  # opaque or symbolic loops, or no blocks
        return None
    return OnlyBlock(*blocks[0]) if len(blocks) == 1 else None


def _is_view_producer(facts: BlockFacts, block: SBlock) -> bool:
    """Return whether a block only permutes, slices or reshapes one tensor, perhaps widening its dtype."""
    if not _is_plain(facts, block):
        return False
    value = block.body.value
    while (isinstance(value, tirx.Cast) and _bits(value) >= _bits(value.value)) or _is_view_of_bits(value):
        value = value.value if isinstance(value, tirx.Cast) else value.args[0]
    if not isinstance(value, TensorLoad) or len(facts.reads) != 1:
        return False
    [read] = facts.reads
    return all(
        axis is not None or isinstance(_without_offset(read_index), tirx.IntImm | tirx.Var)
        for axis, read_index in zip(read.axes, read.indices, strict=True)
    )


def _without_offset(read_index: Expr) -> Expr:
    """Return an index without an added constant, the start of a slice; TVM writes constants as right operands."""
    is_offset = isinstance(read_index, tirx.Add) and isinstance(read_index.b, tirx.IntImm)
    return read_index.a if is_offset else read_index


def _is_view_of_bits(value: Expr) -> bool:
    """Return whether a value reinterprets an integer's bits with or without sign."""
    is_call = isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith("reinterpret")
    return is_call and all(str(operand.ty.dtype).lstrip("u").startswith("int") for operand in (value, value.args[0]))


def _is_padding(facts: BlockFacts, block: SBlock) -> bool:
    return _is_plain(facts, block) and padded(block.body.value) is not None


def _is_plain(facts: BlockFacts, block: SBlock) -> bool:
    is_plain = facts.is_spatial and isinstance(block.body, tirx.BufferStore) and not block.alloc_buffers
    return is_plain and list(facts.writes[0].axes) == list(range(len(facts.kinds)))


def _bits(value: Expr) -> int:
    return int(value.ty.dtype.bits)


def _reading_through(function: PrimFunc, number: int, producer: PrimFunc) -> PrimFunc:
    """Return `function` with the operand of `producer` as its argument `number`, in place of the producer's result.

    With ``t[i, j] = b[j, i]`` as producer, each ``t[k, n]`` becomes ``b[n, k]``.
    """
    source, operand = producer.params[0], function.params[number]
    block, reader = (blocks_of(each)[0][1] for each in (producer, function))
    fresh = tirx.decl_buffer(source.shape, source.dtype, source.name, layout=None)
    value = structural_map(
        block.body.value, (TensorLoad, lambda node: tirx.BufferLoad(fresh, node.indices)), order="post"
    )
    variables = [axis.var for axis in block.iter_vars]
    analyzer = Analyzer()
    for axis in reader.iter_vars:
        analyzer.bind(axis.var, Range(index(0), axis.dom.extent))

    def simple(node: Node) -> Expr:
        return tirx.BufferLoad(node.source, [analyzer.simplify(expression) for expression in node.indices])

    def load(node: Node) -> Expr:
        if not node.source.same_as(operand):
            return node
        # Simplify a view's quotients and remainders with the axes' ranges, so that windows are recognised.
        moved = replaced(value, dict(zip(variables, node.indices, strict=True)))
        return structural_map(moved, (TensorLoad, simple), order="post")

    parameters = list(function.params)
    parameters[number] = fresh

    def with_regions(node: Node) -> Node:
        return with_regions_of(node, parameters) if node.iter_vars else node

    body = structural_map(function.body, [(TensorLoad, load), (SBlock, with_regions)], order="post")
    return PrimFunc(parameters, body, function.ret_type, function.attrs)


def with_regions_of(block: SBlock, buffers: Iterable[Buffer]) -> SBlock:
    """Return an SBlock whose read and write regions are those of its body, as far as they are of `buffers`."""
    bare = SBlock(block.iter_vars, [], [], block.name_hint, block.body, block.init)
    reads, writes = read_write_region(bare, {buffer: buffer for buffer in buffers})[:2]
    return block_with(block, reads=reads, writes=writes)
