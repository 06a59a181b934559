"""`NAME=VALUE` on the command line: tensors, run-time numbers with bounds, Python literals, and what is refused."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace

import pytest

import mlirtri as mt
from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.errors import KernelError
from mlirtri.kernels.argument_text import parse_argument
from mlirtri.language.names import Tensor


def bounded(dtype, low, high, shape=()):
    return replace(Tensor(shape, DTYPES[dtype]), bounds=(low, high))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=f32[2,3]", "a", Tensor((2, 3), DTYPES["float32"])),
        ("a=mt.float32[2, 3]", "a", Tensor((2, 3), DTYPES["float32"])),
        ("a=torch.int8[4]", "a", Tensor((4,), DTYPES["int8"])),
        ("a=ui8[0]", "a", Tensor((0,), DTYPES["uint8"])),
        ("a=bf16[]", "a", Tensor((), DTYPES["bfloat16"])),
        ("dtype=f16", "dtype", DTYPES["float16"]),
        ("n=i32:5", "n", bounded("int32", 5, 5)),
        ("n=ui8: 255", "n", bounded("uint8", 255, 255)),
        ("n=i64:-9223372036854775808..9", "n", bounded("int64", -(2**63), 9)),
        ("s=f16:2..2.5", "s", bounded("float16", 2.0, 2.5)),
        ("s=complex64:1+2j", "s", bounded("complex64", 1 + 2j, 1 + 2j)),
        ("b=bool:True", "b", bounded("bool", True, True)),
        ("a=i8[2]:-1..1", "a", bounded("int8", -1, 1, (2,))),
        ("n=3", "n", 3),
        ("axis=(0, -1)", "axis", (0, -1)),
        ("alpha=2.5", "alpha", 2.5),
        ("keep=True", "keep", True),
        ("dim=None", "dim", None),
        ("mode='mean'", "mode", "mean"),
    ],
)
def test_arguments(text, name, value):
    assert parse_argument(text) == (name, value)


@pytest.mark.parametrize(
    "text", ["a", "=3", "a b=3", "a=f33[2]", "a=mean", "a=f32[2", "a=f32[x]", "a=__import__('os')"]
)
def test_arguments_that_are_none(text):
    with pytest.raises(KernelError):
        parse_argument(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n=i32:", "n: expected int32, got ''"),
        ("n=i32:1.5", "n: expected int32, got '1.5'"),
        ("n=i8:128", "n: expected int8, got '128'"),
        ("n=ui8:-1", "n: expected uint8, got '-1'"),
        ("n=i32:1..", "n: expected int32, got ''"),
        ("n=i32:x", "n: expected int32, got 'x'"),
        ("b=bool:2", "b: expected bool, got '2'"),
        ("n=i32:9..1", "n: '9..1' is not a range of int32"),
        ("n=complex64:1..2", "n: '1..2' is not a range of complex64"),
        ("n=f33:1", "n: 'f33' is not a dtype of mlirtri"),
        ("n=float[2]", "n: 'float' has several widths"),
        ("n=torch.int:3", "n: 'int' has several widths"),
    ],
)
def test_numbers_that_are_none(text, message):
    with pytest.raises(KernelError) as caught:
        parse_argument(text)
    assert caught.value.message == message
    assert caught.value.help


@pytest.mark.parametrize("shape", [2.5, "ab", (2, "a"), -1])
def test_sizes_of_abstract_tensors_are_integers(shape):
    with pytest.raises(KernelError, match="is not a size of a Tensor"):
        mt.Tensor(shape, mt.float32)


ANNOTATED = """{first}
import mlirtri as mt

def make():
    @mt.jit
    def f(
        a: {kind},
    ):
        return a + 1
    return f
"""


@pytest.mark.parametrize("first", ["", "from __future__ import annotations"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ('mt.Tensor[["n", 8]]', "'n' is not a size of a Tensor"),
        ("mt.Tensor[[8], 'float31']", "'float31' is not a dtype of mlirtri"),
        ("mt.StridedTensor[[8], [0.5]]", "0.5 is not a stride of a StridedTensor"),
    ],
)
def test_wrong_annotations_have_a_place(first, kind, message, tmp_path):
    path = tmp_path / "annotated.py"
    path.write_text(ANNOTATED.format(first=first, kind=kind))
    module = runpy.run_path(str(path))
    with pytest.raises(KernelError) as caught:
        module["make"]().compile(mt.Tensor((8,), mt.float32))
    # Before Python 3.11 only postponed annotations have columns.
    has_columns = bool(first) or sys.version_info >= (3, 11)
    assert str(caught.value).splitlines()[0] == f"{path}:7:{12 if has_columns else 1}: error: {message}"
    assert f"           {'^'.ljust(len(kind), '~')}\n" in str(caught.value) or not has_columns
