"""`kernel.fusion`: a verdict for every tensor between two operations, with the reason."""

from __future__ import annotations

import json

import torch
from tvm.script import tirx as T  # noqa: TID251 - as a user writes it

import mlirtri as mt


@T.prim_func(s_tir=True)
def plain(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


twice = mt.tensorir(plain)
twice_fused = mt.tensorir(plain.with_attr("op_pattern", 0))


@mt.jit
def mixed(a, b, w):
    c = a + b
    d = torch.exp(c * 2)
    s = torch.sum(d, dim=0)
    y = d @ w
    return y + s, c


@mt.jit
def softmax(x):
    e = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
    return e / torch.sum(e, dim=-1, keepdim=True)


@mt.jit
def chain(a, b):
    out = a + b
    return out * a


def verdicts(kernel, stage=None):
    return [(edge.is_fused, edge.kind) for edge in kernel.fusion.edges if stage in (None, edge.stage)]


def test_elementwise_chains():
    x = torch.randn(4, 5)
    [edge] = chain.compile(x, x).fusion.edges
    assert (edge.stage, edge.is_fused, edge.kind) == ("fused", True, "elementwise")
    assert edge.producer == "add out"
    assert edge.line.endswith(":12")
    assert verdicts(chain.compile(x, x, pipeline="relax")) == [(True, "epilogue")]
    assert verdicts(chain.compile(x, x, pipeline="mlir")) == [(True, "elementwise")]


def test_equal_rows_are_one_with_their_number():
    report = mt.jit(lambda a: a * 2 + a * 3).compile(torch.randn(4, 5)).fusion
    first, second = report.edges
    assert first == second
    assert str(report) == f"fused: 2 × mul -> add: fused (elementwise): {first.reason}"


def test_rows():
    kernel = softmax.compile(torch.randn(8, 32))
    assert set(verdicts(kernel, "tir")) == {(True, "rows")}
    assert (False, "uses") in verdicts(kernel, "fused")
    assert kernel.fusion.fused < len(kernel.fusion.edges)


def test_what_is_apart_says_why():
    x = torch.randn(32, 32)
    edges = mixed.compile(x, x, x).fusion.edges
    kinds = {(edge.stage, edge.producer.split()[-1], edge.consumer.split()[-1]): edge.kind for edge in edges}
    assert kinds["fused", "c", "mul"] == "output"
    assert kinds["fused", "d", "y"] == "expensive"
    assert kinds["fused", "y", "add"] == "reduction"
    apart = [edge for edge in edges if not edge.is_fused]
    assert all(edge.reason for edge in apart)
    assert {edge.kind for edge in apart if edge.stage == "tir"} <= {"uses", "axes", "order", "product"}


def test_rows_too_long_for_memory(monkeypatch):
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    kernel = softmax.compile(mt.Tensor((2, 1 << 21), mt.float32))
    assert (False, "memory") in verdicts(kernel, "tir")


def test_an_opaque_function_is_left_alone_unless_it_says_what_it_is():
    a = mt.Tensor((4, 8), mt.float32)

    @mt.jit
    def of_others(a):
        return twice(a * 3) + 1

    @mt.jit
    def fusing(a):
        return twice_fused(a * 3) + 1

    assert (False, "extern") in verdicts(of_others.compile(a))
    assert set(verdicts(fusing.compile(a), "tir")) == {(True, "epilogue")}


def test_an_operation_that_reads_a_value_twice_is_one_reader():
    @mt.jit
    def distance(x):
        moved = x - torch.mean(x, dim=1, keepdim=True)
        return torch.sum(moved * moved, dim=1, keepdim=True) / moved

    edges = distance.compile(torch.randn(8, 32), pipeline="mlir").fusion.edges
    reasons = {edge.reason for edge in edges if edge.kind == "uses"}
    assert reasons == {"2 operations read it, and each would compute it"}


def test_operations_with_constants_fuse_into_rows():
    @mt.jit
    def centred(x):
        return x - torch.mean(x, dim=1, keepdim=True)

    kinds = {edge.kind for edge in centred.compile(torch.randn(64, 513), pipeline="relax").fusion.edges}
    assert kinds == {"rows", "epilogue"}


def test_text_and_json():
    report = softmax.compile(torch.randn(8, 32)).fusion
    assert "fused (rows)" in str(report)
    assert json.loads(report.to_json())["edges"][0].keys() >= {"producer", "consumer", "is_fused", "kind", "reason"}


def test_the_kernel_stays_as_it_is():
    kernel = softmax.compile(torch.randn(8, 32))
    before = dict(kernel.ir)
    _ = kernel.fusion
    assert dict(kernel.ir) == before
