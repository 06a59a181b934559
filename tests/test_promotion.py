"""Both semantics against the installed libraries: every op, every dtype (pair), results and refusals."""

from __future__ import annotations

import contextlib
import warnings
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mlirtri.dialect import promotion_tables as tables
from mlirtri.dialect.dtypes import DTYPES, find_dtype
from mlirtri.dialect.promotion import Operand, Plan, common_dtype, default_dtype, result_dtypes
from mlirtri.errors import KernelDivisionError, KernelError, KernelTypeError, KernelValueError

NAMES = list(DTYPES)
SCALARS = {"bool": True, "int": 1, "float": 1.0}
OPERANDS = [*NAMES, *(f"Python {kind}" for kind in SCALARS)]
WIDE_UNSIGNED = {"uint16", "uint32", "uint64"}
numpy_2 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="the rules are those of NumPy 2.1 and newer"
)

# What each op is called in NumPy; ops without a function there follow `exp`.
NUMPY_BINARY = {op: getattr(np, op) for op in tables.NUMPY_LOOPS if op not in ("atan2", "matmul", "clip")} | {
    "divide": np.divide,
    "atan2": np.arctan2,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "where": lambda x, y: np.where(np.array([True, False]), x, y),
}
NUMPY_NAMES = {
    "bitwise_not": "invert", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
NUMPY_LACKS = ("erf", "rsqrt", "sigmoid", *tables.NETWORK_FUNCTIONS)
NUMPY_UNARY = {
    op: getattr(np, NUMPY_NAMES.get(op, op))
    for op in (*tables.NUMPY_UNARY, *tables.PREDICATES, "logical_not", "any", "all")
    # Ours: relu is maximum(x, 0), and the reciprocal of integers is refused.
    if op not in (*NUMPY_LACKS, "relu", "reciprocal")
}
TORCH_NAMES = {
    "subtract": "sub", "equal": "eq", "not_equal": "ne", "power": "pow", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift", "concatenate": "cat", "clip": "clamp",
}  # fmt: skip
TORCH_SPECIAL = {
    "where": lambda x, y: torch.where(torch.tensor([True, False]), x, y),
    "concatenate": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "softmax": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, 0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape),
    "rms_norm": lambda x: F.rms_norm(x, x.shape),
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
}


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
    return "refused" if dtype is None else find_dtype(dtype).name


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


# --- the tables ----------------------------------------------------------------------------------------------------


def test_numpy_safe_casts():
    for name in NAMES:
        casts = "".join(
            tables.LETTER_OF[other] for other in NAMES if np.can_cast(DTYPES[name].numpy, DTYPES[other].numpy)
        )
        assert tables.NUMPY_SAFE_CASTS[tables.LETTER_OF[name]] == casts


def test_torch_promotion_table():
    for left, right in product(NAMES, repeat=2):
        theirs = outcome(lambda: torch.empty(0, dtype=torch.promote_types(DTYPES[left].torch, DTYPES[right].torch)))
        letter = tables.TORCH_PROMOTION[tables.LETTER_OF[left]][NAMES.index(right)]
        assert (tables.LETTERS[letter].name if letter in tables.LETTERS else "refused") == theirs, (left, right)


# --- NumPy ---------------------------------------------------------------------------------------------------------


@numpy_2
@pytest.mark.parametrize("op", NUMPY_BINARY)
def test_numpy_pairs(op):
    cells = []
    for left, right in product(OPERANDS, repeat=2):
        if {left, right} <= set(OPERANDS[len(NAMES) :]):
            continue
        extra = [operand("bool")] if op == "where" else []
        mine = ours("numpy", op, [*extra, operand(left), operand(right)])
        theirs = outcome(lambda: NUMPY_BINARY[op](numpy_value(left), numpy_value(right)))
        cells.append((f"{op} of {left} and {right}", mine, theirs))
    assert not differences(cells)


@numpy_2
@pytest.mark.parametrize("op", [op for op in NUMPY_BINARY if op in tables.NUMPY_LOOPS or op == "divide"])
def test_numpy_computes_in_the_dtype_of_the_ufuncs_loop(op):
    ufunc = NUMPY_BINARY[op]
    for left, right in product(NAMES, repeat=2):
        try:
            plan = result_dtypes("numpy", op, [operand(left), operand(right)])
        except KernelTypeError:
            continue
        loop = ufunc.resolve_dtypes((DTYPES[left].numpy, DTYPES[right].numpy, None))
        assert [dtype.numpy for dtype in plan.compute] == list(loop[:2]), (left, right)


@numpy_2
@pytest.mark.parametrize("op", NUMPY_UNARY)
def test_numpy_unary_and_reductions(op):
    cells = [
        (f"{op} of {name}", ours("numpy", op, [operand(name)]), outcome(lambda: NUMPY_UNARY[op](numpy_value(name))))
        for name in NAMES
    ]  # fmt: skip
    assert not differences(cells)


@numpy_2
@pytest.mark.parametrize("op", NUMPY_LACKS)
def test_what_numpy_lacks_follows_exp(op):
    for name in NAMES:
        assert ours("numpy", op, [operand(name)]) == ours("numpy", "exp", [operand(name)])


@numpy_2
@pytest.mark.parametrize("op", ["matmul", "dot", "concatenate", "stack"])
def test_numpy_products_and_joins(op):
    compute = {
        "matmul": np.matmul, "dot": np.dot, "concatenate": lambda x, y: np.concatenate([x, y]),
        "stack": lambda x, y: np.stack([x, y]),
    }[op]  # fmt: skip
    cells = [
        (f"{left}, {right}", ours("numpy", op, [operand(left), operand(right)]),
         outcome(lambda: compute(numpy_value(left), numpy_value(right))))
        for left, right in product(NAMES, repeat=2)
    ]  # fmt: skip
    assert not differences(cells)


@numpy_2
def test_numpy_clip_and_concatenate_of_three():
    cells = []
    for names in product(NAMES, repeat=3):
        values, operands = [numpy_value(name) for name in names], [operand(name) for name in names]
        cells.append((f"clip {names}", ours("numpy", "clip", operands), outcome(lambda: np.clip(*values))))
        joined = ours("numpy", "concatenate", operands)
        # NumPy joins some triples with bfloat16 in one order and refuses them in another: refused here.
        if joined != "refused" or "bfloat16" not in names:
            cells.append((f"join {names}", joined, outcome(lambda: np.concatenate(values))))
    assert not differences(cells)


@numpy_2
@pytest.mark.parametrize("bounds", [("Python int", "Python int"), ("Python float", "Python int"), ("Python int", None)])
def test_numpy_clip_with_python_bounds(bounds):
    for name in NAMES:
        low, high = (bound and numpy_value(bound) for bound in bounds)
        operands = [operand(name), *(operand(bound) for bound in bounds if bound)]
        assert ours("numpy", "clip", operands) == outcome(lambda: np.clip(numpy_value(name), low, high)), name


# --- torch ---------------------------------------------------------------------------------------------------------


def torch_function(op: str):
    return TORCH_SPECIAL.get(op) or getattr(torch, TORCH_NAMES.get(op, op))


TORCH_BINARY = [
    "add", "multiply", "minimum", "maximum", *tables.COMPARISONS, "subtract", "floor_divide", "remainder", "power",
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "divide", "atan2", "where",
    "logical_and", "logical_or", "logical_xor", "concatenate", "stack", "matmul", "dot",
]  # fmt: skip


@pytest.mark.parametrize("op", TORCH_BINARY)
def test_torch_pairs(op):
    """Tensors of rank 1 and 0 and Python scalars, in every combination that torch's own function takes."""
    ranked = [(name, rank) for name in NAMES for rank in (1, 0)] + [(name, 0) for name in OPERANDS[len(NAMES) :]]
    if op in ("concatenate", "stack", "matmul", "dot"):
        ranked = [(name, 1) for name in NAMES]
    cells = []
    for left, right in product(ranked, repeat=2):
        if left[0] not in DTYPES and right[0] not in DTYPES:
            continue
        theirs = outcome(lambda: torch_function(op)(torch_value(*left), torch_value(*right)))
        if op == "power" and left[0] == "bool" and right[0] == "Python bool":
            continue  # torch.pow(x, True) returns x before it looks at dtypes; refused here like any power of bools
        extra = [operand("bool")] if op == "where" else []
        cells.append(
            (f"{op} of {left} and {right}", ours("torch", op, [*extra, operand(*left), operand(*right)]), theirs)
        )
    assert len(cells) > 100
    assert not differences(cells)


TORCH_UNARY = [
    "negative", "abs", "sign", "floor", "ceil", "round", "trunc", *tables.FLOAT_FUNCTIONS, "square", "reciprocal",
    *tables.PREDICATES, "relu", "bitwise_not", "logical_not", *tables.NETWORK_FUNCTIONS, "sum", "prod", "max", "min",
    "mean", "any", "all", "argmax", "argmin", "var", "std",
]  # fmt: skip


@pytest.mark.parametrize("op", TORCH_UNARY)
def test_torch_unary_and_reductions(op):
    cells = [
        (f"{op} of {name}", ours("torch", op, [operand(name)]), outcome(lambda: torch_function(op)(torch_value(name))))
        for name in NAMES
    ]  # fmt: skip
    assert not differences(cells)


def test_torch_clamp_of_three():
    names = [name for name in NAMES if name not in WIDE_UNSIGNED and name != "bool"]
    cells = []
    for ranks in ((1, 1, 1), (1, 0, 0), (0, 1, 1), (0, 0, 1)):
        for triple in product(names, repeat=3):
            ranked = list(zip(triple, ranks, strict=True))
            theirs = outcome(lambda: torch.clamp(*(torch_value(*pair) for pair in ranked)))
            cells.append((f"clamp of {ranked}", ours("torch", "clip", [operand(*pair) for pair in ranked]), theirs))
    assert not differences(cells)


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_torch_normalizations_with_weights(op):
    floats = [name for name in NAMES if DTYPES[name].is_float]
    cells = []
    for x, weight, bias in product(floats, repeat=3):
        weights = (weight, bias) if op == "layer_norm" else (weight,)
        theirs = outcome(lambda: getattr(F, op)(torch_value(x), (2,), *(torch_value(name) for name in weights)))
        cells.append((f"{x} {weights}", ours("torch", op, [operand(x), *(operand(name) for name in weights)]), theirs))
    assert not differences(cells)


# --- values, defaults and sentences --------------------------------------------------------------------------------


def weak(value) -> Operand:
    return Operand(None, type(value).__name__, value=value)


@numpy_2
@pytest.mark.parametrize("value", [300, -1, 2**40, 2**63, -(2**63), 5])
@pytest.mark.parametrize("name", [name for name in NAMES if DTYPES[name].is_integer])
def test_numpy_refuses_python_ints_that_do_not_fit(name, value):
    fits = np.iinfo(name).min <= value <= np.iinfo(name).max
    for op in ("add", "maximum", "bitwise_and"):
        assert (ours("numpy", op, [operand(name), weak(value)]) == name) == fits
        with contextlib.nullcontext() if fits else pytest.raises(OverflowError):
            getattr(np, op)(numpy_value(name), value)


@pytest.mark.parametrize("value", [300, -1, 2**40, 2**63, 2**64 - 1, -(2**63), 5])
@pytest.mark.parametrize("name", [name for name in NAMES if DTYPES[name].is_integer])
def test_numpy_compares_with_any_python_int(name, value):
    """Both sides fit the dtypes they are compared in, so the comparison is exact."""
    plan = result_dtypes("numpy", "less", [operand(name), weak(value)])
    assert plan.result.is_bool
    tensor, number = (np.iinfo(dtype.numpy) for dtype in plan.compute)
    assert number.min <= value <= number.max
    assert tensor.min <= np.iinfo(name).min
    assert tensor.max >= np.iinfo(name).max
    assert plan.mixed_signs == (plan.compute[0] != plan.compute[1])


def test_uint64_and_int64_are_compared_each_in_its_own_sign():
    plan = result_dtypes("numpy", "less", [operand("uint64"), operand("int8")])
    assert plan == Plan((DTYPES["uint64"], DTYPES["int64"]), DTYPES["bool"], mixed_signs=True)
    with pytest.raises(KernelValueError, match="fits neither int64 nor uint64"):
        result_dtypes("numpy", "less", [operand("int8"), weak(2**70)])


def test_numpy_says_which_python_int_does_not_fit():
    with pytest.raises(KernelValueError, match="Python int 300 does not fit uint8") as caught:
        result_dtypes("numpy", "add", [operand("uint8"), weak(300)])
    assert "wider dtype" in caught.value.help


def test_torch_wraps_python_ints_except_where_it_checks_them():
    uint8 = operand("uint8")
    assert ours("torch", "add", [uint8, weak(300)]) == "uint8"
    for op, operands in {
        "where": [operand("bool"), uint8, weak(300)],
        "clip": [uint8, weak(0), weak(300)],
        "power": [uint8, weak(300)],
        "add": [uint8, weak(2**70)],
    }.items():
        with pytest.raises(KernelValueError, match="does not fit"):
            result_dtypes("torch", op, operands)


@pytest.mark.parametrize("semantics", ["numpy", "torch"])
def test_negative_integer_powers_are_refused(semantics):
    with pytest.raises(KernelValueError, match="negative integer power -1"):
        result_dtypes(semantics, "power", [operand("int32"), weak(-1)])
    assert ours(semantics, "power", [operand("float32"), weak(-1)]) == "float32"


def test_torch_raises_for_integer_division_by_a_zero_that_is_known():
    with pytest.raises(KernelDivisionError):
        result_dtypes("torch", "floor_divide", [operand("int32"), weak(0)])
    assert ours("torch", "floor_divide", [operand("float32"), weak(0)]) == "float32"
    assert ours("numpy", "floor_divide", [operand("int32"), weak(0)]) == "int32"


@pytest.mark.parametrize(
    ("op", "left", "right", "result", "kind"),
    [
        ("add", 1, 2.0, "float64", "float"),
        ("add", True, True, "int64", "int"),
        ("divide", 1, 2, "float64", "float"),
        ("floor_divide", 7, 2, "int64", "int"),
        ("less", 1.0, 2, "bool", "bool"),
        ("bitwise_and", True, False, "bool", "bool"),
        ("maximum", 1, 2.5, "float64", "float"),
    ],
)
def test_operators_on_python_scalars_stay_python_scalars(op, left, right, result, kind):
    for semantics in ("numpy", "torch"):
        plan = result_dtypes(semantics, op, [weak(left), weak(right)])
        assert (plan.result.name, plan.weak) == (result, kind)


def test_functions_of_one_python_scalar():
    assert result_dtypes("numpy", "exp", [weak(2)]) == Plan((DTYPES["float64"],), DTYPES["float64"], weak="float")
    assert result_dtypes("torch", "negative", [weak(True)]).result.name == "int64"
    assert result_dtypes("torch", "sum", [weak(2.0)]) == Plan((DTYPES["float32"],), DTYPES["float32"])
    assert result_dtypes("numpy", "stack", [weak(1), weak(2.0)]).result.name == np.stack([1, 2.0]).dtype.name


def test_defaults_are_those_of_the_libraries():
    for kind, value in SCALARS.items():
        assert default_dtype("numpy", kind).name == np.full(2, value).dtype.name
        assert default_dtype("torch", kind).torch == torch.full((2,), value).dtype
    assert common_dtype("numpy", [operand("int8"), operand("uint8")]).name == "int16"
    assert common_dtype("torch", [operand("int8"), operand("float64", rank=0)]).name == "float64"


def test_roundings_of_integers_are_nothing():
    for semantics, op in product(("numpy", "torch"), tables.ROUNDINGS):
        assert result_dtypes(semantics, op, [operand("int16")]).identity
        assert not result_dtypes(semantics, op, [operand("float16")]).identity


def test_dtype_of_sums_and_means():
    assert result_dtypes("numpy", "sum", [operand("int8")], dtype=DTYPES["int8"]).compute == (DTYPES["int8"],)
    with pytest.raises(KernelTypeError, match="mean does not compute in int32"):
        result_dtypes("torch", "mean", [operand("int8")], dtype=DTYPES["int32"])


@pytest.mark.parametrize(
    ("semantics", "op", "names", "sentence"),
    [
        ("numpy", "subtract", ["bool", "bool"], "subtract of bool and bool is refused, as NumPy does"),
        ("torch", "mean", ["int32"], "mean of int32 is refused, as torch does"),
        ("torch", "matmul", ["float32", "float16"], "one dtype, not float32 and float16"),
        ("torch", "add", ["uint16", "int8"], "add of uint16 and int8 is refused, as torch does"),
        ("torch", "where", ["int8", "int8", "int8"], "bool condition, not int8"),
        ("numpy", "concatenate", ["bfloat16", "float16"], "is refused, as NumPy does"),
        ("numpy", "frobnicate", ["int8"], "no dtype rule for operation 'frobnicate'"),
    ],
)  # fmt: skip
def test_refusals_are_sentences(semantics, op, names, sentence):
    with pytest.raises(KernelTypeError, match=sentence) as caught:
        result_dtypes(semantics, op, [operand(name) for name in names])
    assert op == "frobnicate" or caught.value.help
