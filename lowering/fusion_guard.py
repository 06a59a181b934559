"""Keeps arithmetic out of contractions while upstream's elementwise fusion runs.

Upstream fuses a producer that has one use, also into a matmul, which would compute it again for every row or column
and would be no matmul any more. So for the time of the fusion the function also returns such producers: a second use.
Takes and gives a module, in place: `guard` before, `release` after. Moving data (transposes, broadcasts) and widening
casts still fuse: they cost nothing there.

    %p = exp(%x); %q = matmul(%p, %y); return %q   ──►   …; return %q, %p     (and back)
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.mlir import func, ir, linalg, operations_named, public_functions

KEPT = "mlirtri.kept"
"""Attribute of a function: how many of its last results are there for the guard only."""
RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
FREE = ("linalg.yield", "arith.extf", "arith.extsi", "arith.extui")


def guard(module: ir.Module) -> None:
    """Return the producers that must stay kernels of their own."""
    for function in public_functions(module):
        kept: list[ir.Value] = []
        for operation in operations_named(module, "linalg.*"):
            if _function_of(operation) == function.operation:
                kept.extend(value for value in _producers_to_keep(operation) if value not in kept)
        if kept:
            function.attributes[KEPT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(kept))
            _set_results(function, [*_terminator(function).operands, *kept])


def release(module: ir.Module) -> None:
    """Return again what the function returned before `guard`."""
    for function in public_functions(module):
        if KEPT in function.attributes:
            count = ir.IntegerAttr(function.attributes[KEPT]).value
            del function.attributes[KEPT]
            _set_results(function, list(_terminator(function).operands)[:-count])


def _producers_to_keep(operation: ir.Operation) -> Iterator[ir.Value]:
    """Arithmetic results that `operation` reads more than once per element while it reduces over something."""
    maps = linalg.get_indexing_maps(operation)
    if maps is None:
        return
    maps = [attribute.value for attribute in maps]
    loops, inputs = maps[0].n_dims, len(operation.operands) - len(operation.results)
    if all(_dims_of(one) == set(range(loops)) for one in maps[inputs:]):
        return
    for value, one in zip(list(operation.operands)[:inputs], maps, strict=False):
        if _dims_of(one) != set(range(loops)) and (producer := _arithmetic_behind(value)) is not None:
            yield producer


def _dims_of(one: ir.AffineMap) -> set[int]:
    """The loops that a map follows; those of a compound index (a convolution's) are not counted, which only guards."""
    return {result.position for result in one.results if isinstance(result, ir.AffineDimExpr)}


def _arithmetic_behind(value: ir.Value) -> ir.Value | None:
    """The result of the arithmetic that `value` comes from, looking through what only moves data."""
    while isinstance(owner := value.owner, ir.Operation | ir.OpView):
        operation = owner.operation
        if operation.name in RESHAPES:
            value = operation.operands[0]
        elif operation.name == "linalg.generic" and (source := _moved(operation)) is not None:
            value = source
        else:
            return value if operation.name == "linalg.generic" else None
    return None


def _moved(generic: ir.Operation) -> ir.Value | None:
    """What a generic passes on unchanged or widened, when it does nothing else."""
    block = generic.regions[0].blocks[0]
    if len(generic.operands) != 2 or any(inner.operation.name not in FREE for inner in block.operations):
        return None
    return generic.operands[0]


def _function_of(operation: ir.Operation) -> ir.Operation:
    while operation.name != "func.func":
        operation = operation.parent
    return operation


def _terminator(function: func.FuncOp) -> ir.OpView:
    operations = function.regions[0].blocks[0].operations
    return operations[len(operations) - 1]


def _set_results(function: func.FuncOp, values: list[ir.Value]) -> None:
    old = _terminator(function)
    with ir.InsertionPoint(old), old.location:
        func.ReturnOp(values)
    old.operation.erase()
    kind = ir.FunctionType.get(function.type.inputs, [value.type for value in values])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    if "res_attrs" in function.attributes:
        old_attributes = list(ir.ArrayAttr(function.attributes["res_attrs"]))[: len(values)]
        padding = [ir.DictAttr.get({})] * (len(values) - len(old_attributes))
        function.attributes["res_attrs"] = ir.ArrayAttr.get([*old_attributes, *padding])
