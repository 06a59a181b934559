"""The table of element types: our name, which is also NumPy's, torch's and TVM's, and MLIR's type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlirtri.errors import KernelTypeError

if TYPE_CHECKING:
    from torch import dtype as TorchDType


@dataclass(frozen=True)
class DType:
    """An element type. `kind`: ``b`` bool, ``i`` and ``u`` integers, ``f`` IEEE, ``v`` other floats, ``c`` complex."""

    name: str
    mlir: str
    """MLIR's element type at stage `tri`; integers are signless from stage `linalg` on."""
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind in "fv"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_inexact(self) -> bool:
        """Return whether this is a float or complex dtype, NumPy's ``inexact``."""
        return self.is_float or self.is_complex

    @property
    def part(self) -> DType:
        """Return the dtype of the real and the imaginary part; a real dtype itself."""
        return DTYPES[f"float{self.bits // 2}"] if self.is_complex else self

    @property
    def python(self) -> type:
        """Return the Python type of an element: bool, int, float or complex."""
        return {"f": float, "v": float, "b": bool, "c": complex}.get(self.kind, int)

    @property
    def is_integer(self) -> bool:
        """Return whether this is a signed or unsigned integer; bool is not one."""
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def is_unsigned(self) -> bool:
        return self.kind == "u"

    @property
    def is_half(self) -> bool:
        """Return whether this is fp16 or bf16, whose arithmetic is done in fp32 and rounded after each operation."""
        return self.is_float and self.bits == 16

    def holds(self, number: int) -> bool:
        """Return whether an integer dtype represents `number`."""
        lowest = 0 if self.is_unsigned else -(1 << (self.bits - 1))
        return lowest <= number < lowest + (1 << self.bits)

    @property
    def letter(self) -> str:
        """Return `kind`, but ``h`` for fp16, as rows of the op table name the dtypes of Relax operators."""
        return "h" if self.name == "float16" else self.kind

    @property
    def epsilon(self) -> float:
        """Return the machine epsilon of a float dtype, or of the parts of a complex one."""
        import ml_dtypes

        return float(ml_dtypes.finfo(self.numpy).eps)

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def signless(self) -> str:
        """Return MLIR's element type from stage `linalg` on, where integers are signless."""
        return self.mlir[1:] if self.mlir.startswith("ui") else self.mlir

    @property
    def numpy(self) -> np.dtype:
        """Return the NumPy dtype; those that NumPy lacks come from `ml_dtypes`."""
        if self.kind == "v":
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.name))
        return np.dtype(self.name)

    @property
    def torch(self) -> TorchDType:
        """Return the `torch.dtype`; imports torch."""
        import torch

        return getattr(torch, self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"mlirtri.{self.name}"


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("bool", "i1", "b", 1),
        DType("int8", "i8", "i", 8),
        DType("int16", "i16", "i", 16),
        DType("int32", "i32", "i", 32),
        DType("int64", "i64", "i", 64),
        DType("uint8", "ui8", "u", 8),
        DType("uint16", "ui16", "u", 16),
        DType("uint32", "ui32", "u", 32),
        DType("uint64", "ui64", "u", 64),
        DType("float16", "f16", "f", 16),
        DType("bfloat16", "bf16", "v", 16),
        DType("float32", "f32", "f", 32),
        DType("float64", "f64", "f", 64),
        DType("complex64", "complex<f32>", "c", 64),
        DType("complex128", "complex<f64>", "c", 128),
    )
}

STORED = {
    dtype.name: dtype
    for dtype in (
        DType("float8_e4m3fn", "f8E4M3FN", "v", 8),
        DType("float8_e4m3fnuz", "f8E4M3FNUZ", "v", 8),
        DType("float8_e5m2", "f8E5M2", "v", 8),
        DType("float8_e5m2fnuz", "f8E5M2FNUZ", "v", 8),
    )
}
"""Storage-only dtypes of imported programs: values are converted before any arithmetic."""

_ALIASES = {
    "i1": "bool", "bool_": "bool", "half": "float16", "float": "float64", "double": "float64",
    "int": "int64", "long": "int64", "short": "int16", "byte": "uint8", "complex": "complex128",
    "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
_BY_NAME = DTYPES | {dtype.mlir: dtype for dtype in DTYPES.values()} | {k: DTYPES[v] for k, v in _ALIASES.items()}
_STORED_BY_MLIR = {dtype.mlir: dtype for dtype in STORED.values()}
_BY_PYTHON_TYPE = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def is_torch_device(value: object) -> bool:
    """Return whether this is a `torch.device`, without importing torch."""
    return (type(value).__module__, type(value).__name__) == ("torch", "device")


KIND_RANKS = {"b": 0, "u": 1, "i": 2, "f": 3, "v": 3, "c": 4}
"""By kind of dtype: a lower one casts to a higher one under NumPy's rule ``same_kind``."""


def is_same_kind(semantics: str, source: DType, target: DType) -> bool:
    """Return whether an update in place may cast: NumPy's rule ``same_kind``; torch's is blind to signs."""
    ranks = KIND_RANKS if semantics == "numpy" else KIND_RANKS | {"u": KIND_RANKS["i"]}
    return ranks[source.kind] <= ranks[target.kind]


def find_dtype(dtype_like: object) -> DType | None:
    """Return the dtype that `dtype_like` names, or None where it names none."""
    if isinstance(dtype_like, DType):
        return dtype_like
    if isinstance(dtype_like, str):
        return _BY_NAME.get(dtype_like)
    if isinstance(dtype_like, type) and dtype_like in _BY_PYTHON_TYPE:
        return DTYPES[_BY_PYTHON_TYPE[dtype_like]]
    if type(dtype_like).__module__ == "torch":
        return DTYPES.get(str(dtype_like).removeprefix("torch."))
    if isinstance(dtype_like, np.dtype) or (isinstance(dtype_like, type) and issubclass(dtype_like, np.generic)):
        dtype = np.dtype(dtype_like)
        return DTYPES.get(dtype.name) if dtype.isnative else None
    return None


def find_stored(dtype_like: object) -> DType | None:
    """Return the dtype that `dtype_like` names, also one of `STORED`; None where it names none."""
    if isinstance(dtype_like, (np.dtype, type)) or type(dtype_like).__module__ == "torch":
        name = str(dtype_like).removeprefix("torch.") if not isinstance(dtype_like, type) else dtype_like.__name__
    else:
        name = str(dtype_like)
    return find_dtype(dtype_like) or STORED.get(name) or _STORED_BY_MLIR.get(name)


def as_dtype(dtype_like: object) -> DType:
    """Return the dtype that `dtype_like` names; raise `KernelTypeError` with all names where it names none."""
    if (dtype := find_dtype(dtype_like)) is not None:
        return dtype
    raise KernelTypeError(f"{dtype_like!r} is not a dtype of mlirtri", help=instead_of(dtype_like))


def instead_of(dtype_like: object) -> str:
    """Return what to use in place of what is no dtype of kernels."""
    if "float8" not in str(dtype_like):
        return f"use one of {', '.join(DTYPES)}"
    return (
        "fp8 is a dtype of stored tensors only, such as weights of imported programs: pass kernels float16, which has "
        "all its numbers (x.to(torch.float16), x.astype(np.float16)), or its bits as uint8"
    )
