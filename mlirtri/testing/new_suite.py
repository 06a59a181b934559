"""Write a new suite of lit tests: a configuration, one example test per stage, and a workflow for GitHub's CI."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from mlirtri.errors import UnknownOptionError

KERNEL = """
import mlirtri as mt


@mt.jit
def add_twice(a: mt.Tensor[[4, 8], mt.float32], b: mt.Tensor[[4, 8], mt.float32]):
    return a + b + a
"""
CONFIGURATION = '''"""Configures lit; `mlirtri.lit` finds the tools and names the features of this machine."""

import mlirtri.lit

mlirtri.lit.configure(config, lit_config, __file__)
'''
OPT = """// A pass of upstream MLIR, on text: mlirtri-opt takes the options of mlir-opt.
// RUN: mlirtri-opt --cse %s | FileCheck %s

// CHECK-LABEL: func.func @twice
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NOT: arith.addf
// CHECK: return %[[SUM]], %[[SUM]]
func.func @twice(%a: f32, %b: f32) -> (f32, f32) {
  %0 = arith.addf %a, %b : f32
  %1 = arith.addf %a, %b : f32
  return %0, %1 : f32, f32
}
"""
ERROR = """# A mistake is reported on its line; errors go to stderr.
# RUN: not mlirtri emit %s 2>&1 | FileCheck %s

# CHECK: error.py:[[# @LINE + 7]]:12: error: shapes (4,) and (3,) do not broadcast together
import mlirtri as mt


@mt.jit
def mismatched(a: mt.Tensor[[4], mt.float32], b: mt.Tensor[[3], mt.float32]):
    # Sizes differ.
    return a + b
"""
WORKFLOW = """name: lit

on: [push, pull_request]

jobs:
  lit:
    runs-on: ubuntu-latest
    env:
      # Wheels of torch without CUDA: a tenth of the download.
      PIP_EXTRA_INDEX_URL: https://download.pytorch.org/whl/cpu
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/{name}
      - run: pip install "mlirtri[lit]=={version}"
      - run: lit -v {folder}
"""
WORKFLOW_NAME = "mlirtri-lit.yml"


@dataclass(frozen=True)
class Example:
    """The test of one stage."""

    stage: str
    what: str
    checks: tuple[str, ...]
    """Lines of FileCheck, from the suffix of the prefix on: ``-LABEL: …`` or ``: …``."""
    options: str = ""
    requires: str = ""

    @property
    def file(self) -> str:
        """The file's name: none of Python's own modules, which `python -m pytest` in the folder would import."""
        return f"{self.stage}_stage.py" if self.stage in sys.stdlib_module_names else f"{self.stage}.py"

    @property
    def text(self) -> str:
        """The file's text."""
        options = f"{self.options} " if self.options else ""
        return "\n".join(
            [
                f"# {self.what}",
                *([f"# REQUIRES: {self.requires}"] if self.requires else []),
                f"# RUN: mlirtri emit %s --stage={self.stage} {options}| FileCheck %s",
                *(f"# CHECK{line}" for line in self.checks),
                KERNEL.strip("\n"),
                "",
            ]
        )


_LABEL = "-LABEL: func.func @add_twice"
_ONE_OPERATION = (
    ": %[[SUM:.*]] = arith.addf",
    "-NEXT: arith.addf %[[SUM]]",
    "-NOT: linalg.generic",
)
EXAMPLES = (
    Example("ast", "The syntax tree of the kernel.", (": name='add_twice'", ": op=Add()", ": op=Add()")),
    Example(
        "tri", "One operation per addition, with types.",
        (_LABEL, ': %[[SUM:.*]] = "tri.add"(%a, %b)', '-NEXT: "tri.add"(%[[SUM]], %a)'),
    ),
    Example(
        "linalg", "One loop nest per addition.",
        (_LABEL, ": %[[SUM:.*]] = linalg.generic", ": linalg.generic", "-SAME: ins(%[[SUM]], %a"),
    ),
    Example("fused", "The two additions are one operation.", (_LABEL, *_ONE_OPERATION)),
    Example(
        "relax", "One TIR function, called by Relax.",
        (": def add_add(", ": T.grid(T.int64(4), T.int64(8))", ": def add_twice(", ": R.call_tir(cls.add_add, (a, b)"),
    ),
    Example(
        "tir", "Both additions are in one block.",
        (": out[v_i0, v_i1] = a[v_i0, v_i1] + b[v_i0, v_i1] + a[v_i0, v_i1]",),
    ),
    Example("scheduled", "The loop is vectorised.", (': "mlirtri.schedule": "Elementwise"', ": T.vectorized(")),
    Example("llvm", "LLVM adds vectors.", (": define", ": fadd <{{[0-9]+}} x float>")),
    Example("asm", "The processor adds vectors.", (": {{v?}}addps",), requires="x86"),
    Example(
        "cuda", "CUDA source, which needs no GPU.",
        (': extern "C" __global__ void {{.*}}add_add_kernel(', ": threadIdx.x"), "--target=cuda",
    ),
    Example("ptx", "PTX, which nvcc makes.", (": add.f32", ": add.f32"), "--target=cuda", "nvcc"),
    Example(
        "bufferized", "Memory in place of tensors; the result is an argument.",
        (_LABEL, "-SAME: memref<4x8xf32>", "-NOT: memref.alloc", *_ONE_OPERATION),
        "--pipeline=mlir",
    ),
    Example(
        "llvmdialect", "Loops and loads.",
        ("-LABEL: llvm.func @mlirtri_add_twice", ": %[[SUM:.*]] = llvm.fadd", ": llvm.fadd %[[SUM]]", ": llvm.store"),
        "--pipeline=mlir",
    ),
)  # fmt: skip


def repository_of(folder: Path) -> Path | None:
    """Return the root of the repository that a folder is in, or will be when it is made; None without one."""
    resolved = folder.resolve()
    return next((parent for parent in (resolved, *resolved.parents) if (parent / ".git").exists()), None)


def write_suite(folder: Path) -> list[Path]:
    """Write a suite of tests into a folder, which is made; return the files.

    The workflow stands where GitHub reads it: at the root of the repository around the folder, under a name of its own
    where another suite has one; else in the folder. Raises `UnknownOptionError` where a file is there already, and
    writes nothing then.
    """
    root = repository_of(folder)
    within = "." if root is None else folder.resolve().relative_to(root).as_posix()
    file = (root or folder) / ".github" / "workflows" / WORKFLOW_NAME
    if root is not None and file.exists():
        file = file.with_name(f"{file.stem}-{within.replace('/', '-')}{file.suffix}")
    workflow = WORKFLOW.format(name=file.name, folder=shlex.quote(within), version=metadata.version("mlirtri"))
    texts = {
        folder / "lit.cfg.py": CONFIGURATION,
        **{folder / example.file: example.text for example in EXAMPLES},
        folder / "opt.mlir": OPT,
        folder / "error.py": ERROR,
        file: workflow,
    }
    if there := [str(file) for file in texts if file.exists()]:
        raise UnknownOptionError(f"{', '.join(there)}: there already", help="name a folder without a suite")
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return list(texts)
