"""`mt.from_torch`: a module as a program, called as the module is called."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import mlirtri as mt
from mlirtri.errors import (
    ArgumentMismatchError,
    KernelTypeError,
    ProgramAssertionError,
    SeveralErrors,
    UnsupportedOperationError,
)

PIPELINES = ("linalg", "relax", "mlir")


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.second(self.first(x))


def same(found: Any, wanted: Any) -> bool:
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted)))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_module(pipeline: str):
    module, x = Perceptron().eval(), torch.randn(3, 4)
    kernel = mt.from_torch(module, (x,)).compile(pipeline=pipeline)
    found = kernel(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, module(x).detach())


def test_the_stages_start_with_torch():
    kernel = mt.from_torch(Perceptron().eval(), (torch.randn(3, 4),)).compile()
    assert list(kernel.ir)[:4] == ["torch", "linalg", "fused", "relax"]
    assert "torch.aten.relu" in kernel.ir["torch"]
    assert 'mlirtri.bound = "second.1.weight"' in kernel.ir["linalg"]
    assert "dense<" not in kernel.ir["linalg"]


def test_weights_are_the_modules_own():
    module = Perceptron().eval()
    program = mt.from_torch(module, (torch.randn(3, 4),))
    assert set(program.params) == {"first.weight", "first.bias", "second.1.weight", "second.1.bias"}
    for name, tensor in program.params.items():
        assert tensor.data_ptr() == module.get_parameter(name).data_ptr()
    kernel, x = program.compile(), torch.randn(3, 4)
    kernel(x)
    with torch.no_grad():
        module.first.bias += 1
    torch.testing.assert_close(kernel(x), module(x).detach())


def test_other_weights_without_compiling_again():
    x = torch.randn(3, 4)
    module, other = Perceptron().eval(), Perceptron().eval()
    before = copy.deepcopy(module.state_dict())
    program = mt.from_torch(module, (x,))
    kernel = program.compile()
    kernel(x)
    program.load_state_dict(other.state_dict())
    torch.testing.assert_close(kernel(x), other(x).detach())
    torch.testing.assert_close(program.compile(pipeline="mlir")(x), other(x).detach())
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_weights_that_do_not_fit_change_nothing():
    x = torch.randn(3, 4)
    module = Perceptron().eval()
    program = mt.from_torch(module, (x,))
    kernel, state = program.compile(), dict(Perceptron().state_dict())
    state["first.bias"] = torch.zeros(7)
    del state["second.1.bias"]
    with pytest.raises(ArgumentMismatchError, match=r"first\.bias .*\[7\].*second\.1\.bias is missing"):
        program.load_state_dict(state)
    torch.testing.assert_close(kernel(x), module(x).detach())


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.zeros(8, 4, device="meta"), "on device 'meta'"),
        (torch.zeros(8, 4).to_sparse(), "layout torch.sparse_coo"),
    ],
)
def test_weights_without_memory_are_refused_at_once(weight: torch.Tensor, message: str):
    module = Perceptron().eval()
    program = mt.from_torch(module, (torch.randn(3, 4),))
    with pytest.raises(ArgumentMismatchError, match=message):
        program.params["first.weight"] = weight
    with pytest.raises(ArgumentMismatchError, match=message):
        program.load_state_dict({**module.state_dict(), "first.weight": weight})
    assert program.params["first.weight"].data_ptr() == module.first.weight.data_ptr()


@pytest.mark.parametrize("shapes", [3, ["x"], {"x": "34"}, {"x": 3}, {"x": (3.0, 4)}])
def test_shapes_that_are_none(shapes: Any):
    program = mt.from_torch(Perceptron().eval(), (torch.randn(3, 4),))
    with pytest.raises(KernelTypeError, match="shapes="):
        program.compile(shapes=shapes)


def test_another_byte_order_is_refused():
    kernel = mt.from_torch(Perceptron().eval(), (torch.randn(3, 4),)).compile()
    with pytest.raises(KernelTypeError, match=r"'x' is an array of dtype '>f4'.*\n.*astype\('float32'\)"):
        kernel(np.zeros((3, 4), ">f4"))


def test_threads_export_at_the_same_time():
    x = torch.randn(3, 4)
    with ThreadPoolExecutor(6) as pool:
        programs = list(pool.map(lambda _: mt.from_torch(Perceptron().eval(), (x,)), range(6)))
    assert all(program.functions == ("Perceptron",) for program in programs)


@dataclass
class Answer:
    value: torch.Tensor
    name: str


pytree.register_dataclass(Answer, serialized_type_name="tests.Answer")


class Structures(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x, pair, *, factor=3, flag=True, nothing=None):
        y = x * factor + pair["a"] - pair["b"][0]
        return {"y": y, "twice": (y, [y]), "x": x, "five": 5, "none": nothing, "scale": self.scale, "flag": flag}


def test_arguments_and_results_keep_their_structures():
    module, x = Structures(), torch.randn(2)
    pair = {"a": torch.randn(2), "b": [torch.randn(2)]}
    kernel = mt.from_torch(module, (x, pair), {"factor": 2}).compile()
    found, wanted = kernel(x, pair, factor=2), module(x, pair, factor=2)
    assert pytree.tree_structure(found) == pytree.tree_structure(wanted)
    torch.testing.assert_close(found["y"], wanted["y"])
    torch.testing.assert_close(kernel(factor=2, pair=pair, x=x)["y"], wanted["y"])
    assert found["x"] is x
    assert found["twice"][0] is found["twice"][1][0]
    assert (found["five"], found["none"], found["flag"]) == (5, None, True)
    torch.testing.assert_close(found["scale"], wanted["scale"].detach())


def test_constants_of_the_export_are_checked():
    module, x = Structures(), torch.randn(2)
    pair = {"a": torch.randn(2), "b": [torch.randn(2)]}
    kernel = mt.from_torch(module, (x, pair), {"factor": 2}).compile()
    with pytest.raises(ArgumentMismatchError, match="factor = 2, got 7"):
        kernel(x, pair, factor=7)
    with pytest.raises(ArgumentMismatchError, match="structure"):
        kernel(x, {"a": x}, factor=2)
    with pytest.raises(ArgumentMismatchError, match=r"takes x, pair, factor; missing factor$") as missing:
        kernel(x, pair)
    assert missing.value.help is None
    unlike = r"takes x, pair, factor; missing factor; not known or given twice: flag; got 3"
    with pytest.raises(ArgumentMismatchError, match=unlike):
        kernel(x, x, x, flag=True)
    with pytest.raises(ArgumentMismatchError, match=r"not known or given twice: x, flag") as more:
        kernel(x, pair, factor=2, x=x, flag=False)
    assert "without" in more.value.help
    with pytest.raises(ArgumentMismatchError, match=r"float32\[2\]"):
        kernel(torch.randn(3), pair, factor=2)


class Dataclass(nn.Module):
    def forward(self, x):
        return Answer(x + 1, "name")


def test_a_dataclass_comes_back():
    x = torch.randn(2)
    found = mt.from_torch(Dataclass(), (x,)).compile()(x)
    assert isinstance(found, Answer)
    assert found.name == "name"
    torch.testing.assert_close(found.value, x + 1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("hidden", torch.ones(3), persistent=False)

    def forward(self, x):
        self.count += 2
        x.mul_(2)
        return x + self.count + self.hidden


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_what_a_module_writes_is_written(pipeline: str):
    module, reference = Counter(), Counter()
    program = mt.from_torch(module, (torch.randn(3),))
    kernel = program.compile(pipeline=pipeline)
    for _ in range(3):
        x = torch.randn(3)
        y = x.clone()
        torch.testing.assert_close(kernel(x), reference(y))
        torch.testing.assert_close(x, y)
    assert module.count.item() == reference.count.item() == 6
    program.load_state_dict({"count": torch.tensor(40)})
    torch.testing.assert_close(kernel(torch.zeros(3)), torch.full((3,), 43.0))


class Dtypes(nn.Module):
    def forward(self, a, b, c):
        return a + 200, b & 3, c.cos(), a > b


def test_signs_of_integers_are_torchs():
    a = torch.tensor([1, 100, 255], dtype=torch.uint8)
    b = torch.tensor([-1, 3, 127], dtype=torch.int8)
    c = torch.randn(3, dtype=torch.float64)
    found, wanted = mt.from_torch(Dtypes(), (a, b, c)).compile()(a, b, c), Dtypes()(a, b, c)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


class Item(nn.Module):
    def forward(self, x):
        return x.sum().item(), x + 1


def test_a_number_comes_back_as_one():
    x = torch.tensor([1, 2, 4])
    found = mt.from_torch(Item(), (x,)).compile()(x)
    assert type(found[0]) is int
    assert found[0] == 7


def test_an_exported_program_and_a_function():
    x = torch.randn(3, 4)
    module = Perceptron().eval()
    exported = torch.export.export(module, (x,))
    torch.testing.assert_close(mt.from_torch(exported).compile()(x), module(x).detach())
    torch.testing.assert_close(mt.from_torch(lambda a, b: a @ b.T, (x, x))(x, x), x @ x.T)
    torch.testing.assert_close(mt.from_torch(torch.mm, (x, x.T.contiguous()))(x, x.T.contiguous()), x @ x.T)


def test_one_tensor_for_several_arguments_is_one_of_the_example_only():
    x, y, z = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)
    shapes = torch.export.ShapesCollection()
    shapes[x] = {0: torch.export.Dim("rows")}
    for kernel in (
        mt.from_torch(lambda a, b, c: a * 2 - b["b"] * c, (x, {"b": x}), {"c": x}),
        mt.from_torch(lambda a, b, c: a * 2 - b["b"] * c, (x, {"b": x}), {"c": x}, dynamic_shapes=shapes),
    ):
        torch.testing.assert_close(kernel(x, {"b": y}, c=z), x * 2 - y * z)


class Unknown(nn.Module):
    def forward(self, x):
        y = torch.linalg.ldl_factor_ex(x)[0]
        z = torch.linalg.eigvals(y)
        return torch.linalg.ldl_factor_ex(x + 1)[0], z


def test_all_operators_without_a_lowering_are_named_with_their_lines():
    with pytest.raises(SeveralErrors) as caught:
        mt.from_torch(Unknown(), (torch.randn(3, 3),)).compile()
    first, second = caught.value.errors
    assert "aten.linalg_ldl_factor_ex on" in first.message
    assert "2 times" in first.message
    assert "aten.linalg_eig on" in second.message
    assert first.span.file == second.span.file == __file__
    assert second.span.line == first.span.line + 1


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_exported():
    x = torch.randn(3)
    with pytest.raises(UnsupportedOperationError, match=r"torch\.export cannot trace Branch"):
        mt.from_torch(Branch(), (x,))
    with pytest.raises(KernelTypeError, match="TorchScript"):
        mt.from_torch(torch.jit.trace(Perceptron(), torch.randn(3, 4)), (x,))
    with pytest.raises(KernelTypeError, match=r"takes a torch\.nn\.Module"):
        mt.from_torch(3, (x,))


def test_assertions_about_elements_are_checked():
    def halved(x):
        torch._assert_async((x > 0).all(), "all positive")
        return x / 2

    kernel = mt.from_torch(halved, (torch.ones(3),)).compile()
    torch.testing.assert_close(kernel(torch.ones(3)), torch.full((3,), 0.5))
    with pytest.raises(ProgramAssertionError):
        kernel(-torch.ones(3))


def test_evaluation_mode_drops_nothing():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = torch.randn(3, 4)
    torch.testing.assert_close(mt.from_torch(module.eval(), (x,))(x), module(x).detach())


def test_batch_statistics_are_written_in_training_mode():
    module, reference = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    x = torch.randn(8, 4)
    kernel = mt.from_torch(module, (x,)).compile()
    torch.testing.assert_close(kernel(x), reference(x).detach())
    torch.testing.assert_close(module.running_var, reference.running_var)
    assert module.num_batches_tracked.item() == 1


def test_a_crash_of_torch_mlir_is_an_error():
    x = torch.tensor([5, 250], dtype=torch.uint8)
    floor = torch.ops.aten.div.Tensor_mode
    found = mt.from_torch(lambda a: floor(a, torch.tensor(2, dtype=torch.uint8), rounding_mode="floor"), (x,))
    torch.testing.assert_close(found(x), x // 2)


class Open(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, y, factor):
        return self.linear(x).softmax(-1) * factor, torch.cat([x, y]).sum(0), x.shape[0]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_sizes_that_the_export_leaves_open(pipeline: str):
    module = Open().eval()
    count = torch.export.Dim("count", max=50)
    shapes = {"x": {0: count}, "y": {0: 2 * count}, "factor": torch.export.Dim.DYNAMIC}
    kernel = mt.from_torch(module, (torch.randn(5, 4), torch.randn(10, 4), 3), dynamic_shapes=shapes).compile(
        pipeline=pipeline
    )
    for size in (1, 3, 8):
        arguments = torch.randn(size, 4), torch.randn(2 * size, 4), size + 1
        with torch.no_grad():
            found, wanted = kernel(*arguments), module(*arguments)
        torch.testing.assert_close(found[:2], wanted[:2])
        assert found[2] == size
    with pytest.raises(ArgumentMismatchError, match=r"axis 0 of 'y' is 7, and has to be .* = 6"):
        kernel(torch.randn(3, 4), torch.randn(7, 4), 1)
    with pytest.raises(ArgumentMismatchError, match=r"to 50 along axis 0 of 'x', got 51"):
        kernel(torch.randn(51, 4), torch.randn(102, 4), 1)
    with pytest.raises(ArgumentMismatchError, match=r"float32\[\?, 4\]"):
        kernel(torch.randn(3, 5), torch.randn(6, 4), 1)


def test_two_open_axes_that_become_one():
    module = nn.Linear(8, 3)
    open_axes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("count")},)
    kernel = mt.from_torch(module, (torch.randn(4, 5, 8),), dynamic_shapes=open_axes).compile(pipeline="mlir")
    for batch, count in ((2, 3), (1, 4), (6, 1)):
        x = torch.randn(batch, count, 8)
        torch.testing.assert_close(kernel(x), module(x).detach())


def test_the_stage_torch_leaves_as_text_and_bytecode():
    program = mt.from_torch(nn.Linear(3, 2).eval(), (torch.randn(4, 3),))
    assert "torch.aten" in program.to_mlir("torch", bare=True)
    assert program.to_mlir("torch", format="bytecode").startswith(b"ML")


def test_what_is_repaired_is_not_named_beside_what_has_no_lowering():
    def both(x):
        return x.view(torch.int32), torch.linalg.eigvals(x)

    with pytest.raises(UnsupportedOperationError, match="linalg_eig") as caught:
        mt.from_torch(both, (torch.rand(4, 4),)).compile()
    assert "view" not in str(caught.value)
