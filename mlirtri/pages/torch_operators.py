"""The section "torch operators" of `docs/coverage.md`: figures of torch's operator database, and what is refused.

The figures are of samples drawn from `torch.testing._internal.common_methods_invocations.op_db`, and compared with
eager by the tolerances of `torch.testing`. They are measured by hand, and written here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """The outcomes of one set of samples."""

    what: str
    right: int
    refused: int
    outside: int
    """Results outside of the tolerance, which `OUTSIDE` names."""

    @property
    def row(self) -> str:
        total = self.right + self.refused + self.outside
        return f"| {self.what} | {total} | {self.right} | {self.refused} | {self.outside} |"


MEASUREMENTS = (
    Measurement("one sample each, half of them in float32, the others in eleven more dtypes, `linalg`", 1303, 27, 3),
    Measurement("one sample each of operators and dtypes drawn from all, `mlir`", 223, 9, 1),
    Measurement("one sample each of 367 operators, most of them in six dtypes, drawn anew, `linalg`", 1533, 7, 12),
    Measurement(
        "one sample each of the other operators (330) in each of their dtypes of twelve, `linalg`", 2609, 37, 6
    ),
    Measurement("one sample each of all operators in float32, `mlir`", 632, 7, 1),
    Measurement("further samples of all operators in float32, one in eight, `linalg`", 489, 5, 1),
    Measurement("further samples of all operators in seven other dtypes, one in 33, `linalg`", 589, 4, 10),
    Measurement("two samples of all operators in ten dtypes, one in 20, `mlir`", 424, 1, 3),
    Measurement("two samples each in uint16, uint64 and complex32, half of them, `linalg`", 180, 3, 0),
    Measurement("up to four samples each in int16, int32 and complex128, one in 12, `linalg`", 208, 1, 0),
    Measurement(
        "one sample each in float16, bfloat16, complex64, int8, uint8 and bool, one in four, `linalg`", 650, 5, 3
    ),
)

OUTSIDE = (
    ("eager is itself farther off, compared with a wider dtype", "`pow` and `linalg.cond` of complex64, `matrix_exp`, "
     "`interpolate`, `grid_sample`, `batch_norm`, `instance_norm`, `bilinear`, `addbmm`, `linalg.cross`, "
     "`segment_reduce`, `adaptive_avg_pool3d` and `conv_transpose3d` of halves"),
    ("sums of products in another order than eager's", "`conv_transpose3d` of float32: 2.3e-4 off in numbers up to "
     "890, eager 1e-4"),
    ("products of complex numbers by three real convolutions, as in eager, whose sums are rounded in another order",
     "`conv_transpose3d` of complex64: 1.2e-4 off in numbers up to 537, eager 8.4e-5"),
)  # fmt: skip

NOT_COMPARED = (
    ("random numbers, but for their shapes", "`dropout…`, `rand…`, `normal`, `uniform`, `multinomial`, `bernoulli`, "
     "`geometric`, …: `tests/lowering/importers/from_torch/test_torch_random.py` compares them after one seed"),
    ("contents that nothing defines", "`empty`, `empty_like`, `empty_strided`, `empty_permuted`, `new_empty…`"),
    ("results that are not dense", "`to_sparse`, samples with sparse operands"),
    ("indices of equal elements", "`kthvalue`, `mode`, `topk`, `median`, of which eager does not specify the order"),
)  # fmt: skip

REFUSED = (
    ("a dtype that NumPy or torch-mlir lacks", "the bits of complex32 numbers, complex32 in loops and branches, as "
     "weights, and in `repeat_interleave` by a tensor"),
    ("no algorithm here", "`linalg.ldl_…`, `linalg.eig`, `linalg.eigvals`, "
     "`_scaled_mm_v2`"),
    ("as many random numbers as elements say", "`rrelu` in training mode, `poisson`, `binomial`"),
    ("as many results, or as long ones without a bound, as elements say", "`tensor_split` by an element, `one_hot` "
     "without the number of classes"),
    ("views outside of an argument", "`as_strided` of a storage that begins before the tensor"),
    ("numbers that torch does not trace", "`item` of complex tensors"),
    ("torch's own decomposition fails", "the largest norm of no elements"),
)  # fmt: skip


def section() -> str:
    """Return the section as Markdown."""
    lines = [
        "## torch operators\n",
        "Samples of torch's own operator database (torch 2.13, about 680 operators, 12 dtypes), drawn at random and",
        "compared with eager: a sample is right if structure, dtypes and shapes are eager's, and numbers are within",
        "the default tolerances of `torch.testing.assert_close`. In rows four, five, seven, eight and eleven eager is",
        "farther off in all that are outside. Six others of the fourth row were wrong, and were mended; of the",
        "seventh, rounded quotients of halves; of the last, `linspace` of halves. Five of the refused samples of rows",
        "six and seven are compiled since.\n",
        "| samples | number | right | refused | outside of the tolerance |",
        "|---|---|---|---|---|",
        *(measurement.row for measurement in MEASUREMENTS),
        "\nOutside of the tolerance:\n",
        *(f"- {cause}: {operators}." for cause, operators in OUTSIDE),
        "\nNot compared:\n",
        *(f"- {cause}: {operators}." for cause, operators in NOT_COMPARED),
        "\nRefused:\n",
        *(f"- {cause}: {operators}." for cause, operators in REFUSED),
        "\nOne `grid_sample` of float64 takes more than a minute to compile, one `svd_lowrank` of complex64 more than",
        "two beside other work. Of the last row, one `grid_sample` and one `lstsq` did not end in two.\n",
        "`tests/support/operator_database.py` runs samples and records the outcomes. It needs the packages",
        "`expecttest` and `hypothesis`:\n",
        "```sh",
        "PYTHONPATH=tests/support python -m operator_database --record build/operators.jsonl --dtype float32",
        "```",
    ]
    return "\n".join(lines) + "\n\n"
