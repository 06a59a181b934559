"""`mlirtri-opt`: mlir-opt's options, its exit statuses, and no traceback for any input."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from mlirtri.dialect.definition import IRDL_FILE
from mlirtri.errors import Span
from mlirtri.opt import main as opt
from mlirtri.opt import passes as opt_passes
from mlirtri.opt.diagnostics import Report, differences
from mlirtri.opt.options import UsageError, parse_arguments

GOOD = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %unused = arith.constant 1 : index
  %0 = "tri.add"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.fixture
def call(tmp_path, capfdbinary, monkeypatch):
    """Run the tool on a text; gives (status, stdout, stderr). FILE in the arguments is the text's file."""

    def run(text, *arguments):
        file = tmp_path / "in.mlir"
        data = text if isinstance(text, bytes) else text.encode()
        file.write_bytes(data)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = opt.main([argument.replace("FILE", str(file)) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode().replace(str(file), "FILE")

    return run


def test_passes_run_in_the_order_given(call):
    status, out, err = call(GOOD, "--canonicalize", "--cse", "--mlir-print-ir-after-all", "FILE")
    assert status == 0
    assert "arith.constant" not in out
    assert "tri.add" in out
    assert err.index("IR Dump After Canonicalizer") < err.index("IR Dump After CSE")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-canonicalize", "FILE"],
        ["FILE", "--canonicalize"],
        ["--pass-pipeline=builtin.module(canonicalize)", "FILE"],
        ["--pass-pipeline", "builtin.module(func.func(canonicalize))", "-"],
        ["--canonicalize=max-iterations=3 top-down=true"],
    ],
)
def test_spellings_of_one_pass(call, arguments):
    status, out, err = call(GOOD, *arguments)
    assert (status, err) == (0, "")
    assert "arith.constant" not in out


def test_function_pass_is_nested_by_itself(call):
    generic = """func.func @f(%a: memref<4xf32>) {
      linalg.exp ins(%a : memref<4xf32>) outs(%a : memref<4xf32>)
      return
    }"""
    status, out, _ = call(generic, "--linalg-generalize-named-ops", "--affine-loop-tile", "--convert-linalg-to-loops")
    assert status == 0
    assert "scf.for" in out


def test_options_of_printing(call):
    assert '"builtin.module"()' in call(GOOD, "--mlir-print-op-generic")[1]
    in_place = call(GOOD, "--mlir-print-debuginfo", "--mlir-print-local-scope")[1]
    assert 'loc("<stdin>":3:8)' in in_place
    assert call(GOOD, "--mlir-print-skip-regions", "--mlir-print-assume-verified")[1] == "module {...}\n"
    large = """"foo.op"() {a = dense<[1, 2]> : tensor<2xi8>, b = dense_resource<blob> : tensor<4xi8>} : () -> ()
    {-# dialect_resources: { builtin: { blob: "0x0400000001020304" } } #-}"""
    options = ("--allow-unregistered-dialect", "--cse", "--mlir-print-ir-before-all")
    _, out, err = call(large, *options, "--mlir-elide-resource-strings-if-larger=3")
    assert "0x0400" not in out + err
    assert "dense<[1, 2]>" in out
    assert "dense<[1, 2]>" not in call(large, *options, "--mlir-elide-elementsattrs-if-larger=1")[2]
    assert in_place.endswith(")\n")
    assert '/in.mlir":3:8)' in call(GOOD, "--mlir-print-debuginfo", "--mlir-print-local-scope", "FILE")[1]


def test_mistake_in_a_verifier_is_no_traceback(call, monkeypatch):
    def broken(path, plan, options, context, reports):
        raise IndexError("list index out of range")

    monkeypatch.setattr(opt_passes, "_steps", broken)
    assert call(GOOD, "FILE") == (1, "", "<unknown>:0: error: IndexError: list index out of range\n")


def test_output_file_is_written_only_when_all_went_well(call, tmp_path):
    target = tmp_path / "out.mlir"
    status, out, _ = call(GOOD, "--canonicalize", "-o", str(target))
    assert (status, out) == (0, "")
    assert "tri.add" in target.read_text()
    target.write_text("old")
    assert call("func.func @f(", "-o", str(target))[0] == 1
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mlir", "out.mlir"]


def test_an_output_that_is_no_file_is_written_to(call, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR)
    try:
        assert call(GOOD, "-o", str(pipe))[0] == 0
        assert pipe.is_fifo()
        assert b"tri.add" in os.read(reading, 1 << 16)
    finally:
        os.close(reading)


@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_output_file_has_the_mode_of_the_umask(call, tmp_path, umask):
    target = tmp_path / "out.mlir"
    before = os.umask(umask)
    try:
        assert call(GOOD, "-o", str(target))[0] == 0
    finally:
        os.umask(before)
    assert oct(target.stat().st_mode & 0o777) == oct(0o666 & ~umask)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @f(%a: f32) -> f32 {\n  return %b : f32\n}", "FILE:2:10: error: use of undeclared SSA value name"),
        ("func.func @f(%a: f32) -> f32 {\n  return %a : f", "FILE:2:14: error: "),
        (
            'func.func @f(%a: f32) {\n  %0 = "tri.add"(%a, %a) : (f32, f32) -> f32\n  return\n}',
            "FILE:2:8: error: 'tri.add' op",
        ),
        ("what is this?", "FILE:1:1: error: "),
        (b"func.func @f(\xff) {}", "FILE:1:1: error: the file is not UTF-8 text"),
        (b"func.func \0 @f", "FILE:1:14: error: "),
        ('"some.op"() : () -> ()', "FILE:1:10: error: operation being parsed with an unregistered dialect"),
    ],
)
def test_broken_input_is_one_located_error(call, text, message):
    status, out, err = call(text, "--cse", "FILE")
    assert (status, out) == (1, "")
    assert err.startswith(message)
    assert "Traceback" not in err


def test_source_line_and_caret_stand_under_an_error(call):
    _, _, err = call("func.func @f(%a: f32) -> f32 {\n  return %b : f32\n}", "FILE")
    assert err.splitlines()[1:] == ["      return %b : f32", "             ^"]


@pytest.mark.parametrize("option", ["--mlir-print-op-on-diagnostic=0", "--mlir-disable-diagnostic-notes"])
def test_notes_go_on_request(call, option):
    wrong = "func.func @f(%a: f32) -> f64 {\n  return %a : f32\n}"
    assert "note: see current operation" in call(wrong, "FILE")[2]
    assert "note:" not in call(wrong, option, "FILE")[2]


def test_missing_files_are_named(call):
    assert call(GOOD, "/no/such/file.mlir") == (
        1,
        "",
        "mlirtri-opt: error: /no/such/file.mlir: No such file or directory\n",
    )
    assert "/no/such.irdl" in call(GOOD, "--irdl-file=/no/such.irdl")[2]
    assert call(GOOD, "-o", "/no/such/folder/out.mlir")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-pass"], "--no-such-pass is neither an option nor a pass"),
        (["--pass-pipeline=builtin.module(no-such-pass)"], "'no-such-pass' does not refer to a registered pass"),
        (["--pass-pipeline=builtin.module("], "is refused"),
        (["--pass-pipeline=builtin.module(canonicaliz)"], "help: did you mean 'canonicalize'? passes are spelled"),
        (["--pass-pipeline=builtin.module(func.func(tosa-to-linalg-pipeline))"], "runs on modules only"),
        (["--cse", "--pass-pipeline=builtin.module(cse)"], "cannot stand beside --pass-pipeline"),
        (["--canonicalize=no-such-option=1"], "no such option no-such-option"),
        (["--verify-each=maybe"], "the value is 0, 1, true or false"),
        (["-o"], "-o needs a value"),
        (["a.mlir", "b.mlir"], "one input at a time"),
    ],
)
def test_command_lines_that_make_no_sense(call, arguments, message):
    status, out, err = call(GOOD, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_failing_pass_is_reported_on_its_operation(call):
    text = 'func.func @f(%a: tensor<4xf32>) {\n  "some.op"(%a) : (tensor<4xf32>) -> ()\n  return\n}'
    status, out, err = call(text, "--one-shot-bufferize", "--allow-unregistered-dialect", "FILE")
    assert (status, out) == (1, "")
    assert err.startswith("FILE:2:3: error: op was not bufferized")


def test_unregistered_dialects_on_request(call):
    assert call('"some.op"() : () -> ()', "--allow-unregistered-dialect")[0] == 0


SPLIT = """func.func @first() { return }
// -----
func.func @second(%a: f32) -> f32 {
  // expected-error@+1 {{undeclared SSA value}}
  return %b : f32
}
// -----
func.func @third() { return }
"""


def test_split_input_goes_on_after_an_error_and_keeps_line_numbers(call):
    status, out, err = call(SPLIT, "--split-input-file", "FILE")
    assert status == 1
    assert out.count("// -----") == 1
    assert "@first" in out
    assert "@third" in out
    assert err.startswith("FILE:5:10: error: use of undeclared SSA value name")


def test_verify_diagnostics_accepts_what_is_expected(call):
    assert call(SPLIT, "--split-input-file", "--verify-diagnostics", "FILE")[::2] == (0, "")


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("expected-error@+1 {{something else}}", 'FILE:4:1: error: expected error "something else" was not produced'),
        ("expected-warning@+1 {{undeclared}}", 'FILE:5:10: error: unexpected error: "use of undeclared'),
        ("nothing is expected", 'FILE:5:10: error: unexpected error: "use of undeclared'),
    ],
)
def test_verify_diagnostics_reports_differences(call, comment, message):
    text = SPLIT.replace("expected-error@+1 {{undeclared SSA value}}", comment)
    status, _, err = call(text, "--split-input-file", "--verify-diagnostics", "FILE")
    assert status == 1
    assert message in err


def test_expectation_designators():
    text = "\n".join(
        [
            "op  // expected-error {{one}}",
            "// expected-error@below {{two}}",
            "// expected-note@below {{extra}}",
            "op",
            "// expected-warning-re@above {{thr{{e+}}}}",
            "op",
            "// expected-remark@-1 {{four}}",
            "// expected-error@unknown {{five}}",
        ]
    )

    def at(line):
        return Span("f", line, 1)

    reports = [
        Report("error", "this is one", at(1)),
        Report(
            "error", "two", at(4), (Report("note", "extra", at(4)), Report("note", "see current operation: x", at(4)))
        ),
        Report("warning", "threeee", at(4)),
        Report("remark", "four", at(6)),
        Report("error", "five", None),
    ]
    assert differences(text, "f", reports) == []
    assert [report.message for report in differences(text, "f", reports[1:])] == [
        'expected error "one" was not produced'
    ]
    stray = Report("note", "nobody expects this", at(6))
    assert len(differences(text, "f", [*reports, stray])) == 1


def test_irdl_file_defines_a_dialect(call, tmp_path):
    definition = tmp_path / "mine.irdl.mlir"
    definition.write_text("irdl.dialect @mine { irdl.operation @op { %0 = irdl.is f32\n irdl.operands(input: %0) } }")
    good = 'func.func @f(%a: f32) { "mine.op"(%a) : (f32) -> () return }'
    assert call(good, f"--irdl-file={definition}")[0] == 0
    status, _, err = call(good.replace("f32", "i32"), f"--irdl-file={definition}")
    assert status == 1
    assert "expected 'f32' but got 'i32'" in err
    assert call(GOOD, f"--irdl-file={definition}")[0] == 0  # tri is there beside it


def test_our_irdl_file_defines_the_dialect_without_our_code(call):
    assert call(GOOD, f"--irdl-file={IRDL_FILE}")[0] == 0


def test_dumps_before_and_after_changes(call):
    _, _, err = call(GOOD, "--canonicalize", "--cse", "--mlir-print-ir-before-all")
    assert err.count("IR Dump Before") == 2
    _, _, err = call(GOOD, "--canonicalize", "--canonicalize", "--cse", "--mlir-print-ir-after-change")
    assert err.count("IR Dump After") == 1


def test_roundtrip_and_timing(call):
    status, _, err = call(GOOD, "--cse", "--verify-roundtrip", "--mlir-timing", "--verify-each=0")
    assert status == 0
    assert "Execution time report" in err


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (
            "--mlir-pass-statistics",
            "built without counters and debug output, so there is nothing to print",
        ),
        ("--mlir-print-value-users", "no switch for it: --mlir-print-op-generic names every operand"),
        ("--load-pass-plugin=a.so", "write the pass in Python"),
    ],
)
def test_options_of_mlir_opt_that_cannot_be_had_say_why(call, option, reason):
    status, out, err = call(GOOD, "--cse", option)
    assert (status, out) == (2, "")
    assert reason in err


def test_help_and_version(call):
    status, out, _ = call("", "--help")
    assert status == 0
    assert "--split-input-file" in out
    assert all(len(line) <= 120 for line in out.splitlines())
    assert call("", "--version")[1].startswith("mlirtri ")


def test_passes_keep_their_order_among_options():
    options = parse_arguments(["--b", "-split-input-file", "x.mlir", "--a=k=v w=1", "-o=y"])
    assert options.passes == ["b", "a{k=v w=1}"]
    assert (options.input, options.values) == ("x.mlir", {"o": "y"})
    assert options.on("split-input-file")
    assert options.on("verify-each")
    with pytest.raises(UsageError, match="a number"):
        parse_arguments(["--mlir-elide-elementsattrs-if-larger=many"])


def test_list_passes_has_those_that_linkers_hide_in_longer_names(call):
    listed = call("", "--list-passes")[1].split()
    assert {"cse", "canonicalize", "one-shot-bufferize", "linalg-fuse-elementwise-ops"} <= set(listed)
    assert listed == sorted(listed)


def test_reader_that_leaves_early_is_no_error():
    program = "import sys; from mlirtri.opt.main import main; sys.exit(main(['-']))"
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, stderr=-1) as process:
        process.stdout.close()
        process.stdin.write(GOOD.encode())
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
