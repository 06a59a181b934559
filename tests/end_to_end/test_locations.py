"""The user's lines survive every stage, and an error of any stage is shown on them, without the compiler's frames."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.compiler.printing import parse
from mlirtri.dialect.bindings.locations import callers_of, name_of, span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import CodegenError, CompilerBugError, KernelError, PassFailedError, UnsupportedOperationError
from mlirtri.lowering.bridge import fused_to_relax, tri_to_relax
from mlirtri.lowering.bridge.builder import RULES
from mlirtri.lowering.codegen import lowered_functions, scheduled_to_cuda
from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.lowering.linalg import elementwise as linalg_rules
from mlirtri.lowering.linalg import rewrites as tri_rewrites
from mlirtri.lowering.relax import relax_to_tir
from mlirtri.lowering.toolchain import mlir_passes
from mlirtri.lowering.toolchain.mlir_passes import Pass as MlirPass
from mlirtri.lowering.toolchain.tvm_names import LOCATION, SBlock, structural_walk
from mlirtri.lowering.toolchain.tvm_passes import Pass, locations_of, prim_funcs

NAME, FOLDER = Path(__file__).name, Path(__file__).parent


def halved(x):
    y = x * 0.5
    return y


def body(a: mt.Tensor[[4, 8], mt.float32], w: mt.Tensor[[8, 8], mt.float32]):
    t = mt.exp(a)
    u = t @ w
    v = mt.softmax(u, -1)
    return halved(v)


def line_of(code, function=body):
    """The line of this file where `code` stands in a function."""
    lines, start = inspect.getsourcelines(function)
    [number] = [start + at for at, line in enumerate(lines) if code in line]
    return number


def fresh(function=body, **options):
    """A jit function that nothing was compiled for yet."""
    return mt.jit(function, **options)


def failure(pipeline="linalg", target="cpu", kind=KernelError):
    with pytest.raises(kind) as caught:
        # Other schedules and other arguments are other kernels: what is cached does not fail.
        fresh().compile(pipeline=pipeline, target=target)
    return caught.value


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(import_module("mlirtri.kernels.jit"), "_kernels", {})


def check_shown(error, code, function=body, notes=()):
    assert error.span is not None, str(error)
    assert (error.span.file, error.span.line) == (__file__, line_of(code, function))
    text = str(error)
    assert text.startswith(f"{__file__}:{error.span.line}:{error.span.column}: error: ")
    source, caret = text.splitlines()[1:3] if "^" in text.splitlines()[2] else text.splitlines()[2:4]
    assert code in source
    assert set(caret.strip()) <= {"^", "~"}
    assert ".cc" not in text
    assert "site-packages" not in text
    for note in notes:
        assert note in text
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename != __file__]
    # Python 3.10 restores the traceback at a bare `raise`.
    left = [] if sys.version_info >= (3, 11) else ["compile", "hide_frames"]
    assert [frame.name for frame in ours] == left
    assert error.__cause__ is None
    assert error.__suppress_context__


# --- a failure injected into each stage -------------------------------------------------------------------------------


def boom(*_arguments, **_keywords):
    raise RuntimeError("injected")


def test_a_failure_in_ast_to_tri(monkeypatch):
    monkeypatch.setattr("mlirtri.lowering.frontend.semantics.builder.Language.matmul", boom, raising=False)
    monkeypatch.setattr("mlirtri.dialect.builder.TriBuilder.emit", boom)
    error = failure(kind=CompilerBugError)
    check_shown(error, "mt.exp(a)")
    assert "RuntimeError: injected" in str(error)


@pytest.mark.parametrize(("op", "code"), [("matmul", "t @ w"), ("sum", "mt.softmax(u, -1)")])
def test_a_failure_in_tri_to_linalg(monkeypatch, op, code):
    monkeypatch.setitem(linalg_rules.RULES.entries, op, boom)
    check_shown(failure(kind=CompilerBugError), code)


def test_a_failure_in_a_decomposition(monkeypatch):
    monkeypatch.setattr(tri_rewrites, "_replace", boom)
    check_shown(failure(kind=CompilerBugError), "mt.softmax(u, -1)")


def invalidating(operation_name):
    """A stage that breaks an operation and lets MLIR find out."""

    def lower(module, context):
        [victim] = operations_named(module, operation_name)
        with module.context:
            victim.attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, 2])
            mlir_passes.run_passes(module, (MlirPass("canonicalize", ""),), context)
        return module

    return lower


@pytest.mark.parametrize(
    "lowering",
    [
        "fusion.linalg_to_fused", "mlir_backend.bufferize.fused_to_bufferized",
        "mlir_backend.llvm.bufferized_to_llvmdialect",
    ],
)  # fmt: skip
def test_a_failure_in_the_mlir_lowerings(monkeypatch, lowering):
    monkeypatch.setattr(import_module(f"mlirtri.lowering.{lowering}"), "lower", invalidating("linalg.matmul"))
    check_shown(failure("mlir", kind=PassFailedError), "t @ w")


def test_a_failure_in_the_bridge(monkeypatch):
    structured = fused_to_relax.structured

    def picky(builder, operation):
        return boom() if operation.name == "linalg.matmul" else structured(builder, operation)

    monkeypatch.setattr(fused_to_relax, "structured", picky)
    check_shown(failure(kind=CompilerBugError), "t @ w")


def test_a_failure_in_tri_to_relax(monkeypatch):
    assert "tri.matmul" in RULES, tri_to_relax.__name__
    monkeypatch.setitem(RULES.entries, "tri.matmul", boom)
    check_shown(failure("relax", kind=CompilerBugError), "t @ w")


def test_what_the_bridge_lacks_is_all_named(monkeypatch):
    rule_of = fused_to_relax._rule_of
    lacking = ("linalg.matmul", "linalg.fill")
    monkeypatch.setattr(fused_to_relax, "_rule_of", lambda op: None if op.name in lacking else rule_of(op))
    error = failure(kind=UnsupportedOperationError)
    assert "linalg.matmul" in str(error)
    assert re.search(r"linalg\.fill \(\d×\)", str(error))
    assert f"{__file__}:{line_of('t @ w')}:" in str(error)
    assert f"{__file__}:{line_of('mt.softmax(u, -1)')}:" in str(error)


def failing_on(op_name):
    """A TVM pass that fails on a PrimFunc whose name holds `op_name`."""

    def run(mod):
        if any(op_name in name for name, _ in prim_funcs(mod)):
            raise RuntimeError(f"injected for {op_name}\n  File src/x.cc line 3\n")
        return mod

    return Pass("Injected", run)


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_a_failure_in_relax_to_tir(monkeypatch, pipeline):
    passes = [*relax_to_tir.PASSES]
    passes.insert([each.name for each in passes].index("LocateBlocks") + 1, failing_on("matmul"))
    monkeypatch.setattr(relax_to_tir, "PASSES", tuple(passes))
    error = failure(pipeline, kind=PassFailedError)
    check_shown(error, "t @ w")
    assert "TVM's pass Injected failed: injected for matmul" in str(error)


def test_a_failure_before_blocks_have_lines(monkeypatch):
    from mlirtri.lowering.toolchain.tvm_passes import bindings_of, relax_functions

    def run(mod):
        for _, function in relax_functions(mod):
            for binding in bindings_of(function):
                if "matmul" in str(binding.value):
                    raise RuntimeError("injected")
        return mod

    monkeypatch.setattr(relax_to_tir, "PASSES", (Pass("Injected", run), *relax_to_tir.PASSES))
    check_shown(failure("relax", kind=PassFailedError), "t @ w")


def test_a_failure_in_scheduling(monkeypatch):
    monkeypatch.setattr(
        "mlirtri.lowering.schedule.tir_to_scheduled.CPU_RULES", (("Nothing", lambda function, target: None),)
    )
    error = failure(kind=CodegenError)
    assert error.span.file == __file__
    assert "no schedule fits the kernel" in str(error)


@pytest.mark.parametrize(
    ("target", "module", "name"),
    [("cpu", lowered_functions, "host_ready"), ("cuda", scheduled_to_cuda, "_spans")],
)
def test_a_failure_in_code_generation(monkeypatch, target, module, name):
    real = getattr(module, name)
    where = f"{__file__}:{line_of('t @ w')}:"

    def picky(function):
        # The scheduled PrimFunc of the matmul alone: others only carry its line among theirs.
        places = locations_of(function)
        return boom() if places and all(place.startswith(where) for place in places) else real(function)

    monkeypatch.setattr(module, name, picky)
    check_shown(failure(target=target, kind=CodegenError), "t @ w")


def test_a_failure_in_llvmdialect_to_asm(monkeypatch):
    from mlirtri.lowering.mlir_backend.llvm import bufferized_to_llvmdialect

    monkeypatch.setattr(bufferized_to_llvmdialect, "TO_LLVM", ())
    error = failure("mlir", kind=CodegenError)
    assert "LLVM could not compile the kernel" in str(error)
    assert __file__ in str(error)


def test_a_failing_pass_saves_its_input_and_the_command_repeats_it(monkeypatch, tmp_path):
    monkeypatch.setenv("MLIRTRI_REPRODUCER_DIR", str(tmp_path))
    monkeypatch.setattr(linalg_to_fused, "PREPARE", (MlirPass("cse", ""), MlirPass("convert-to-llvm", "too early")))
    error = failure(kind=PassFailedError)
    check_shown(error, "t @ w")
    [saved] = tmp_path.iterdir()
    assert '"tri.' not in saved.read_text()
    command = shlex.split(error.help.removeprefix("reproduce with: "))
    assert command[0] == "mlirtri-opt"
    done = subprocess.run(
        [sys.executable, "-m", "mlirtri.opt.main", *command[1:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    where = str(error.span).removeprefix(f"{Path(__file__).parent}/")
    assert done.stderr.startswith(f"{where}: error: {error.message.partition('failed: ')[2]}")


# --- lines and names on the way --------------------------------------------------------------------------------------


def places(kernel, stage):
    """(operation, line, variable, lines of calls) of every operation in a stage."""
    module = parse("mlir", kernel.compilation.records[stage].complete())
    found = []
    for operation in module.body.operations[0].regions[0].blocks[0].operations:
        location = operation.location
        span = span_of(location)
        if span is None and operation.operation.name in ("arith.constant", "tensor.empty"):
            continue  # shared by several lines
        assert span is not None, str(operation)
        assert span.file == __file__
        calls = [note.span.line for note in callers_of(location)]
        found.append((operation.operation.name, span.line, name_of(location), calls))
    return found


@pytest.mark.parametrize("stage", ["tri", "linalg", "fused"])
def test_operations_carry_lines_names_and_calls(stage):
    found = places(fresh().compile(), stage)
    matmul = [each for each in found if each[0].endswith("matmul")]
    assert matmul == [(matmul[0][0], line_of("t @ w"), "u", [])]
    inlined = [each for each in found if each[1] == line_of("x * 0.5", halved)]
    assert inlined
    assert all(each[3] == [line_of("halved(v)")] for each in inlined)
    assert any(each[2] == "y" for each in inlined)
    assert {line for _, line, _, _ in found} >= {line_of("mt.exp(a)"), line_of("mt.softmax(u, -1)")}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_every_block_of_every_primfunc_carries_a_line(pipeline, target):
    kernel = fresh().compile(pipeline=pipeline, target=target)
    lines = {line_of("mt.exp(a)"), line_of("t @ w"), line_of("mt.softmax(u, -1)"), line_of("x * 0.5", halved)}
    seen = set()
    for stage in ("tir", "scheduled"):
        functions = prim_funcs(kernel.compilation.records[stage].ir)
        assert functions
        for name, function in functions:
            blocks = []
            structural_walk(function.body, (SBlock, blocks.append), order="pre")
            bare = [each.name_hint for each in blocks if LOCATION not in each.annotations and each.name_hint != "root"]
            if stage == "tir":
                assert not bare, f"{name}: {bare}"
            located = {str(each.annotations[LOCATION]) for each in blocks if LOCATION in each.annotations}
            seen |= {int(where.rsplit(":", 2)[1]) for where in located}
    assert seen == lines


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_cuda_source_names_the_lines(pipeline):
    source = fresh().compile(pipeline=pipeline, target="cuda").ir["cuda"]
    kernels = len(re.findall(r"^extern .*__global__.*\{$", source, re.MULTILINE))
    assert kernels == len(re.findall(rf'^ *#line \d+ "{NAME}"', source, re.MULTILINE))
    for code, function in (("mt.exp(a)", body), ("t @ w", body), ("mt.softmax(u, -1)", body), ("x * 0.5", halved)):
        assert f"// {NAME}:{line_of(code, function)}" in source


@mt.jit
def four_lines(a, b):
    x = a + 1
    y = x * b
    z = np.exp(y)
    return z.sum(axis=1)


LINES = [four_lines.__wrapped__.__code__.co_firstlineno + line for line in (2, 3, 4, 5)]


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
def test_every_line_of_a_fused_kernel_reaches_its_schedule(pipeline):
    kernel = four_lines.compile(np.ones((4, 5), np.float32), np.ones((4, 5), np.float32), pipeline=pipeline)
    [lines] = re.findall(r'func_attr\(\{.*?"mlirtri.lines": \[(.*?)\]', str(kernel.ir["scheduled"]))
    assert [int(line) for line in re.findall(r":(\d+):\d+\"", lines)] == LINES


def test_every_line_of_a_fused_kernel_reaches_cuda():
    kernel = four_lines.compile(np.ones((64, 5), np.float32), np.ones((64, 5), np.float32), target="cuda:sm_80")
    source = str(kernel.ir["cuda"])
    assert [int(line) for line in re.findall(rf"// {NAME}:(\d+)", source)] == LINES
    assert f'#line {LINES[-1]} "{NAME}"' in source


def test_assembly_names_the_file_and_the_line_of_the_result():
    kernel = four_lines.compile(np.ones((4, 5), np.float32), np.ones((4, 5), np.float32))
    assembly = str(kernel.ir["asm"])
    assert re.search(rf'\.file\s+1 "" "{NAME}"', assembly)
    assert {int(line) for line in re.findall(r"\.loc\s+1 (\d+)", assembly)} == {0, LINES[-1]}
    assert f'!DIFile(filename: "{NAME}"' in str(kernel.ir["llvm"])


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_text_to_read_has_no_folders_and_the_complete_text_has(pipeline):
    """Two checkouts print the same; a dump, and what a debugger reads, name the file itself."""
    kernel = four_lines.compile(np.ones((4, 5), np.float32), np.ones((4, 5), np.float32), pipeline=pipeline)
    texts = [*kernel.ir.values(), *(text for stage in kernel.passes.values() for text in stage.values())]
    assert not [text for text in texts if str(FOLDER) in str(text)]
    assert __file__ in kernel.compilation.records["asm"].complete()
    source = four_lines.compile(np.ones((4, 5), np.float32), np.ones((4, 5), np.float32), target="cuda").compilation
    assert f'#line {LINES[-1]} "{__file__}"' in source.records["cuda"].complete()


def test_an_output_takes_no_input_s_name():
    def plus_one(a):
        return a + 1

    kernel = mt.jit(plus_one).compile(np.ones((4, 5), np.float32))
    assert re.search(r"def add\(a: T.Buffer.*, out: T.Buffer", str(kernel.ir["tir"]))
