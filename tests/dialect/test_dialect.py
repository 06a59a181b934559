"""The op table and the dialect made from it: complete rows, the reference of each row, verifiers, IRDL, CSE."""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from combinations import in_turn
from dialect_rows import DIALECT, STRAIGHT, attributes_of, operands_of, tri_text
from tolerances import within

import mlirtri as mt
from mlirtri.dialect import definition
from mlirtri.dialect.bindings.mlir import all_operations, ir, passmanager
from mlirtri.dialect.definition import new_context
from mlirtri.dialect.ops import table as ops
from mlirtri.lowering.linalg import tri_to_linalg

TABLE = ops.TABLE
EXACT_KINDS = "iub"


def ways() -> list:
    """Rows with an operator of Relax take that and, in turn, one of the pipelines through linalg; others one of all."""
    own = [name for name in STRAIGHT if DIALECT[name].relax is not None]
    others = [name for name in STRAIGHT if DIALECT[name].relax is None]
    turns = in_turn(own, ["linalg", "mlir"]), in_turn(others, ["linalg", "relax", "mlir"])
    return [*((name, "relax") for name in own), *itertools.chain(*turns)]


@pytest.mark.parametrize(("name", "pipeline"), ways())
def test_every_row_computes_its_reference(tmp_path, name, pipeline):
    op, calls = DIALECT[name], []
    for dtype in ("float32", "int32", "uint8", "bool", "complex64"):
        arrays = operands_of(op, dtype)
        # Complex numbers have tests of their own; here are the rows that take nothing else.
        if arrays is not None and not (calls and (not op.operands or dtype == "complex64")):
            calls.append(arrays)
    assert calls
    file = tmp_path / "row.mlir"
    file.write_text(tri_text(op, *calls))
    results = mt.resume(file, "tri", pipeline=pipeline)(*itertools.chain(*calls))
    for arrays, found in zip(calls, [results] if len(calls) == 1 else results, strict=True):
        wanted, found = np.asarray(op.numpy(*arrays, **attributes_of(op))), np.asarray(found)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in EXACT_KINDS:
            assert np.array_equal(found, wanted), wanted.dtype
        else:
            np.testing.assert_allclose(found, wanted, **within(wanted.dtype))


def test_every_row_is_complete():
    for op in TABLE.values():
        assert op.numpy is not None, op.name
        if op.derived:
            assert op.summary, op.name
            continue
        ways = [op.scalar is not None, op.decompose is not None, op.structured]
        assert sum(ways) == 1, f"{op.name} has {sum(ways)} ways down to linalg"
        assert not op.structured or op.name in tri_to_linalg.rules(), op.name
        assert op.infer is not None, op.name


def test_the_irdl_file_is_the_dialect():
    assert definition.IRDL_FILE.read_text() == definition.irdl_text(), "run: python -m mlirtri.dialect.definition"
    with ir.Context():
        assert definition.irdl_text().endswith(f"\n{ir.Module.parse(definition.irdl_text())}")


def test_mlir_opt_loads_the_irdl_file(tmp_path):
    file = tmp_path / "row.mlir"
    file.write_text(tri_text(DIALECT["add"], operands_of(DIALECT["add"], "float32")))
    location = find_spec("torch_mlir").submodule_search_locations[0]
    tool = f"{location}/_mlir_libs/torch-mlir-opt"
    for command in ([tool], ["torch-mlir-opt"]):
        try:
            done = subprocess.run(
                [*command, f"--irdl-file={definition.IRDL_FILE}", str(file)],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            continue
        assert done.returncode == 0, done.stderr
        assert '"tri.add"' in done.stdout
        return
    arguments = [f"--irdl-file={definition.IRDL_FILE}", str(file)]
    script = f"from mlirtri.opt.main import main; import sys; sys.exit(main({arguments!r}))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_operations_are_pure_so_that_upstream_passes_work():
    text = """func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "tri.exp"(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = "tri.exp"(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %2 = "tri.log"(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %3 = "tri.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %3 : tensor<2xf32>
    }"""
    with new_context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        assert str(module).count("tri.exp") == 1
        assert "tri.log" not in str(module)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ('"tri.add"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3xf32>', "result is float32[3]"),
        (
            '"tri.sum"(%a) {axes = array<i64: 3>, keepdims = true} : (tensor<2x3xf32>) -> tensor<3xf32>',
            "axes [3] are not",
        ),
        ('"tri.sum"(%a) {keepdims = true} : (tensor<2x3xf32>) -> tensor<3xf32>', '"axes" is expected'),
        ('"tri.sum"(%a) {axes = 1 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<3xf32>', "of kind ints"),
        ('"tri.exp"(%b) : (tensor<2xi32>) -> tensor<2xi32>', "int32"),
        ('"tri.exp"() : () -> tensor<2xf32>', "operand"),
        ('"tri.nothing"(%a) : (tensor<2x3xf32>) -> tensor<3xf32>', "tri"),
    ],
)
def test_verifiers_say_what_is_wrong(operation, message):
    text = f"func.func @f(%a: tensor<2x3xf32>, %b: tensor<2xi32>) {{\n  %0 = {operation}\n  return\n}}"
    with new_context(), pytest.raises(ir.MLIRError) as caught:
        ir.Module.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(("raised", "expected"), [(KeyboardInterrupt, KeyboardInterrupt), (ValueError, RuntimeError)])
def test_control_c_while_operations_are_visited_is_no_error_of_the_compiler(monkeypatch, raised, expected):
    class Interrupted:
        @property
        def ADVANCE(self):
            raise raised

    with new_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func private @f()")
        monkeypatch.setattr(ir, "WalkResult", Interrupted())
        with pytest.raises(expected):
            all_operations(module)
