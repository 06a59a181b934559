"""`torch.compile(backend="mlirtri")`: graph breaks, sizes that vary, writes, views, gradients, refusals."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import DataDependentOutputException

from mlirtri.errors import ProgramAssertionError
from mlirtri.programs.torch_programs import backend

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _forget():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Broken(nn.Module):
    """Has a graph break, a write to its argument and a transposed result."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        y = self.linear(x).relu()
        torch._dynamo.graph_break()
        x.add_(1)
        return y.t().softmax(0), x


def test_the_backend_is_found_by_its_name():
    assert "mlirtri" in torch._dynamo.list_backends()


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_graph_break_and_a_write(pipeline: str):
    module = Broken()
    compiled = torch.compile(module, backend="mlirtri", options={"pipeline": pipeline})
    x = torch.randn(5, 4)
    y = x.clone()
    with torch.no_grad():
        found, wanted = compiled(x), module(y)
    torch.testing.assert_close(found[0], wanted[0])
    assert found[0].stride() == wanted[0].stride()
    assert found[1] is x
    torch.testing.assert_close(x, y)


def test_sizes_that_vary():
    counter = CompileCounterWithBackend("mlirtri")
    compiled = torch.compile(lambda x: (x * x.shape[0]).sum(0), backend=counter, dynamic=True)
    for size in (3, 4, 6, 3):
        x = torch.randn(size, 2)
        torch.testing.assert_close(compiled(x), (x * size).sum(0))
    assert counter.frame_count == 1


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x, labels):
        return F.cross_entropy(self.layers(self.norm(x)), labels)


def test_training():
    module = Trained()
    reference = copy.deepcopy(module)
    compiled = torch.compile(module, backend="mlirtri")
    pairs = [(module, compiled), (reference, reference)]
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each, _ in pairs]
    for _ in range(3):
        x, labels = torch.randn(6, 4), torch.randint(0, 3, (6,))
        for optimizer, (_, run) in zip(optimizers, pairs, strict=True):
            optimizer.zero_grad()
            run(x, labels).backward()
            optimizer.step()
    for ours, theirs in zip(module.state_dict().values(), reference.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_views_of_arguments_are_views():
    compiled = torch.compile(lambda x: (x.t(), x + 1), backend="mlirtri")
    x = torch.randn(2, 3)
    view, other = compiled(x)
    x[0, 0] = 40.0
    assert view[0, 0] == 40
    assert other[0, 0] != 41


def test_refusals_reach_the_caller():
    with pytest.raises(BackendCompilerFailed, match=r"no lowering of aten\.linalg_eig"):
        torch.compile(torch.linalg.eigvals, backend="mlirtri")(torch.rand(3, 3))
    with pytest.raises(BackendCompilerFailed, match=r"random numbers that aten\.poisson\.default draws"):
        torch.compile(torch.poisson, backend="mlirtri")(torch.rand(3))
    with pytest.raises(BackendCompilerFailed, match=r"unknown option 'pipelines'\s+help: did you mean 'pipeline'"):
        torch.compile(torch.exp, backend="mlirtri", options={"pipelines": "mlir"})(torch.randn(3))


def test_what_dynamo_would_run_eagerly_is_refused(monkeypatch):
    def refused(x):
        raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default)

    monkeypatch.setattr(backend, "decompositions", lambda: {torch.ops.aten.sin.default: refused})
    with pytest.raises(BackendCompilerFailed, match=r"cannot compile aten\._local_scalar_dense"):
        torch.compile(torch.sin, backend="mlirtri")(torch.randn(3))


def with_constants(x):
    y = x * torch.tensor(5.0)
    y[0] = 2.0
    return y + torch.tensor([1.0, 2.0, 3.0])


def test_graphs_hold_small_tensors():
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(with_constants, backend="mlirtri")(x), with_constants(x))


def test_the_checks_of_linear_algebra():
    """AOTAutograd strings them on a token."""
    compiled = torch.compile(lambda x: torch.linalg.inv(x) + torch.linalg.cholesky(x), backend="mlirtri")
    x = torch.eye(3) * 4 + 1
    torch.testing.assert_close(compiled(x), torch.linalg.inv(x) + torch.linalg.cholesky(x))
    sized = torch.compile(torch.linalg.inv, backend="mlirtri", dynamic=True)
    torch.testing.assert_close(sized(x), torch.linalg.inv(x))
    with pytest.raises(ProgramAssertionError, match="a matrix is singular"):
        compiled(torch.ones(3, 3))


def test_sums_of_no_elements():
    compiled = torch.compile(lambda x: x.sum(0), backend="mlirtri")
    assert compiled(torch.zeros(0, 3)).tolist() == [0, 0, 0]


def whole_layers(x, hidden, later):
    layer, attention = LAYER, LAYER.self_attn
    masked = layer(x, src_mask=later, src_key_padding_mask=hidden)
    return layer(x), masked, attention(x, x, x, key_padding_mask=hidden), attention(x, x, x, need_weights=False)[0]


LAYER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


def test_transformers_in_the_operators_that_torch_has_for_them():
    x, hidden = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, True, True]])
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    with torch.no_grad():
        found, wanted = (f(x, hidden, later) for f in (torch.compile(whole_layers, backend="mlirtri"), whole_layers))
    torch.testing.assert_close(found, wanted)


def taken_apart_early(q, x, labels):
    attended = F.scaled_dot_product_attention(q, q[:, :1], q[:, :1], enable_gqa=True)
    return attended, F.multilabel_margin_loss(x, labels), F.rrelu(x, training=False)


def test_functions_that_torch_takes_apart_before_the_table():
    q, x = torch.randn(1, 2, 5, 4), torch.randn(2, 3)
    arguments = q, x, torch.tensor([[1, -1, 0], [0, 2, -1]])
    found = torch.compile(taken_apart_early, backend="mlirtri")(*arguments)
    for ours, theirs in zip(found, taken_apart_early(*arguments), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()


def test_conjugates_and_elements_that_are_one_in_memory():
    compiled = torch.compile(
        lambda x: (x.conj(), x.imag, (x * 2).unfold(0, 2, 1), x.abs().expand(2, 4)), backend="mlirtri"
    )
    x = torch.randn(4, dtype=torch.complex64).conj()
    doubled = x * 2
    for ours, theirs in zip(
        compiled(x), (x.conj(), x.imag, doubled.unfold(0, 2, 1), x.abs().expand(2, 4)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()


def of_lists(x, y):
    both = [x, y]
    step = torch._foreach_addcdiv(both, [y, x], torch._foreach_add([x * x, y * y], 1), -0.5)
    torch._foreach_mul_(both, [2.0, 3.0])
    return step, torch._foreach_norm(both), torch._foreach_maximum(both, 0.0), torch._foreach_lerp(both, step, 0.25)


def test_lists_of_tensors_as_optimizers_have_them():
    found, wanted = [torch.arange(3.0), torch.ones(3)], [torch.arange(3.0), torch.ones(3)]
    torch.testing.assert_close(torch.compile(of_lists, backend="mlirtri")(*found), of_lists(*wanted))
    torch.testing.assert_close(found, wanted)
