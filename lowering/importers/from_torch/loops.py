"""Lower loops with a condition and no trip count to `scf.while`: torch-mlir drops some conditions.

Takes a module in the torch dialect, before its lowering to linalg. Gives every `torch.prim.Loop` with the largest int64
as its trip count, which means none, as `scf.while` on builtin types: where the first condition is known to be true,
torch-mlir ignores the condition. Leaves counted loops.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, operations_named, scf
from mlirtri.lowering.importers.from_torch.builder import bare_type, element_of, shape_of

ENDLESS = 2**63 - 1
LOOP = "torch.prim.Loop"
_NUMBERS = {"!torch.int": "i64", "!torch.float": "f64", "!torch.bool": "i1"}
"""torch's numbers, and what they are in MLIR."""


def rewrite(module: ir.Module) -> None:
    """Replace such loops of `module`, inner ones first."""
    for loop in reversed(operations_named(module, LOOP)):
        if _is_endless(loop) and not list(loop.regions[0].blocks[0].arguments[0].uses):
            with loop.location, ir.InsertionPoint(loop):
                _replace(loop)


def _is_endless(loop: ir.Operation) -> bool:
    count = loop.operands[0].owner
    if isinstance(count, ir.Block) or count.operation.name != "torch.constant.int":
        return False
    return ir.IntegerAttr(count.operation.attributes["value"]).value == ENDLESS


def _replace(loop: ir.Operation) -> None:
    body = loop.regions[0].blocks[0]
    last = body.operations[len(body.operations) - 1].operation
    kinds = [value.type for value in loop.results]
    first = [*map(_bare, list(loop.operands)[2:]), _bare(loop.operands[1])]
    loop_op = scf.WhileOp([value.type for value in first[:-1]], first)
    condition_block = loop_op.before.blocks.append(*[value.type for value in first])
    body_block = loop_op.after.blocks.append(*[value.type for value in first[:-1]])
    with ir.InsertionPoint(condition_block):
        *values, keep_going = condition_block.arguments
        scf.ConditionOp(keep_going, values)
    with ir.InsertionPoint(body_block):
        carried = [_torch(value, kind) for value, kind in zip(body_block.arguments, kinds, strict=True)]
        for old, new in zip(list(body.arguments)[1:], carried, strict=True):
            old.replace_all_uses_with(new)
    for operation in list(body.operations)[:-1]:
        body_block.append(operation.operation)
    with ir.InsertionPoint(body_block):
        condition, *yielded = last.operands
        scf.YieldOp([*map(_bare, yielded), _bare(condition)])
    for old, new, kind in zip(loop.results, loop_op.results, kinds, strict=True):
        old.replace_all_uses_with(_torch(new, kind))
    loop.erase()


def _bare(value: ir.Value) -> ir.Value:
    """Convert a value to a builtin type."""
    if (number := _NUMBERS.get(str(value.type))) is not None:
        return ir.Operation.create(f"torch_c.to_{number}", [ir.Type.parse(number)], [value]).result
    bare = bare_type(shape_of(value), element_of(value))
    return ir.Operation.create("torch_c.to_builtin_tensor", [bare], [value]).result


def _torch(value: ir.Value, kind: ir.Type) -> ir.Value:
    source = _NUMBERS.get(str(kind), "builtin_tensor")
    return ir.Operation.create(f"torch_c.from_{source}", [kind], [value]).result
