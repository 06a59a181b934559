"""The named sizes of an ONNX graph: equal names are equal sizes, which the program checks when it runs.

Takes a module just imported, before its operators become torch's, and the names by input. Gives it with an assertion
for each further place of a name. Refuses nothing.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.mlir import ir

Place = tuple[ir.Value, str, int]
"""An argument, what the graph calls it, and an axis of it."""


def assert_equal_names(function: ir.OpView, inputs: Any) -> None:
    """Assert, at the start of `function`, that sizes of one name agree; `inputs` are the graph's, in order."""
    block = function.regions[0].blocks[0]
    first: dict[str, Place] = {}
    with ir.InsertionPoint.at_block_begin(block):
        for argument, value in zip(block.arguments, inputs, strict=True):
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                if not size.dim_param:
                    continue
                here = (argument, value.name, axis)
                other = first.setdefault(size.dim_param, here)
                if other is not here:
                    _assert_equal(other, here, size.dim_param)


def _assert_equal(one: Place, other: Place, name: str) -> None:
    integer, boolean = ir.Type.parse("!torch.int"), ir.Type.parse("!torch.bool")
    sizes = []
    for argument, _, axis in (one, other):
        attributes = {"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)}
        number = ir.Operation.create("torch.constant.int", [integer], attributes=attributes)
        sizes.append(ir.Operation.create("torch.aten.size.int", [integer], [argument, number.result]).result)
    equal = ir.Operation.create("torch.aten.eq.int", [boolean], sizes)
    message = f"axis {one[2]} of {one[1]!r} and axis {other[2]} of {other[1]!r} are both {name!r}, and differ"
    attributes = {"message": ir.StringAttr.get(message)}
    ir.Operation.create("torch.runtime.assert", operands=[equal.result], attributes=attributes)
