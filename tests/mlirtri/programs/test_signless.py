"""`from_mlir` of signless integers: arguments of either sign, and the sign of results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelTypeError

MIXED = """
#map = affine_map<(i) -> (i)>
func.func @f(%a: tensor<4xi8>, %b: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi32>, tensor<4xi1>) {
  %0 = tensor.empty() : tensor<4xi8>
  %1 = tensor.empty() : tensor<4xi32>
  %2 = tensor.empty() : tensor<4xi1>
  %r:3 = linalg.generic {indexing_maps = [#map, #map, #map, #map, #map], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xi8>, tensor<4xi8>) outs(%0, %1, %2 : tensor<4xi8>, tensor<4xi32>, tensor<4xi1>) {
  ^bb0(%x: i8, %y: i8, %z: i8, %w: i32, %v: i1):
    %s = arith.addi %x, %y : i8
    %e = arith.extui %s : i8 to i32
    %c = arith.cmpi ugt, %x, %y : i8
    linalg.yield %s, %e, %c : i8, i32, i1
  } -> (tensor<4xi8>, tensor<4xi32>, tensor<4xi1>)
  return %r#0, %r#1, %r#2 : tensor<4xi8>, tensor<4xi32>, tensor<4xi1>
}
"""
A, B = np.array([1, 2, 200, 250], np.uint8), np.array([1, 2, 100, 10], np.uint8)


def identity(of):
    return f"func.func @f(%a: {of}) -> {of} {{ return %a : {of} }}"


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_arguments_of_either_sign_in_any_order_of_calls(pipeline, convert):
    kernel = mt.from_mlir(MIXED).compile(pipeline=pipeline)
    wanted = A + B
    for signs in (("u1", "u1"), ("i1", "i1"), ("u1", "i1"), ("u1", "u1"), ("i1", "i1"), ("i1", "u1")):
        a, b = (convert(value.view(sign)) for value, sign in zip((A, B), signs, strict=True))
        added, wide, above = kernel(a, b)
        sign = "u1" if signs == ("u1", "u1") else "i1"
        assert type(added) is type(a)
        assert np.asarray(added).dtype == sign
        np.testing.assert_array_equal(np.asarray(added), wanted.view(sign))
        assert np.asarray(wide).dtype == np.int32
        np.testing.assert_array_equal(np.asarray(wide), wanted)
        np.testing.assert_array_equal(np.asarray(above), A > B)


def test_results_have_the_dtypes_asked_for():
    for program in (mt.from_mlir(MIXED, results=(np.uint8, "uint32", None)), mt.from_mlir(MIXED)):
        kernel = program.compile(results=(mt.uint8, torch.uint32, None))
        for sign in ("i1", "u1", "i1"):
            added, wide, above = kernel(A.view(sign), b=B.view(sign))
            assert (added.dtype, wide.dtype, above.dtype) == (np.uint8, np.uint32, bool)
            np.testing.assert_array_equal(added, A + B)
    assert [part.dtype for part in mt.from_mlir(MIXED, results=(np.uint8, np.uint32, None))(A.view("i1"), B.view("i1"))]
    assert mt.from_mlir(identity("tensor<4xi8>")).compile(results="int8")(A).dtype == np.int8


def test_results_have_the_dtypes_of_out():
    out = np.zeros(4, np.uint8), np.zeros(4, np.uint32), np.zeros(4, bool)
    kernel = mt.from_mlir(MIXED).compile()
    assert kernel(A.view("i1"), B.view("i1"), out=out) is out
    np.testing.assert_array_equal(out[0], A + B)
    signed = np.zeros(4, np.int8)
    mt.from_mlir(identity("tensor<4xi8>")).compile()(A, out=signed)
    np.testing.assert_array_equal(signed, A.view("i1"))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_every_width_and_numbers(bits):
    largest = 2**bits - 1
    kernel = mt.from_mlir(identity(f"tensor<2xi{bits}>")).compile()
    assert kernel(np.full(2, largest, f"uint{bits}")).tolist() == [largest] * 2
    assert kernel(np.full(2, -1, f"int{bits}")).tolist() == [-1] * 2
    number = mt.from_mlir(identity(f"i{bits}"))
    assert number(largest) == largest
    assert number(-1) == -1
    assert number(3) == 3


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (("float32", None, None), "results= asks for float32 where 'f' gives int8[4]"),
        (("uint16", None, None), "results= asks for uint16 where 'f' gives int8[4]"),
        ((None, None, "uint8"), "results= asks for uint8 where 'f' gives bool[4]"),
        (("uint8",), "results= has 1 dtypes for 3 results of 'f'"),
    ],
)
def test_other_results_are_refused(results, message):
    for ask in (
        lambda: mt.from_mlir(MIXED).compile(results=results),
        lambda: mt.from_mlir(MIXED, results=results)(A, B),
    ):
        with pytest.raises(KernelTypeError) as caught:
            ask()
        assert caught.value.message == message


@pytest.mark.parametrize("of", [np.uint16, np.int16, bool, np.float32])
def test_other_arguments_are_refused(of):
    with pytest.raises(ArgumentMismatchError, match="was compiled for int8"):
        mt.from_mlir(MIXED)(np.zeros(4, of), np.zeros(4, np.int8))


@pytest.mark.parametrize(("of", "sign", "other"), [("si8", "i1", "u1"), ("ui8", "u1", "i1")])
def test_types_with_a_sign_take_that_sign_only(of, sign, other):
    program = mt.from_mlir(identity(f"tensor<4x{of}>"))
    assert program(A.view(sign)).dtype == sign
    with pytest.raises(ArgumentMismatchError, match="was compiled for"):
        program(A.view(other))
    with pytest.raises(KernelTypeError, match="results= asks for"):
        program.compile(results=np.dtype(other))
