"""Every spelling against its library: same call, same values, same dtypes; and what it refuses."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch
from eager_builder import Eager, Scalar, call, check, flat, refused
from numpy_calls import ARRAYS
from spelling_calls import MASK, NETWORKS, NUMPY, TORCH, B, C, Case, F, K, M, N, P, Q, V, W, X, Y
from tolerances import tolerance, within
from torch_calls import TENSORS
from window_calls import REFUSED, WINDOWS

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.definition import mlir_type, new_context
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.dialect.spellings.numpy_api import ufuncs as spellings_numpy
from mlirtri.dialect.spellings.torch_api import elementwise as spellings_torch
from mlirtri.errors import KernelError
from mlirtri.lowering.frontend.semantics.builder import Language

CASES = [*NUMPY, *ARRAYS, *TORCH, *TENSORS, *NETWORKS, *WINDOWS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_call_same_result(case):
    check(case.name, *case.arguments, **case.keywords)


def leaves(value) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value] if isinstance(value, np.ndarray) else []


def with_tensors(value, tensors):
    """`value` with the next of `tensors` in place of each array."""
    if isinstance(value, (tuple, list)):
        return type(value)(with_tensors(item, tensors) for item in value)
    return next(tensors) if isinstance(value, np.ndarray) else value


@pytest.fixture(scope="module")
def context():
    with (made := new_context()), ir.Location.unknown():
        yield made


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_builder_of_kernels_gives_the_same_types(case, context):
    """The same call with the builder that makes MLIR operations."""
    arrays = leaves([*case.arguments, *case.keywords.values()])
    types = [TensorType(array.shape, as_dtype(array.dtype)) for array in arrays]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        block = func.FuncOp("kernel", ir.FunctionType.get([mlir_type(t) for t in types], [])).add_entry_block()
    tensors = iter([TriValue(argument, t) for argument, t in zip(block.arguments, types, strict=True)])
    builder = Language("torch" if case.name.startswith(("torch.", "Tensor.")) else "numpy")
    arguments = [with_tensors(value, tensors) for value in case.arguments]
    keywords = {key: with_tensors(value, tensors) for key, value in case.keywords.items()}
    with ir.InsertionPoint(block):
        result = flat(spellings.lookup(case.name).call(builder, *arguments, **keywords))
    wanted = flat(call(case.name, *case.arguments, **case.keywords))
    for mine, theirs in zip(result, wanted, strict=True):
        expected = TensorType(theirs.shape, as_dtype(theirs.dtype)) if isinstance(theirs, np.ndarray) else theirs
        assert (mine.type if isinstance(mine, TriValue) else mine) == expected


@pytest.mark.parametrize("op", [*spellings_numpy._UNARY, *spellings_numpy._TESTS])
def test_numpy_unary_rows(op):
    for word in (spellings_numpy._UNARY | spellings_numpy._TESTS)[op].split():
        check(f"numpy.{word}", N if op == "bitwise_not" else X + 1 if op == "acosh" else X)


@pytest.mark.parametrize("op", [*spellings_numpy._BINARY, *spellings_numpy._COMPARISONS])
def test_numpy_binary_rows(op):
    operands = (N, P) if "bit" in op or "shift" in op else (Y, X)
    operands = (X, Y) if op == "power" else operands
    for word in spellings_numpy._BINARY.get(op, op).split():
        check(f"numpy.{word}", *operands)
        check(f"numpy.{word}", N if operands[0] is N else X, 2)


@pytest.mark.parametrize("op", spellings_torch._UNARY)
def test_torch_unary_rows(op):
    for word in spellings_torch._UNARY[op].split():
        check(f"torch.{word}", N if op == "bitwise_not" else X + 1 if op == "acosh" else X)
        if "special" not in word:
            check(f"Tensor.{word}", N if op == "bitwise_not" else X + 1 if op == "acosh" else X)


TORCH_BINARY = spellings_torch._BINARY | spellings_torch._TENSOR_AND_NUMBER | spellings_torch._TWO_TENSORS


@pytest.mark.parametrize("op", TORCH_BINARY)
def test_torch_binary_rows(op):
    operands = (N, P) if "bit" in op or "shift" in op else (Y, X)
    for word in TORCH_BINARY[op].split():
        check(f"torch.{word}", *operands)
        check(f"Tensor.{word}", *operands)
        if op in spellings_torch._TWO_TENSORS:
            refused("takes a tensor here, not a Python int", f"torch.{word}", operands[0], 2)
        else:
            check(f"torch.{word}", operands[0], 2)


# --- math ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in dir(math) if inspect.isbuiltin(getattr(math, n)) and n[0] != "_"])
def test_math_folds_whatever_it_has(name):
    arguments = {
        "dist": ((1.0, 2.0), (3.0, 4.0)), "fsum": ([1, 2.5],), "prod": ([2, 3],), "sumprod": ([1, 2], [3, 4]),
        "fma": (1.0, 2.0, 3.0), "acosh": (1.5,), "factorial": (5,), "isqrt": (17,),
        **dict.fromkeys(("gcd", "lcm", "comb", "perm", "ldexp"), (7, 2)),
        **dict.fromkeys(("atan2", "copysign", "fmod", "isclose", "nextafter", "pow", "remainder", "hypot"), (1.5, 2.0)),
    }.get(name, (0.5,))  # fmt: skip
    assert call(f"math.{name}", *arguments) == getattr(math, name)(*arguments)


@pytest.mark.parametrize(
    "name",
    ["exp", "log", "sqrt", "fabs", "erf", "tanh", "degrees", "radians", "log2", "asin", "floor", "ceil", "isnan"],
)
def test_math_of_run_time_scalars(name):
    for scalar in (Scalar(0.7), np.array(0.7), np.array(0.7, np.float32)):
        result = call(f"math.{name}", scalar)
        expected = getattr(math, name)(float(getattr(scalar, "value", scalar)))
        assert float(getattr(result, "value", result)) == pytest.approx(float(expected), rel=tolerance("float64"))
        assert isinstance(result, Scalar) == isinstance(expected, float)


def test_math_of_two():
    assert call("math.pow", Scalar(2.0), 3).value == 8
    assert call("math.log", Scalar(8.0), 2).value == pytest.approx(3)
    assert call("math.atan2", np.array(1.0), Scalar(2.0)).value == pytest.approx(math.atan2(1, 2))


def test_math_refuses_what_it_would_raise_and_what_is_no_scalar():
    refused("math.sqrt: ", "math.sqrt", -1.0)
    refused("math.exp takes a scalar, not float32\\[2, 3\\]", "math.exp", X)
    refused("math.gcd takes numbers that are known at compile time", "math.gcd", Scalar(2.0), 3)
    refused("too many positional arguments", "math.exp", Scalar(2.0), 3)


# --- mlirtri's own -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("semantics", ["numpy", "torch"])
def test_own_functions_follow_the_semantics(semantics):
    def own(name, *arguments, **keywords):
        builder = Eager(semantics)
        found = spellings.lookup(f"mlirtri.{name}")
        result = found.call(builder, *arguments, **keywords)
        assert builder.used <= {*found.ops, "cast"}
        return result

    library = np if semantics == "numpy" else torch
    of = (lambda x: x) if semantics == "numpy" else torch.from_numpy

    def same(mine, theirs):
        theirs = np.asarray(theirs)
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, **within(theirs.dtype))

    same(own("std", X, 1), library.std(of(X), 1))
    same(own("sum", N, axis=0), library.sum(of(N), 0))
    same(own("sum", N, dim=0, keepdim=True), library.sum(of(N), 0, keepdims=True))
    same(own("divide", N, P), library.divide(of(N), of(P)))
    same(own("exp", N), library.exp(of(N)))
    same(own("zeros", (2, 3)), library.zeros((2, 3)))
    same(own("full", (2,), 2.5), library.full((2,), 2.5))
    same(own("arange", 1, 2, 0.25), library.arange(1, 2, 0.25))
    same(own("max", X, 1), library.amax(of(X), 1))
    same(own("where", M, X, 0.0), library.where(of(M), of(X), 0.0))
    same(own("clip", Y, -1, 1), library.clip(of(Y), -1, 1))
    same(own("transpose", X), X.T)
    same(own("permute", B, 2, 0, 1), B.transpose(2, 0, 1))
    same(own("reshape", X, 3, 2), X.reshape(3, 2))
    same(own("reshape", X, (3, 2)), X.reshape(3, 2))
    same(own("softmax", X), torch.softmax(torch.from_numpy(X), -1))
    same(own("gelu", X, "tanh"), torch.nn.functional.gelu(torch.from_numpy(X), approximate="tanh"))
    same(own("linear", X, Y), torch.nn.functional.linear(torch.from_numpy(X), torch.from_numpy(Y)))
    same(
        own("layer_norm", X, 1, V, V, 1e-3),
        torch.layer_norm(*map(torch.from_numpy, [X]), (3,), torch.from_numpy(V), torch.from_numpy(V), 1e-3),
    )
    same(
        own("scaled_dot_product_attention", Q, K, W, is_causal=True),
        torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, W)), is_causal=True),
    )
    same(own("full_like", N, 2), np.full_like(N, 2))
    same(own("concatenate", (X, Y), 1), np.concatenate((X, Y), 1))
    same(own("stack", (X, Y), dim=1), np.stack((X, Y), 1))
    same(own("eye", 2, 3), library.eye(2, 3))
    same(own("tril", X), np.tril(X))
    assert [part.shape for part in own("split", X, 3, axis=1)] == [(2, 1)] * 3


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "case"),
    [
        ("numpy.exp\\(where=…\\) is not supported", Case("numpy.exp", X, where=M)),
        ("numpy.max with where= needs initial=", Case("numpy.max", X, where=M)),
        ("numpy.exp\\(out=…\\) is not supported", Case("numpy.exp", X, X)),
        ("order='A' goes by how an array lies in memory", Case("numpy.reshape", X, (3, 2), "A")),
        ("numpy.sum\\(\\) has no parameter 'dim'", Case("numpy.sum", X, dim=1)),
        ("numpy.sum\\(\\) missing a required argument: 'a'", Case("numpy.sum")),
        ("torch.where takes a condition, or that and two values", Case("torch.where", M, X)),
        ("5 elements do not split into 2 equal parts", Case("numpy.split", np.ones(5), 2)),
        ("dtype=int32 cannot hold float32", Case("numpy.add", X, X, dtype=np.int32)),
        ("ddof and correction", Case("numpy.std", X, ddof=1, correction=1)),
        ("numpy's dtype \\|S3 is not one of kernels", Case("numpy.zeros", 2, "S3")),
        ("torch.exp takes a tensor here, not a Python float", Case("torch.exp", 2.0)),
        ("torch.add takes a tensor here", Case("torch.add", 1, 2)),
        ("reduces one dimension or all", Case("torch.prod", X, (0, 1))),
        ("torch.nn.functional.relu\\(inplace=…\\) is not supported", Case(f"{F}.relu", X, inplace=True)),
        ("torch.zeros\\(\\) makes a tensor on the device", Case("torch.zeros", 2, device="cuda")),
        ("tensors do not move between devices", Case("Tensor.to", X, "cuda")),
        ("the positions of tensor_split are known", Case("torch.tensor_split", X, X)),
        ("the range of narrow is known", Case("torch.narrow", X, 0, X[0, 0], 1)),
        ("softmax needs dim", Case(f"{F}.softmax", X)),
        ("at least one of min and max", Case("torch.clamp", X)),
        ("rounding_mode is None, 'floor' or 'trunc'", Case("torch.div", X, X, rounding_mode="up")),
        ("axis 2 is out of range for rank 2", Case("numpy.swapaxes", X, 0, 2)),
        ("name an axis twice", Case("numpy.moveaxis", B, (0, 0), (1, 2))),
        ("an axis is an integer known at compile time, not 0.5", Case("torch.transpose", X, 0.5, 0)),
        ("has rank 2, not 3", Case("torch.mm", B, C)),
        ("add up to 2, and dimension 0 has 4", Case("torch.split", B, [1, 1])),
        ("the sizes \\(3, -1\\) do not multiply to 4", Case("torch.unflatten", B, 0, (3, -1))),
        ("does not expand to", Case("Tensor.expand", V, 3, -1, 1)),
        ("is not the end of the input's shape", Case(f"{F}.layer_norm", X, (2,))),
        ("exclude each other", Case(f"{F}.scaled_dot_product_attention", Q, K, W, MASK, is_causal=True)),
        ("approximate is 'none' or 'tanh'", Case(f"{F}.gelu", X, approximate="fast")),
        ("the mask of masked_fill is a bool tensor", Case("torch.masked_fill", X, N, 0)),
        ("rank 2 or more", Case("torch.tril", V)),
        ("is not within dimension 0", Case("torch.narrow", B, 0, 3, 2)),
        *REFUSED,
    ],
    ids=str,
)
def test_refusals_are_sentences(sentence, case):
    refused(sentence, case.name, *case.arguments, **case.keywords)


def test_a_wrong_call_shows_the_signature():
    error = refused("too many", "torch.sum", X, 1, False, None)
    assert error.help == "its signature is torch.sum(input, dim=None, keepdim=False, *, dtype=None, out=None)"
    assert str(spellings.lookup("ndarray.sum")).startswith("ndarray.sum(axis=None, dtype=None, out=None")


def test_the_libraries_own_defaults_may_be_written_out():
    check("numpy.sum", X, None, None, None)
    check("torch.zeros", 2, device=None, requires_grad=False)


def test_errors_are_kernel_errors():
    for name in ("numpy.concatenate", "torch.cat"):
        with pytest.raises(KernelError):
            call(name, X, X, X, X, X)
