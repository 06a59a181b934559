"""Types and constants of TVM in MLIR: dtypes, Relax types, conversions between them."""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import arith, ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.toolchain.tvm_names import Expr, relax, tirx
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir

_WIDE = {"int128": 128, "uint128": 128}
"""Integers that TVM computes in and no tensor has, with their widths."""


def mlir_type(dtype: str) -> ir.Type:
    """Return the signless MLIR type of a dtype; raises `UnsupportedOperationError` for one that tensors cannot have."""
    if dtype in _WIDE:
        return ir.IntegerType.get_signless(_WIDE[dtype])
    if dtype not in DTYPES:
        raise UnsupportedOperationError(f"linalg here has no element type {dtype}", help="cast it to another dtype")
    return ir.Type.parse(DTYPES[dtype].signless)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def is_signed(dtype: str) -> bool:
    return dtype.startswith("int")


def bits_of(dtype: str) -> int:
    return _WIDE.get(dtype) or DTYPES[dtype].bits


def constant(value: float, dtype: str) -> ir.Value:
    """Return a constant of a dtype; integers wrap."""
    kind = mlir_type(dtype)
    if is_float(dtype):
        return arith.constant(kind, ir.FloatAttr.get(kind, float(value)))
    if dtype == "bool":
        return arith.constant(kind, ir.BoolAttr.get(bool(value)))
    bits = bits_of(dtype)
    value = int(value) & ((1 << bits) - 1)
    wrapped = value - (1 << bits) if value >> (bits - 1) else value
    # The bindings do not take 128 bits, the parser does.
    return arith.constant(kind, ir.Attribute.parse(f"{wrapped} : {kind}"))


def dtype_of(expression: Expr) -> str:
    """Return the dtype of a TIR expression; raises `UnsupportedOperationError` for vectors."""
    dtype = str(expression.ty.dtype) if hasattr(expression.ty, "dtype") else str(expression.ty)
    if "x" in dtype and dtype not in DTYPES:
        raise UnsupportedOperationError("vectors of TIR have no counterpart in linalg", help="export it unscheduled")
    return dtype


def converted(value: ir.Value, source: str, target: str) -> ir.Value:
    """Convert `value` from dtype `source` to `target`: floats round, integers truncate or extend."""
    kind = mlir_type(target)
    if is_float(source) and is_float(target):
        return _between_floats(value, source, target)
    if is_float(source):
        return (arith.fptosi if is_signed(target) else arith.fptoui)(kind, value)
    if is_float(target):
        return (arith.sitofp if is_signed(source) else arith.uitofp)(kind, value)
    if bits_of(source) == bits_of(target):
        return value
    if bits_of(source) > bits_of(target):
        return arith.trunci(kind, value)
    return (arith.extsi if is_signed(source) else arith.extui)(kind, value)


def _between_floats(value: ir.Value, source: str, target: str) -> ir.Value:
    if bits_of(source) == bits_of(target):
        # Neither of fp16 and bf16 holds the other.
        return arith.truncf(mlir_type(target), arith.extf(ir.F32Type.get(), value))
    return (arith.extf if bits_of(source) < bits_of(target) else arith.truncf)(mlir_type(target), value)


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
