"""Kernels of the TVM stages compute the numbers of torch, for all sizes, dtypes and numbers of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from combinations import in_turn
from tolerances import within
from tvm_stage_helpers import (
    add_chain,
    compiled,
    context_for,
    module,
    op,
    random,
    rules_of,
    run,
    tir_of,
)

import mlirtri
from mlirtri.lowering.codegen import scheduled_to_llvm
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.toolchain.tvm_names import relax
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs
from mlirtri.lowering.toolchain.tvm_text import parse

SHAPES = [(3,), (64,), (37, 50), (128, 64), (7, 1, 33), (2048, 3), (1, 1), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise(shape):
    a, b = random(*shape), random(*shape)
    torch.testing.assert_close(run(module(add_chain, shape, shape), a, b), a + b + a)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape], ids=str)
@pytest.mark.parametrize(
    ("relax_op", "torch_op"),
    [
        (lambda x: op.sum(x, [-1]), lambda x: x.sum(-1)),
        (lambda x: op.sum(x, [0]), lambda x: x.sum(0)),
        (op.sum, torch.sum),
        (lambda x: op.max(x, [-1]), lambda x: x.amax(-1)),
        (lambda x: op.mean(x, [0]), lambda x: x.mean(0)),
        (lambda x: op.variance(x, [-1]), lambda x: x.var(-1, unbiased=False)),
        (lambda x: op.argmax(x, -1), lambda x: x.argmax(-1)),
        (lambda x: op.nn.softmax(x, -1), lambda x: x.softmax(-1)),
        (lambda x: op.nn.softmax(x, 0), lambda x: x.softmax(0)),
    ],
    ids=["sum-1", "sum0", "sum", "max", "mean0", "var", "argmax", "softmax-1", "softmax0"],
)
def test_reductions(shape, relax_op, torch_op):
    x = random(*shape)
    result = run(module(lambda emit, a: emit(relax_op(a)), shape), x)
    torch.testing.assert_close(result, torch_op(x), **within(result.dtype, x.numel()))


@pytest.mark.parametrize("shape", [(4, 5, 6), (8, 64, 32), (3, 130, 17)], ids=str)
def test_norms(shape):
    x, scale, shift = random(*shape), random(shape[-1]), random(shape[-1])
    mod = module(lambda emit, a, g, b: emit(op.nn.layer_norm(a, g, b, axes=[-1])), shape, shape[-1:], shape[-1:])
    expected = torch.nn.functional.layer_norm(x, shape[-1:], scale, shift)
    torch.testing.assert_close(run(mod, x, scale, shift), expected, **within("float32", shape[-1]))


SIZES = [
    (4, 16, 4),
    (8, 32, 8),
    (37, 511, 129),
    (1, 33, 40),
    (33, 1, 40),
    (5, 7, 9),
    (9, 50, 20),
    (130, 300, 700),
    (40, 48, 1),
]


@pytest.mark.parametrize(("sizes", "dtype"), in_turn(SIZES, ["float32", "float64", "float16", "bfloat16", "int32"]))
def test_matmul(sizes, dtype):
    rows, columns, reduced = sizes
    kind = getattr(torch, dtype)
    wide = "float32" if kind.itemsize == 2 else dtype
    left, right = random(rows, reduced, dtype=kind), random(reduced, columns, dtype=kind)
    mod = module(
        lambda emit, a, b: emit(op.matmul(a, b, out_dtype=wide)), ((rows, reduced), dtype), ((reduced, columns), dtype)
    )
    expected = left.to(getattr(torch, wide)) @ right.to(getattr(torch, wide))
    torch.testing.assert_close(run(mod, left, right), expected, **within(wide, reduced))


@pytest.mark.parametrize("columns", [64, 50])
@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_matmul_with_epilogue_is_one_kernel(columns, activation):
    def make(emit, a, b, c):
        return emit(getattr(op.nn, activation)(emit(op.add(emit(op.matmul(a, b)), c))))

    left, right, bias = random(30, 40), random(40, columns), random(columns)
    mod = module(make, (30, 40), (40, columns), (columns,))
    expected = getattr(torch.nn.functional, activation)(left @ right + bias)
    torch.testing.assert_close(run(mod, left, right, bias), expected, **within("float32", 40))
    scheduled = tir_to_scheduled.lower(tir_of(mod), context_for())
    assert rules_of(scheduled) == ["Matmul"]


@pytest.mark.parametrize(
    ("left", "right"), [((3, 20, 17), (3, 17, 33)), ((2, 4, 64, 32), (2, 4, 32, 64)), ((5, 8, 16), (16, 48))], ids=str
)
def test_batched_matmul(left, right):
    a, b = random(*left), random(*right)
    result = run(module(lambda emit, x, y: emit(op.matmul(x, y)), left, right), a, b)
    torch.testing.assert_close(result, a @ b, **within("float32", left[-1]))


def test_a_product_with_itself_and_with_transposes():
    def make(emit, a):
        return [emit(op.matmul(a, a)), emit(op.matmul(a, emit(op.permute_dims(a, [1, 0]))))]

    a = random(65, 65)
    squared, gram = run(module(make, (65, 65)), a)
    torch.testing.assert_close(squared, a @ a, **within("float32", 65))
    torch.testing.assert_close(gram, a @ a.T, **within("float32", 65))


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_dtype(dtype):
    kind = getattr(torch, dtype)
    a, b = random(48, 32, dtype=kind), random(48, 32, dtype=kind)
    spec = ((48, 32), dtype)
    added, equal, largest = run(
        module(lambda emit, x, y: [emit(op.add(x, y)), emit(op.equal(x, y)), emit(op.max(x, [0]))], spec, spec), a, b
    )
    assert torch.equal(added, a + b)
    assert torch.equal(equal, a == b)
    assert torch.equal(largest, a.amax(0))


def test_bool():
    a, b = random(48, 32, dtype=torch.bool), random(48, 32, dtype=torch.bool)
    spec = ((48, 32), "bool")
    both, neither = run(
        module(lambda emit, x, y: [emit(op.logical_and(x, y)), emit(op.logical_not(x))], spec, spec), a, b
    )
    assert torch.equal(both, a & b)
    assert torch.equal(neither, ~a)


def test_bf16_constants_do_not_stop_the_compiler():
    mod = module(lambda emit: emit(op.full((64, 48), relax.const(1.5, "bfloat16"), "bfloat16")))
    assert torch.equal(run(mod), torch.full((64, 48), 1.5, dtype=torch.bfloat16))


def test_a_function_that_only_reshapes_is_no_code():
    mod = module(lambda emit, a: emit(op.reshape(a, (20,))), (4, 5))
    given = random(4, 5)
    assert torch.equal(run(mod, given), given.view(20))
    assert rules_of(tir_to_scheduled.lower(tir_of(mod), context_for())) == ["View"]
    assert "define" not in compiled(mod).text


def test_without_a_schedule_the_numbers_are_the_same():
    mod = module(lambda emit, a, b: emit(op.nn.softmax(emit(op.matmul(a, b)))), (9, 20), (20, 50))
    a, b = random(9, 20), random(20, 50)
    plain = run(mod, a, b, context=context_for(schedule="none"))
    torch.testing.assert_close(plain, (a @ b).softmax(-1), **within("float32", 20))


@pytest.mark.parametrize("offset", [1, 3])
def test_tensors_may_start_at_any_address(offset):
    def shifted(*shape):
        return random(int(np.prod(shape)) + offset)[offset:].view(shape)

    a, b = shifted(64, 48), shifted(48, 64)
    mod = module(lambda emit, x, y: emit(op.exp(emit(op.matmul(x, y)))), (64, 48), (48, 64))
    out = torch.empty(64 * 64 + offset)[offset:].view(64, 64)
    compiled(mod).executable.launch([a, b], [out])
    torch.testing.assert_close(out, (a @ b).exp(), **within("float32", 48))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_more_threads_give_the_same(threads):
    a, b = random(600, 500), random(500, 700)
    mod = module(lambda emit, x, y: emit(op.nn.softmax(emit(op.matmul(x, y)))), (600, 500), (500, 700))
    context = context_for(Target("cpu", "here", threads))
    torch.testing.assert_close(run(mod, a, b, context=context), (a @ b).softmax(-1), **within("float32", 500))


@pytest.mark.parametrize("shape", [(128, 64), (64, 192), (37, 50), (3, 130, 64)], ids=str)
def test_transposes(shape):
    axes = [*range(1, len(shape)), 0]
    x = random(*shape)
    result = run(module(lambda emit, a: emit(op.permute_dims(a, axes)), shape), x)
    assert torch.equal(result, x.permute(axes).contiguous())


def test_column_sums_and_matrix_vector_products_run_along_memory():
    def make(emit, a, row):
        return [emit(op.sum(a, [0])), emit(op.matmul(row, a))]

    a, row = random(96, 512), random(1, 96)
    total, product = run(module(make, (96, 512), (1, 96)), a, row)
    torch.testing.assert_close(total, a.sum(0), **within("float32", 96))
    torch.testing.assert_close(product, row @ a, **within("float32", 96))
    text = tir_to_scheduled.lower(tir_of(module(make, (96, 512), (1, 96))), context_for()).script()
    assert text.count("T.vectorized") >= 4


BITS_OF_BFLOAT16 = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((T.int64(8),), "bfloat16"), out: T.Buffer((T.int64(8),), "float32")):
        inner = T.sblock_alloc_buffer((T.int64(8),), "bfloat16")
        for i in range(T.int64(8)):
            with T.sblock("double"):
                v = T.axis.spatial(T.int64(8), i)
                name: T.let[T.bfloat16] = x[v]
                inner[v] = name + name
        for i in range(T.int64(8)):
            with T.sblock("widen"):
                v = T.axis.spatial(T.int64(8), i)
                out[v] = T.reinterpret("float32", T.Cast("uint32", T.reinterpret("uint16", inner[v])) << T.uint32(16))
"""


def test_bits_of_bf16_survive_inner_buffers_names_and_arithmetic():
    library = scheduled_to_llvm.build(prim_funcs(parse(BITS_OF_BFLOAT16, "bits.py")), tvm_target(as_target("cpu")))
    values = torch.tensor([1, -2.5, 3e38, float("nan"), float("inf"), 0.0078125, -0.0, 257], dtype=torch.bfloat16)
    result = torch.empty(8)
    library["kernel"](values, result)
    torch.testing.assert_close(result, (values + values).float(), rtol=0, atol=0, equal_nan=True)


def test_the_variance_of_one_element_is_nan_in_relax():
    @mlirtri.jit(pipeline="relax")
    def variance(x):
        return torch.var(x, dim=0)

    assert bool(variance(torch.randn(1, 640, 5)).isnan().all())


def test_relax_not_equal_is_true_for_nan():
    x, y = torch.tensor([1, torch.nan, 2, torch.inf]), torch.tensor([1, 1, torch.nan, torch.inf])
    result = run(module(lambda emit, x, y: emit(op.not_equal(x, y)), (4,), (4,)), x, y)
    assert result.tolist() == [False, True, True, False]
