"""Atomic updates that SPIR-V has no instruction for, as loops around its compare-and-exchange.

    memref.generic_atomic_rmw %h[%k] : memref<9xf32> { ^bb0(%old: f32): memref.atomic_yield (%old + %x) }
        ──►  %seen = what is there
             while: %now = spirv.AtomicCompareExchange %h[%k], bits of (%seen + %x), %seen; until %now is %seen

Buffers that kernels update so hold integers of the elements' width: no kernel accesses them otherwise. The pointer is
there after upstream's conversion only. Up to it the place of an exchange is taken by an instruction that no kernel has
otherwise, with a load of the element as its third operand.
"""

from __future__ import annotations

import re

from mlirtri.dialect.bindings.mlir import arith, ir, memref, operations_named, scf
from mlirtri.lowering.mlir_common.cloning import inlined, replace

_STAND_IN = "spirv.BitFieldInsert"


def rewrite(module: ir.Module) -> None:
    """Replace the updates in the kernels of a module by loops."""
    for update in operations_named(module, "memref.generic_atomic_rmw"):
        with ir.InsertionPoint(update), update.location:
            old = _updated(update)
        replace(update, [old])


def finish(module: ir.Module) -> None:
    """Emit the exchanges, once kernels are in SPIR-V's dialect, and declare their buffers with integers."""
    for kernel in operations_named(module, "spirv.func"):
        elements = [_exchange(stand_in) for stand_in in operations_named(kernel, _STAND_IN)]
        for chain in dict.fromkeys(elements):
            _erase_loads(chain)
        for buffer in dict.fromkeys(chain.operands[0] for chain in elements):
            buffer.set_type(_of_integers(buffer.type))
        arguments = kernel.regions[0].blocks[0].arguments
        kind = ir.FunctionType.get([argument.type for argument in arguments], [])
        kernel.attributes["function_type"] = ir.TypeAttr.get(kind)


def _exchange(stand_in: ir.Operation) -> ir.Operation:
    """Replace a stand-in by the exchange, and return the `spirv.AccessChain` of its element."""
    value, expected, loaded, _ = stand_in.operands
    load = loaded.owner.operation
    if load.name == "spirv.Bitcast":
        load = load.operands[0].owner.operation
    chain = load.operands[0].owner.operation
    named = {f"{name}_semantics": ir.Attribute.parse("#spirv.memory_semantics<None>") for name in ("equal", "unequal")}
    named["memory_scope"] = ir.Attribute.parse("#spirv.scope<Device>")
    with ir.InsertionPoint(stand_in), stand_in.location:
        pointer = chain.results[0]
        pointer.set_type(_of_integers(pointer.type))
        operands, results = [pointer, value, expected], [value.type]
        new = ir.Operation.create("spirv.AtomicCompareExchange", results=results, operands=operands, attributes=named)
    replace(stand_in, [new.results[0]])
    return chain


def _erase_loads(chain: ir.Operation) -> None:
    for load in [use.owner.operation for use in chain.results[0].uses if use.owner.operation.name == "spirv.Load"]:
        for cast in [use.owner.operation for use in load.results[0].uses]:
            cast.erase()
        load.erase()


def _of_integers(kind: ir.Type) -> ir.Type:
    """Return a type of SPIR-V with integers in place of floats."""
    return ir.Type.parse(re.sub(r"\bf(32|64)\b", r"i\1", str(kind)))


def _updated(update: ir.Operation) -> ir.Value:
    """Emit the loop, and return what the element was before it."""
    buffer, *indices = update.operands
    kind = buffer.type.element_type
    bits = ir.IntegerType.get_signless(kind.width)
    loaded, zero = memref.load(buffer, indices), arith.constant(bits, 0)
    link = loaded if kind == bits else arith.bitcast(bits, loaded)

    def exchanged(value: ir.Value, expected: ir.Value) -> ir.Value:
        return ir.Operation.create(_STAND_IN, results=[bits], operands=[value, expected, link, zero]).results[0]

    loop = scf.WhileOp([bits], [exchanged(zero, zero)])
    before, after = (region.blocks.append(bits) for region in loop.regions)
    with ir.InsertionPoint(before):
        seen = before.arguments[0]
        [value] = inlined(update.regions[0].blocks[0], [seen if kind == bits else arith.bitcast(kind, seen)])
        now = exchanged(value if kind == bits else arith.bitcast(bits, value), seen)
        scf.ConditionOp(arith.cmpi(arith.CmpIPredicate.ne, now, seen), [now])
    with ir.InsertionPoint(after):
        scf.YieldOp([after.arguments[0]])
    old = loop.results[0]
    return old if kind == bits else arith.bitcast(kind, old)
