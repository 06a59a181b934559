"""Types of Relax as MLIR types."""

from __future__ import annotations

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.tir_to_scalar import mlir_type
from mlirtri.lowering.toolchain.tvm_names import Expr, relax, tirx
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir


def tensor_type(kind: tvm_ir.Type) -> ir.RankedTensorType:
    """Return the type of a Relax tensor; symbolic sizes are dynamic."""
    sizes = [int(size.value) if isinstance(size, tirx.IntImm) else DYNAMIC for size in sizes_in(kind)]
    return ir.RankedTensorType.get(sizes, mlir_type(str(kind.dtype)))


def sizes_in(kind: tvm_ir.Type) -> list[Expr | None]:
    """Return the sizes of a tensor type, each None where only the rank is known; none for a scalar."""
    if not isinstance(kind, relax.TensorType):
        return []
    if isinstance(kind.shape, relax.ShapeExpr):
        return list(kind.shape.values)
    if kind.ndim < 0:
        raise UnsupportedOperationError("a tensor of unknown rank")
    return [None] * kind.ndim


def flat_types(kind: tvm_ir.Type) -> list[ir.Type]:
    """Return the types of the tensors and scalars in a type, those of tuples flattened."""
    if isinstance(kind, relax.TupleType):
        return [leaf for field in kind.fields for leaf in flat_types(field)]
    if isinstance(kind, relax.TensorType):
        return [tensor_type(kind)]
    if isinstance(kind, tvm_ir.PrimType):
        return [mlir_type(str(kind.dtype))]
    raise UnsupportedOperationError(f"a Relax function takes or returns a {type(kind).__name__}, not tensors")


def flat_dtypes(kind: tvm_ir.Type) -> list[str]:
    """Return the TVM dtypes of a type, in the same order."""
    if isinstance(kind, relax.TupleType):
        return [dtype for field in kind.fields for dtype in flat_dtypes(field)]
    return [str(kind.dtype)]
