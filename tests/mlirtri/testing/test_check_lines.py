"""The directives written for a text: each kind of IR passes its own, and they break where the text does."""

from __future__ import annotations

import pytest

from mlirtri.testing.check_lines import check_lines
from mlirtri.testing.tools import failure

MLIR = """#map = affine_map<(d0) -> (d0)>
module {
  func.func @f(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    %cst = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
    %0:2 = scf.for %i = %n to %n step %n iter_args(%x = %a, %y = %a) -> (tensor<4xf32>, tensor<4xf32>) {
      %1 = linalg.generic {indexing_maps = [#map]} ins(%x : tensor<4xf32>) {
      ^bb0(%in: f32):
        linalg.yield %in : f32
      }
      scf.yield %1, %y : tensor<4xf32>, tensor<4xf32>
    }
    %1 = "tri.exp"(%0#1) : (tensor<4xf32>) -> tensor<4xf32> loc("/home/me/k.py":3:7)
    return %1 : tensor<4xf32>
  }

  func.func private @g(%a: f32) -> f32 {
    return %a : f32
  }
}
"""
TVMSCRIPT = """# from tvm.script import ir as I

@I.ir_module
class Module:
    @T.prim_func
    def add(a: T.Buffer((4,), "float32")):
        T.sblock_attr({"mlirtri.loc": "/tmp/q.py:4:12"})
        a[0] = 1
"""
LLVM = """; ModuleID = 'TVMMod'
target triple = "x86_64"

define i32 @f(ptr %args, i32 %n) #0 !dbg !5 {
entry:
  #dbg_value(ptr poison, !11)
  %0 = icmp eq i32 %n, 3, !dbg !15
  br i1 %0, label %next, label %end, !dbg !15, !prof !16

next:                                             ; preds = %entry
  br label %end

end:
  ret i32 0, !dbg !15
}
!5 = !{}
"""
ASSEMBLY = """\t.text
\t.globl\tf
f:
\t.cfi_startproc
\tpushq\t%rbx
.Ltmp0:
\tjne\t.LBB0_1
.LBB0_1:
\tretq
"""
CUDA = """#include <cuda.h>
extern "C" __global__ void k(float* a);
extern "C" __global__ void k(float* a) {
  // /tmp/q.py:4
#line 4 "/tmp/q.py"
  a[0] = 1;
}
"""
ERROR = """/home/me/k.py:7:11: error: shapes (4,) and (3,) do not broadcast together
        out = a + b
              ^~~~~
"""


def passes(text: str, directives: list[str]) -> bool:
    return failure(text, "\n".join(directives), "CHECK", ("--enable-var-scope",)) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (
            MLIR,
            [("#map]", "#map, #map]"), ("%0#1", "%0#0"), ("ins(%x", "ins(%y"), ("[[1, 2]", "[[1, 7]"), ("@g", "@h")],
        ),
        (TVMSCRIPT, [("= 1", "= 2"), ("(4,)", "(5,)")]),
        (LLVM, [("ret i32 0", "ret i32 1"), ("eq i32 %n", "eq i32 %m")]),
        (ASSEMBLY, [("pushq", "popq")]),
        (CUDA, [("a[0]", "a[1]")]),
        (ERROR, [("(3,)", "(2,)"), (":11: error", ":12: error")]),
    ],
    ids=["mlir", "tvmscript", "llvm", "assembly", "cuda", "error"],
)
def test_a_text_passes_its_directives_and_a_changed_one_does_not(text, other):
    directives = check_lines(text, "CHECK", "." if text is ASSEMBLY else None)
    assert passes(text, directives), "\n".join(directives)
    for before, after in other:
        assert before in text
        assert not passes(text.replace(before, after), directives), (before, after)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (MLIR, {"%1": "%11", "%in": "%a_0", "#map": "#map5", '/home/me/k.py":3': '/k.py":44'}),
        (TVMSCRIPT, {"/tmp/q.py:4": "/home/me/copy of.py:9"}),
        (LLVM, {"%0": "%7", "!15": "!22", "#0": "#1"}),
        (ASSEMBLY, {"LBB0_1": "LBB3_2", "Ltmp0": "Ltmp9"}),
        (CUDA, {"/tmp/q.py:4": "/q.py:9", '4 "/tmp/': '9 "/'}),
        (ERROR, {"/home/me/k.py:7": "/k.py:12"}),
        (TVMSCRIPT.replace("/tmp/", ""), {"q.py:4": "copy.py:19"}),
        (ERROR.replace("/home/me/", ""), {"k.py:7": "k.py:12"}),
    ],
    ids=[
        "mlir",
        "tvmscript",
        "llvm",
        "assembly",
        "cuda",
        "error",
        "tvmscript without folders",
        "error without folders",
    ],
)
def test_names_paths_and_numbers_that_move_are_left_open(text, changes):
    directives = check_lines(text, "CHECK", "." if text is ASSEMBLY else None)
    for before, after in changes.items():
        assert before in text
        assert passes(text.replace(before, after), directives), (before, after)


def test_llvm_functions_of_the_runtime_are_left_out():
    """Checks of arguments, errors and conversions of halves are in every kernel."""
    body = LLVM.partition("define ")[2].partition("!5 =")[0]
    runtime = "".join(
        f"define {body.replace('@f(', f'@{name}(')}" for name in ("__tvm_ffi_f", "__tvm_set_raised_6", "__truncsfhf2")
    )
    task = f"define {body.replace('@f(', '@__tvm_parallel_lambda(')}"
    directives = check_lines(f"{LLVM}{runtime}{task}", "CHECK")
    labels = [line for line in directives if "-LABEL" in line]
    assert labels == ["CHECK-LABEL: define i32 @f(", "CHECK-LABEL: define i32 @__tvm_parallel_lambda("]
    assert passes(f"{LLVM}{runtime}{task}", directives)
    asked = check_lines(f"{LLVM}{runtime}", "CHECK", keep="icmp")
    assert "CHECK-LABEL: define i32 @__tvm_ffi_f(" in asked
    assert not any("__tvm_ffi_f" in line for line in check_lines(f"{LLVM}{runtime}", "CHECK", keep="fadd"))
    assert any("__tvm_ffi_f" in line for line in check_lines(runtime, "CHECK"))


def test_mlir_in_full():
    assert check_lines(MLIR, "CHECK")[:5] == [
        "CHECK: #[[$MAP:[^ ,:)]+]] = affine_map<(d0) -> (d0)>",
        "CHECK-LABEL:   func.func @f(",
        "CHECK-SAME:   %[[A:[^ ,:)]+]]: tensor<4xf32>, %[[N:[^ ,:)]+]]: index) -> tensor<4xf32> {",
        r"CHECK-NEXT:     %[[CST:[^ ,:)]+]] = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi32>",
        "CHECK-NEXT:     %[[V0:[^ ,:)]+]]:2 = scf.for %[[I:[^ ,:)]+]] = %[[N]] to %[[N]] step %[[N]]"
        " iter_args(%[[X:[^ ,:)]+]] = %[[A]], %[[Y:[^ ,:)]+]] = %[[A]]) -> (tensor<4xf32>, tensor<4xf32>) {",
    ]  # fmt: skip


def test_only_lines_that_are_kept():
    directives = check_lines(MLIR, "OPS", keep=r"tri\.")
    assert [line.split()[0] for line in directives] == ["OPS-LABEL:", "OPS-SAME:", "OPS:", "OPS-LABEL:", "OPS-SAME:"]


def test_each_of_several_stages_has_its_label():
    text = f"// ===== f: tri =====\n{MLIR}# ===== f: tir =====\n{TVMSCRIPT}"
    directives = check_lines(text, "CHECK")
    labels = [line for line in directives if line.startswith("CHECK-LABEL")]
    assert labels[0] == "CHECK-LABEL: ===== f: tri ====="
    assert "CHECK-LABEL: ===== f: tir =====" in labels
    assert passes(text, directives)


def test_assembly_is_checked_for_functions_and_arithmetic_on_vectors():
    text = """\t.text
f:
\tvmovups\t(%rdi), %ymm0
\tvaddps\t(%rsi), %ymm0, %ymm1
\tvmulps\t%ymm1, %ymm1, %ymm1
.LBB0_1:
\tvmaxps\t%ymm1, %ymm0, %ymm0
\tvaddss\t%xmm1, %xmm0, %xmm0
\tretq
helper_of_the_runtime:
\tretq
g:
\tvfmadd231pd\t%ymm1, %ymm0, %ymm0
"""
    directives = check_lines(text, "CHECK")
    assert directives == [
        "CHECK-LABEL: f:", "CHECK: {{v?(mul|fmadd[0-9]+)}}ps", "CHECK: {{v?}}maxps",
        "CHECK-LABEL: g:", "CHECK: {{v?(fmadd[0-9]+|mul)}}pd",
    ]  # fmt: skip
    # Another CPU, with other registers and without fused instructions.
    older = "f:\n\tmulps\t%xmm1\n\tmaxps\t%xmm0\ng:\n\tmulpd\t%xmm1\n\taddpd\t%xmm1\n"
    assert passes(text, directives)
    assert passes(older, directives)
    assert not passes(older.replace("addpd", "addsd").replace("mulpd", "mulsd"), directives)


def test_assembly_without_vectors_is_checked_for_arithmetic_on_scalars():
    scalar = "\t.text\nhelper:\n\tmov %eax, %ebx\nf:\n\tvaddsd\t%xmm1\n\tvmulsd\t%xmm1\n"
    directives = check_lines(scalar, "CHECK")
    assert directives[0] == "CHECK-LABEL: f:"
    assert len(directives) == 2
    assert passes(scalar, directives)
    assert not passes(scalar.replace("mulsd", "divsd").replace("addsd", "divsd"), directives)
    assert check_lines("\t.text\nf:\n\tmov %eax, %ebx\n", "CHECK") == ["CHECK-LABEL: f:"]


def test_assembly_with_another_operation_does_not_pass():
    scaled = "\t.text\nf:\n\tvfmadd231ps\t%ymm1\n\tvdivps\t%ymm1\n\tvmulps\t%ymm1\n"
    directives = check_lines(scaled, "CHECK")
    assert directives[1:] == ["CHECK: {{v?(fmadd[0-9]+|mul)}}ps", "CHECK: {{v?}}divps", "CHECK: {{v?}}mulps"]
    assert passes(scaled, directives)
    assert passes("f:\n\tmulps\t%xmm1\n\taddps\t%xmm1\n\tdivps\t%xmm1\n\tmulps\t%xmm1\n", directives)
    assert not passes(scaled.replace("vmulps", "vaddps"), directives)
    shifted = check_lines(scaled.replace("vmulps", "vaddps"), "CHECK")
    assert not passes(scaled.replace("vmulps", "vsubps"), shifted)
    # Without fused instructions the product of a - b * c is told from that of a + b * c.
    assert check_lines("\t.text\nf:\n\tmulpd\t%xmm1\n\tsubpd\t%xmm1\n", "CHECK")[1:] == [
        "CHECK: {{v?(mul|fn?m(add|sub)[0-9]+)}}pd"
    ]


def test_arguments_of_quoted_symbols_are_captured():
    text = 'func.func @"a b"(%arg0: f32) -> f32 {\n  return %arg0 : f32\n}\n'
    assert check_lines(text, "CHECK")[:2] == [
        'CHECK-LABEL: func.func @"a b"(', "CHECK-SAME: %[[ARG0:[^ ,:)]+]]: f32) -> f32 {"
    ]  # fmt: skip
    assert passes(text.replace("%arg0", "%x"), check_lines(text, "CHECK"))
