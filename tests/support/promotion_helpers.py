"""Operands of every dtype, our rule for them and the library's; shared by the tests of promotion."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from mlirtri.dialect.base.dtypes import DTYPES, find_dtype
from mlirtri.dialect.promotion.dtype_rules import Operand, result_dtypes
from mlirtri.errors import KernelError

NAMES = list(DTYPES)
SCALARS = {"bool": True, "int": 1, "float": 1.0, "complex": 1j}
OPERANDS = [*NAMES, *(f"Python {kind}" for kind in SCALARS)]
WIDE_UNSIGNED = {"uint16", "uint32", "uint64"}
numpy_2 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="the rules are those of NumPy 2.1 and newer"
)


def operand(name: str, rank: int = 1) -> Operand:
    kind = name.removeprefix("Python ")
    return Operand(DTYPES[name], rank=rank) if name in DTYPES else Operand(None, kind, value=SCALARS[kind])


def numpy_value(name: str):
    return np.ones(2, DTYPES[name].numpy) if name in DTYPES else SCALARS[name.removeprefix("Python ")]


def torch_value(name: str, rank: int = 1):
    return (
        torch.ones((2,) * rank, dtype=DTYPES[name].torch) if name in DTYPES else SCALARS[name.removeprefix("Python ")]
    )


def outcome(compute) -> str:
    """The dtype a library gives, ``refused``, or why a call says nothing about the rule."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            dtype = getattr(compute(), "dtype", None)
        except RuntimeError as error:
            # torch lacks kernels for wide unsigned integers; that is no rule.
            return "no kernel" if "not implemented for 'UInt" in str(error) else "refused"
        except TypeError as error:
            # torch's function takes no Python number there; operators do.
            return "no such call" if "must be Tensor" in str(error) or "combination of arg" in str(error) else "refused"
    # NumPy's dot falls back to Python objects.
    known_dtype = None if dtype is None else find_dtype(dtype)
    # torch's complex32 is not a dtype of ours.
    return "refused" if known_dtype is None else known_dtype.name


def ours(semantics: str, op: str, operands) -> str:
    try:
        return result_dtypes(semantics, op, operands).result.name
    except KernelError:
        return "refused"


def differences(cells) -> list[str]:
    silent = ("no kernel", "no such call")
    return [
        f"{what}: {mine} is not {theirs}" for what, mine, theirs in cells if mine != theirs and theirs not in silent
    ]
