"""Operations of imported modules that are made of simpler ones: by upstream's decompositions, and by ours.

Takes a module of `linalg` and `tensor` on tensors. Gives it, in place, without `linalg.softmax`, `linalg.pack`,
`linalg.unpack`, `linalg.winograd_*`, and the operations of `tensor`, `index` and `bufferization` that
`tensor_decompositions.py` has rules for. Leaves what it cannot decompose; a later room refuses it.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import all_operations, apply_transform, ir
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.tensor_decompositions import RULES
from mlirtri.lowering.mlir.cloning import replace

DECOMPOSE = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    %found = transform.structured.match ops{{["{name}"]}} in %root : (!transform.any_op) -> !transform.any_op
    transform.foreach %found : !transform.any_op {{
    ^bb0(%one: !transform.any_op):
      %made = transform.structured.{decompose} %one : (!transform.any_op) -> !transform.any_op
    }}
    transform.yield
  }}
}}
"""
UPSTREAM = {
    "linalg.softmax": "decompose_interface",
    "linalg.winograd_filter_transform": "decompose_winograd_op",
    "linalg.winograd_input_transform": "decompose_winograd_op",
    "linalg.winograd_output_transform": "decompose_winograd_op",
}
"""What upstream's transform dialect takes apart, and by which operation of it."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Take the operations of `module` apart, in place."""
    present = {operation.name for operation in all_operations(module)}
    for name, decompose in UPSTREAM.items():
        if name in present:
            apply_transform(module, DECOMPOSE.format(name=name, decompose=decompose))
    # Inner ones first: a region is moved into what stands for its operation.
    for operation in reversed(all_operations(module)):
        if (rule := RULES.get(operation.name)) is None:
            continue
        with errors_at(operation), ir.InsertionPoint(operation), operation.location:
            values = rule(operation)
        if values is None:
            continue
        replace(operation, values)
