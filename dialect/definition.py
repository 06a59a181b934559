"""The `tri` dialect, made from the op table with the bindings' Python-defined dialects.

Every operation is `Pure`, so that upstream CSE and dead-code elimination work on it, and its verifier re-runs the
row's type rule. `irdl_text()` is the same definition as MLIR's own IRDL, kept in ``dialect/tri.irdl.mlir`` for
``mlir-opt --irdl-file=``; a test keeps the two equal. Written out by ``python -m mlirtri.dialect.definition``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import new_class
from typing import Any, TypeVar

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.sizes import UNKNOWN, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType, same_shape
from mlirtri.dialect.bindings.mlir import ext, find_dialects_in, ir, load_torch
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.ops.table import TABLE, dialect_ops
from mlirtri.errors import KernelError

IRDL_FILE = Path(__file__).with_name("tri.irdl.mlir")


def type_of(value_type: ir.Type) -> TensorType:
    """Return the `TensorType` of an MLIR ranked tensor type; raise `KernelError` for any other type."""
    if not isinstance(value_type, ir.RankedTensorType):
        raise KernelError(f"{value_type} is not a ranked tensor")
    if (dtype := find_dtype(str(value_type.element_type))) is None:
        raise KernelError(f"{value_type.element_type} is no element type of mlirtri")
    dynamic = ir.ShapedType.get_dynamic_size()
    return TensorType(tuple(UNKNOWN if size == dynamic else size for size in value_type.shape), dtype)


def op_of(operation: ir.Operation) -> Op:
    """Return the row of the op table for a `tri` operation."""
    return TABLE[operation.name.removeprefix("tri.")]


def mlir_type(tensor_type: TensorType) -> ir.Type:
    """Return the MLIR type of stage `tri`, where integers keep their sign."""
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = [dynamic if is_dynamic(size) else size for size in tensor_type.shape]
    return ir.RankedTensorType.get(shape, ir.Type.parse(tensor_type.dtype.mlir))


_ATTRIBUTE_CLASSES = {
    "int": ir.IntegerAttr, "ints": ir.DenseI64ArrayAttr, "float": ir.FloatAttr, "bool": ir.BoolAttr,
    "string": ir.StringAttr,
}  # fmt: skip


def _constraint(kind: str) -> Any:
    """Return IRDL's constraint of an attribute; bools and array<i64> have none, and the verifier checks them."""
    kind_class = _ATTRIBUTE_CLASSES.get(kind)
    return kind_class if hasattr(kind_class, "attr_name") else Any


def _annotations(op: Op) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for operand in op.operands:
        # One IRDL variable per operand: a shared one would mean equal types.
        value = ir.Value[TypeVar(f"{op.name}_{operand.rstrip('*')}", bound=ir.RankedTensorType)]
        fields[operand.rstrip("*")] = Sequence[value] if operand.endswith("*") else value
    for name, kind in op.attributes.items():
        fields[name] = _constraint(kind)
    fields["result"] = ir.OpResult[TypeVar(f"{op.name}_result", bound=ir.RankedTensorType)]
    return fields


def _verifier(op: Op):
    def verify_invariants(self) -> bool:
        # IRDL checks presence after this runs, and says it better.
        if any(name not in self.operation.attributes for name in op.attributes):
            return True
        if not op.is_variadic and len(self.operation.operands) != len(op.operands):
            self.location.emit_error(f"'tri.{op.name}' op takes {len(op.operands)} operands")
            return False
        for name, kind in op.attributes.items():
            wanted_class = _ATTRIBUTE_CLASSES.get(kind, ir.Attribute)
            if not isinstance(self.operation.attributes[name], wanted_class):
                self.location.emit_error(f"'tri.{op.name}' op attribute '{name}' has to be of kind {kind}")
                return False
        try:
            wanted = op.infer(
                [type_of(operand.type) for operand in self.operation.operands],
                attributes.from_mlir(op, self.operation),
            )
            actual = type_of(self.operation.results[0].type)
        except KernelError as error:
            self.location.emit_error(f"'tri.{op.name}' op {error.message}")
            return False
        if wanted.dtype != actual.dtype or not same_shape(wanted.shape, actual.shape):
            self.location.emit_error(f"'tri.{op.name}' op result is {actual}, but its operands give {wanted}")
            return False
        return True

    return verify_invariants


@lru_cache(maxsize=1)
def dialect() -> type[ext.Dialect]:
    """Create the dialect class, once per process."""
    find_dialects_in("mlirtri.dialect")
    tri = new_class("Tri", (ext.Dialect,), {"name": "tri"})
    for op in dialect_ops():
        members = {"__annotations__": _annotations(op), "verify_invariants": _verifier(op)}
        new_class(
            op.name, (tri.Operation,), {"name": op.name, "traits": [ext.Pure]}, lambda body, m=members: body.update(m)
        )
    return tri


def load(context: ir.Context) -> None:
    """Register `tri` in a context, which MLIR allows once per context."""
    with context, ir.Location.unknown():
        dialect().load()


def new_context() -> ir.Context:
    """Return a context with `tri` registered; one per compilation, since threads do not share contexts."""
    context = ir.Context()
    # Verifiers are Python: on a worker thread of MLIR they could wait for the GIL that the caller holds.
    context.enable_multithreading(False)
    load(context)
    return context


def context_for(source: str | bytes) -> ir.Context:
    """Return a new context for MLIR text or bytecode, with torch-mlir's dialects where it mentions one."""
    context = new_context()
    mentioned = ("tm_tensor", "torch.") if isinstance(source, str) else (b"tm_tensor", b"torch.")
    if any(name in source for name in mentioned):
        load_torch(context)
    return context


def irdl_text() -> str:
    """Return the dialect as IRDL text for ``mlir-opt --irdl-file=``."""
    with ir.Context(), ir.Location.unknown():
        body = str(dialect()._emit_module())
    return "// The tri dialect as IRDL. Generated from the op table: python -m mlirtri.dialect.definition\n" + body


if __name__ == "__main__":
    IRDL_FILE.write_text(irdl_text())
