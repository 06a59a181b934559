"""relax → tir → scheduled → llvm: right numbers for all sizes and dtypes, few kernels, errors on the users' lines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tolerances import within
from tvm_stage_helpers import (
    FILE,
    add_chain,
    compiled,
    context_for,
    cuda_code,
    module,
    op,
    random,
    rules_of,
    run,
    tir_of,
)

import mlirtri
import mlirtri as mt
from mlirtri.cli.main import commands
from mlirtri.errors import CodegenError, PassFailedError, SkippedStepWarning, UnsupportedOperationError
from mlirtri.lowering.codegen import lowered_functions, scheduled_to_llvm
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.tir.blocks import NotApplicableError
from mlirtri.lowering.toolchain.tvm_names import SCHEDULE_FAILURES, relax
from mlirtri.lowering.toolchain.tvm_passes import Pass, prim_funcs, run_passes
from mlirtri.lowering.toolchain.tvm_text import parse


def test_a_chain_becomes_one_prim_func_of_call_tir():
    mod = tir_of(module(add_chain, (4, 5), (4, 5)))
    assert len(prim_funcs(mod)) == 1
    assert mod["kernel"].script().count("call_tir") == 1


def test_passes_are_recorded_and_those_that_change_nothing_say_so():
    context = context_for()
    context.stage = "tir"
    tir_of(module(add_chain, (4, 5), (4, 5)), context)
    changed = {record.name: record.changed for record in context.passes["tir"]}
    assert changed["LegalizeOps"]
    assert changed["FuseOps"]
    assert changed["FuseTIR"]
    assert not changed["MarkViews"]


def test_lines_of_bindings_reach_the_blocks_and_shared_functions_are_cloned_per_line():
    mod = tir_of(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}))
    text = mod.script()
    assert f"{FILE}:3:5" in text
    assert f"{FILE}:4:5" in text


def test_a_failing_relax_pass_names_the_line_of_the_binding_on_which_it_fails():
    mod = module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4})

    def refuse(given):
        if "R.subtract" in given.script():
            raise ValueError("no subtraction\nTraceback (most recent call last):\n  File x.cc, line 3")
        return given

    def make(emit, a, b):
        return emit(op.subtract(emit(op.add(a, b), "out"), a), "out1")

    mod = module(make, (4, 5), (4, 5), locations={"out": 3, "out1": 4})
    with pytest.raises(PassFailedError, match="pass Refuse failed: no subtraction") as caught:
        run_passes(mod, (Pass("Refuse", refuse),), context_for())
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)
    assert "x.cc" not in str(caught.value)


def test_a_failing_tir_pass_names_the_line_of_the_function():
    mod = tir_of(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}))

    def refuse(_given):
        raise RuntimeError("boom")

    with pytest.raises(PassFailedError) as caught:
        run_passes(mod, (Pass("Refuse", refuse),), context_for())
    assert caught.value.span.line == 4


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


@pytest.mark.parametrize(
    ("rows", "columns", "reduced"),
    [
        (4, 16, 4),
        (8, 32, 8),
        (37, 511, 129),
        (1, 33, 40),
        (33, 1, 40),
        (5, 7, 9),
        (9, 50, 20),
        (130, 300, 700),
        (40, 48, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_matmul(rows, columns, reduced, dtype):
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
def test_tensors_may_start_anywhere_in_memory(offset):
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


def test_tiny_work_is_not_spread_over_threads_and_large_work_is(monkeypatch):
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    context = context_for(Target("cpu", "here", 4))
    tiny = tir_to_scheduled.lower(tir_of(module(add_chain, (8, 8), (8, 8))), context).script()
    large = tir_to_scheduled.lower(tir_of(module(add_chain, (512, 512), (512, 512))), context).script()
    assert "T.parallel" not in tiny
    assert "T.vectorized" in tiny
    assert "T.parallel" in large


@pytest.fixture
def broken_rule(monkeypatch):
    """A first rule for CPUs that fails on everything, under the name ``Broken``."""

    def broken(_function, _target):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(tir_to_scheduled, "CPU_RULES", (("Broken", broken), *tir_to_scheduled.CPU_RULES))


def test_a_rule_that_fails_is_reported_and_the_next_one_taken(monkeypatch, broken_rule):
    tir = tir_of(module(add_chain, (8, 8), (8, 8), locations={"out": 3, "out1": 4}))
    with pytest.raises(CodegenError, match=r"Broken failed on .*: oops") as caught:
        tir_to_scheduled.lower(tir, context_for())
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)
    monkeypatch.delenv("MLIRTRI_STRICT")
    context = context_for()
    with pytest.warns(SkippedStepWarning, match="Broken failed on .* and was skipped: oops") as warned:
        scheduled = tir_to_scheduled.lower(tir, context)
    assert rules_of(scheduled) == ["Elementwise"]
    assert "Broken: oops" in scheduled.script()
    [step] = context.warnings
    assert (step.step, step.reason, step.span.line) == ("Broken", "oops", 4)
    assert [(each.filename, each.lineno) for each in warned] == [(FILE, 4)]


def test_a_rule_that_does_not_apply_is_no_failure(monkeypatch):
    def strange(_function, _target):
        raise NotApplicableError("not this one")

    monkeypatch.setattr(tir_to_scheduled, "CPU_RULES", (("Strange", strange), *tir_to_scheduled.CPU_RULES))
    context = context_for()
    scheduled = tir_to_scheduled.lower(tir_of(module(add_chain, (8, 8), (8, 8))), context)
    assert rules_of(scheduled) == ["Elementwise"]
    assert context.warnings == []


def test_what_failed_is_in_the_kernel_on_stderr_once_and_in_the_doctors_report(monkeypatch, tmp_path, broken_rule):
    def double(x):
        return x * 2

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runner = CliRunner()
    assert "has failed" in runner.invoke(commands, ["doctor", "--last"]).output
    with pytest.raises(CodegenError, match="Broken failed on mul: oops"):
        mt.jit(double).compile(np.ones(3))
    monkeypatch.delenv("MLIRTRI_STRICT")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        kernels = [mt.jit(double).compile(np.ones(3)) for _ in range(2)]
    assert [each.category for each in shown] == [SkippedStepWarning]
    assert shown[0].filename == __file__
    for kernel in kernels:
        assert [(step.step, step.kernel, step.reason) for step in kernel.warnings] == [("Broken", "mul", "oops")]
    report = "".join(runner.invoke(commands, ["doctor", "--last"]).output.split())  # long paths are wrapped
    assert all(word in report for word in ("double", "Broken", "oops", f"{__file__}:"))


def test_the_cuda_rule_for_rows_takes_layer_norm_of_bfloat16():
    """The variables of its casts are bound in several copies of one expression."""

    def norm(x, weight, bias):
        shifted = x - x.mean(axis=-1, keepdims=True)
        return shifted / np.sqrt((shifted * shifted).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias

    row = mt.Tensor((768,), mt.bfloat16)
    kernel = mt.jit(norm).compile(mt.Tensor((128, 768), mt.bfloat16), row, row, target="cuda:sm_90")
    assert '"mlirtri.schedule": "Rows"' in kernel.ir["scheduled"]


@pytest.mark.parametrize("make_code", [compiled, cuda_code])
def test_an_error_of_ours_in_code_generation_stays_what_it_is_on_the_users_line(monkeypatch, make_code):
    def refuse(_function):
        raise UnsupportedOperationError("no code for this")

    monkeypatch.delenv("MLIRTRI_STRICT", raising=False)
    monkeypatch.delenv("MLIRTRI_FORCE_SCHEDULES", raising=False)
    monkeypatch.setattr(lowered_functions, "keep_bfloat16", refuse)
    with pytest.raises(UnsupportedOperationError, match="no code for this") as caught:
        make_code(module(add_chain, (8, 8), (8, 8), locations={"out": 3, "out1": 4}))
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)


def attention(emit, q, k, v):
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
    return emit(op.matmul(emit(op.nn.softmax(scores)), v))


def two_layers(emit, x, first, bias, second):
    hidden = emit(op.nn.gelu(emit(op.add(emit(op.matmul(x, first)), bias))))
    return emit(op.matmul(hidden, second))


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (attention, [(4, 40, 32)] * 3),
        (two_layers, [(64, 96), (96, 128), (128,), (128, 50)]),
        (lambda emit, x, w, b: emit(op.nn.layer_norm(x, w, b, [-1])), [(30, 64), (64,), (64,)]),
        (lambda emit, x: emit(op.sum(x, [0])), [(96, 512)]),
        (lambda emit, x: emit(op.nn.softmax(x)), [(30, 100)]),
    ],
    ids=["attention", "two layers", "layer norm", "column sum", "softmax"],
)
def test_no_cpu_rule_fails_on_common_kernels(make, shapes):
    """A rule that raises costs speed only, so that nothing else would show it."""
    scheduled = tir_to_scheduled.lower(tir_of(module(make, *shapes)), context_for())
    failures = {
        name: list(map(str, function.attrs.get(SCHEDULE_FAILURES, ()))) for name, function in prim_funcs(scheduled)
    }
    assert {name: said for name, said in failures.items() if said} == {}
    assert "Fallback" not in rules_of(scheduled)


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


def test_what_an_iteration_keeps_to_itself_is_in_registers():
    """Integer arithmetic long enough that the bridge names its parts by elements of memory."""

    @mlirtri.jit
    def kernel(a):
        b = a * a + 1
        c = b * b * b - b
        d = c * c * c + c * b
        e = d * d * d * c
        return e * e * e + e * d * c

    compiled = kernel.compile(np.arange(8))
    assert "T.alloc_local(" in compiled.ir["scheduled"]
    assert "AllocWorkspace" not in compiled.ir["llvm"]


def test_what_a_rule_tried_is_lowered_once_and_what_changed_since_again(monkeypatch):
    lowered: list[str] = []
    lower = lowered_functions._lower
    monkeypatch.setattr(lowered_functions, "_lower", lambda name, *rest: lowered.append(name) or lower(name, *rest))
    a = torch.arange(12.0)

    def moved(a):
        return a + 41.5

    assert torch.equal(mlirtri.jit(moved)(a), a + 41.5)
    assert len(lowered) == 1
    target = as_target("cpu")
    scheduled = [
        tir_to_scheduled.lower(tir_of(module(add_chain, (4, rows), (4, rows))), context_for()) for rows in (5, 6)
    ]
    [(name, first)], [(_, second)] = (prim_funcs(mod) for mod in scheduled)
    lowered.clear()
    lowered_functions.built([(name, second.with_attr("mlirtri.imperative", True))], tvm_target(target))
    lowered_functions.built([(name, first)], tvm_target(target))
    assert lowered == [name]


def test_a_variance_of_one_number_is_divided_by_nothing_in_relax():
    @mlirtri.jit(pipeline="relax")
    def variance(x):
        return torch.var(x, dim=0)

    assert bool(variance(torch.randn(1, 640, 5)).isnan().all())
