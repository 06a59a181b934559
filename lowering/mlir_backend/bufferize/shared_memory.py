"""Give an array that several results are computed from memory of its own.

Takes functions of tensors. Gives them in place with the same values: an array that two results are computed from gets
an allocation. Upstream would compute it in the caller's buffer of one result, overwrite it by that result, and then
copy it for the other.

    %t = f(empty); %a = g(into %t); %b = h(into %t); return %a, %b   ──►   %t = f(alloc_tensor)
"""

from __future__ import annotations

from itertools import combinations

from mlirtri.dialect.bindings.mlir import bufferization, ir, public_functions
from mlirtri.lowering.mlir.aliasing import VIEWS, is_block_argument, same_buffer, terminator


def rewrite(module: ir.Module) -> None:
    """Allocate each array that two results are computed from."""
    for function in public_functions(module):
        results = list(dict.fromkeys(terminator(function.regions[0].blocks[0]).operands))
        chains = [_chain(result) for result in results]
        for chain, other in combinations(chains, 2):
            if shared := chain & other:
                for value in sorted(shared, key=lambda content: str(content.get_name())):
                    _part(value)


def _chain(value: ir.Value) -> set[ir.Value]:
    """Return `value` and its earlier contents in the same memory, without empty ones."""
    contents, pending = set(), [value]
    while pending:
        content = pending.pop()
        if (
            content in contents
            or is_block_argument(content)
            or content.owner.name in ("tensor.empty", "bufferization.alloc_tensor")
        ):
            continue
        contents.add(content)
        pending += [content.owner.operands[0]] if content.owner.name in VIEWS else same_buffer(content)
    return contents


def _part(value: ir.Value) -> None:
    """Replace empty operands of the operation that defines `value` by allocations, which upstream leaves alone."""
    operation = value.owner.operation
    for position, operand in enumerate(operation.operands):
        if is_block_argument(operand) or operand.owner.name != "tensor.empty":
            continue
        with ir.InsertionPoint(operation), operation.location:
            operation.operands[position] = bufferization.alloc_tensor(operand.type, list(operand.owner.operands))
