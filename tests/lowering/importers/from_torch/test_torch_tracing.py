"""What from_torch traces that torch.export alone does not: operators of Python numbers, views of prims."""

from __future__ import annotations

import pytest
import torch
from torch.export import exported_program

import mlirtri as mt
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.decompositions.decomposed_programs import decomposed
from mlirtri.lowering.importers.from_torch.decompositions.table import decompositions
from mlirtri.programs.torch_programs.program import _Function

aten, prims = torch.ops.aten, torch.ops.prims
NUMBERS = {
    "an element": lambda x: float(aten.FloatImplicit(x)),
    "a difference": lambda x: bool(aten.Bool(float(x) - float(x))),
    "a truth": lambda x: bool(aten.Bool(float(x))),
    "a root": lambda x: float(aten.sqrt(int(x))),
    "a quotient": lambda x: float(aten.div(int(x), 3)),
    "a ceiling": lambda x: int(aten.ceil(float(x))),
    "an order": lambda x: aten.ge(int(x), 8),
    "an integer": lambda x: int(aten.Int(x > 8)),
}
VIEWS = {
    "view of": lambda x: prims.view_of(x) + 1,
    "squeezed": lambda x: prims.squeeze(x, [1]),
    "transposed": lambda x: prims.transpose(x, [2, 0, 1]),
    "collapsed": lambda x: prims.collapse_view(x, 0, 1),
    "split": lambda x: prims.split_dim(x, 2, 2),
}


def _normalised(x):
    return torch.nn.functional.batch_norm(x, None, None, training=True)


def _image(x):
    return (
        torch.cat([x, x.roll(1, 0)], 1)[:, :6, :, None].expand(2, 6, 3, 5).contiguous(memory_format=torch.channels_last)
    )


def _places(x):
    return (
        torch.arange(15, dtype=torch.int64).view(3, 5).expand(2, 6, 3, 5).contiguous(memory_format=torch.channels_last)
    )


ORDERED = {
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "root mean square norm": lambda x: torch.nn.functional.rms_norm(x, (3,)) * 2,
    "two norms": lambda x: torch.nn.functional.rms_norm(torch.nn.functional.layer_norm(x, (3,)), (3,)),
    "masked scatter": lambda x: x.masked_scatter(x > 0, x),
    "sums of exponentials": lambda x: x.logcumsumexp(1),
    "medians": lambda x: x.median(1, keepdim=True)[0].expand(2, 4, 3).sort(1)[0],
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.transpose(0, 1)[None]] * 3)[0],
}
"""Operators whose results eager lays out otherwise than what torch decomposes them into, for a transposed tensor."""
MISTAKEN = {
    "batch norm": lambda x: _normalised(x).relu(),
    "layer norm of a batch norm": lambda x: torch.nn.functional.layer_norm(_normalised(x), (3,)),
    "one hot": lambda x: torch.nn.functional.one_hot((x > 0).long(), 2)[..., 1],
    "random leaky unit": lambda x: torch.nn.functional.rrelu(x),
    "logarithm of a logistic": lambda x: torch.nn.functional.logsigmoid(x),
    "fill of a slice": lambda x: x.index_fill(1, torch.tensor([0, 1]), 3.0),
    "quotients of two orders": lambda x: torch.div(x[0], torch.full((4, 3), 0.3), rounding_mode="floor"),
    "an image rolled": lambda x: _image(x).roll(1, 2),
    "an image's channels shuffled": lambda x: torch.nn.functional.channel_shuffle(_image(x), 3),
    "images unpooled": lambda x: torch.nn.functional.max_unpool2d(_image(x), _places(x), 2),
}
"""Operators of a transposed tensor whose results torch.export itself gives other strides than eager."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NUMBERS)
def test_operators_of_numbers(name: str):
    x = torch.tensor(7.25, dtype=torch.float64)
    before = aten.Bool
    found = mt.from_torch(NUMBERS[name], (x,), strict=True).compile(pipeline="mlir")(x)
    assert type(found) is type(NUMBERS[name](x))
    assert found == pytest.approx(NUMBERS[name](x))
    assert aten.Bool is before


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_prims(name: str):
    x = torch.arange(12.0).view(3, 1, 4)
    found = mt.from_torch(VIEWS[name], (x,)).compile(pipeline="mlir")(x)
    assert torch.equal(found, VIEWS[name](x))


@pytest.mark.parametrize("name", ORDERED)
def test_views_see_the_order_in_memory_of_eager(name: str):
    def function(x):
        result = ORDERED[name](x.transpose(1, 2))
        by_stride = sorted(range(3), key=lambda axis: -result.stride(axis))
        return result.permute(by_stride).view(-1), result.as_strided((result.numel(),), (1,))

    x = torch.randn(2, 3, 4)
    found = mt.from_torch(function, (x,)).compile(pipeline="mlir")(x)
    torch.testing.assert_close(found, function(x))


@pytest.mark.parametrize("name", MISTAKEN)
def test_strided_views_see_the_order_in_memory_of_eager(name: str):
    def function(x):
        result = MISTAKEN[name](x.transpose(1, 2))
        return result.as_strided((result.numel(),), (1,))

    x = torch.randn(2, 3, 4)
    found = mt.from_torch(function, (x,)).compile(pipeline="mlir")(x)
    torch.testing.assert_close(found, function(x))


@pytest.mark.parametrize("function", [MISTAKEN["logarithm of a logistic"], ORDERED["sums of exponentials"]])
def test_exported_programs_see_the_order_in_memory_of_eager(function):
    x = torch.randn(2, 3, 4)
    exported = torch.export.export(_Function(lambda x: function(x.mT).as_strided((24,), (1,))), (x,))
    operators = [node.target for node in exported.graph.nodes]
    found = mt.from_torch(exported).compile(pipeline="mlir")(x)
    torch.testing.assert_close(found, function(x.mT).as_strided((24,), (1,)))
    assert [node.target for node in exported.graph.nodes] == operators


def test_strides_of_an_unknown_order_are_refused():
    def function(x):
        return torch.nn.functional.max_pool1d(x.mT.contiguous().mT, 2)

    x = torch.randn(1, 2, 5)
    with pytest.raises(UnsupportedOperationError, match="as_strided reads the order in memory of a result of max_pool"):
        mt.from_torch(lambda x: function(x).as_strided((4,), (1,)), (x,))
    torch.testing.assert_close(mt.from_torch(function, (x,)).compile(pipeline="mlir")(x), function(x))


def test_repeats_by_an_element_say_what_to_write():
    x, places = torch.randn(1, 3, 4), torch.tensor([1, 0, 2])
    program = mt.from_torch(lambda x, places: x.repeat(2, places.max() + 1, 1).sum(), (x, places))
    with pytest.raises(UnsupportedOperationError, match="repeat or create tensors by a number that is a Python int"):
        program.compile(pipeline="mlir")


def test_numbers_of_fresh_tensors():
    x = torch.arange(12.0).view(3, 4)

    def function(x):
        axis, changed = torch.ones([1], dtype=torch.int32), torch.zeros(1)
        changed += 3
        return x.cumsum(axis.item()) * changed

    found = mt.from_torch(function, (x,)).compile(pipeline="mlir")(x)
    assert torch.equal(found, function(x))


def test_arange_into_several_axes():
    x = torch.zeros(3, 4, dtype=torch.int64)
    found = mt.from_torch(lambda x: torch.arange(1, 13, out=x), (x.clone(),)).compile(pipeline="mlir")(x)
    assert torch.equal(found, torch.arange(1, 13).view(3, 4))
    assert torch.equal(x, found)


def _rectified(x):
    integers = torch.quantize_per_tensor(x, 0.25, 3, torch.quint8).int_repr()
    return torch.relu(torch.dequantize(torch._make_per_tensor_quantized_tensor(integers, 0.5, 7)))


def _by_channels(x):
    scale, zero_point = torch.tensor([0.5, 0.25, 2.0]), torch.tensor([1, 0, -3])
    stored = (x * 10).to(torch.int8)
    return torch.dequantize(torch._make_per_channel_quantized_tensor(stored, scale, zero_point, axis=1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [_rectified, _by_channels])
def test_quantised_tensors(function):
    x = torch.linspace(-2, 9, 12).view(4, 3)
    found = mt.from_torch(function, (x,)).compile(pipeline="mlir")(x)
    torch.testing.assert_close(found, function(x))


def test_quantised_tensors_stay_inside():
    x = torch.linspace(-2, 9, 12)
    with pytest.raises(UnsupportedOperationError, match="the module returns a quantised tensor"):
        mt.from_torch(lambda x: torch.quantize_per_tensor(x, 0.25, 3, torch.qint8), (x,))
    with pytest.raises(UnsupportedOperationError, match="add of a quantised tensor is not lowered"):
        mt.from_torch(lambda x: torch.quantize_per_tensor(x, 0.25, 3, torch.qint8) + 1, (x,))


def test_gradient_of_a_convolution_without_sizes_of_its_bias():
    options = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    x, weight, gradient = torch.randn(2, 3, 5, 6), torch.randn(4, 3, 2, 2), torch.randn(2, 4, 4, 5)
    arguments = (gradient, x, weight)
    found = mt.from_torch(lambda *given: aten.convolution_backward(*given, None, *options), arguments)
    wanted = aten.convolution_backward(*arguments, None, *options)
    for ours, theirs in zip(found.compile()(*arguments), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_factorizations_are_refused_by_name():
    with pytest.raises(UnsupportedOperationError, match=r"ldl_factor is not lowered"):
        mt.from_torch(lambda a: torch.linalg.ldl_factor(a)[0], (torch.eye(3),))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_programs_are_decomposed_as_torch_does_without_its_list_of_all_operators(monkeypatch):
    with torch.library._scoped_library("composite_of_a_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")

        def function(x):
            x = torch.ops.composite_of_a_test.twice(x)
            y = torch.nn.functional.relu6(torch.nn.functional.layer_norm(x @ x.mT, (4,)))
            return torch.kron(y, y), torch.linalg.norm(y), torch.fft.rfft(y), torch.isfinite(y)

        exported = torch.export.export(_Function(function), (torch.ones(4, 4),))
        expected = exported.run_decompositions(decompositions())
        monkeypatch.setattr(exported_program, "_collect_all_valid_cia_ops", lambda: pytest.fail("lists all operators"))
        assert decomposed(exported).graph_module.code == expected.graph_module.code
