"""The page "What of MLIR there is", `docs/coverage.md`, made from the tables that the lowerings read.

    python -m mlirtri.pages.coverage_page           # print the page
    python -m mlirtri.pages.coverage_page --write   # write it into the checkout

A test keeps page and tables equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import click

from mlirtri.dialect.bindings.mlir import operations_of_dialect
from mlirtri.lowering.bridge.fused_to_relax import BODY_OPERATIONS, SCALAR_RULES
from mlirtri.lowering.bridge.fused_to_relax import RULES as TENSOR_RULES
from mlirtri.lowering.bridge.loops import loops_to_primfunc
from mlirtri.lowering.importers.normalize import complex_numbers, control_flow
from mlirtri.lowering.importers.normalize.decompositions import RULES, UPSTREAM
from mlirtri.lowering.importers.normalize.global_variables import LOADS, STORE
from mlirtri.lowering.importers.normalize.mlir_to_linalg import total_arithmetic
from mlirtri.lowering.importers.normalize.tm_tensor import RULES as TM_TENSOR_RULES
from mlirtri.lowering.mlir_common.imperative import ELEMENTS
from mlirtri.lowering.pipelines import IMPORT_STAGES
from mlirtri.pages.operations_page import publish
from mlirtri.pages.torch_operators import section
from mlirtri.sources.program_files import SUFFIXES

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "coverage.md"
DIALECTS = ("linalg", "tensor", "arith", "math", "complex", "scf", "cf", "tm_tensor", "ml_program")
ENTRIES = {
    "mlir": "`mt.from_mlir`", "torch": '`mt.from_torch`, `torch.compile(backend="mlirtri")`', "onnx": "`mt.from_onnx`",
    "stablehlo": "`mt.from_stablehlo`, `mt.from_jax`", "tosa": "`mt.from_tosa`", "relax": "`mt.from_relax`",
}  # fmt: skip
"""How a language comes in; a test compares them with `pipelines.IMPORT_STAGES`."""

TABLES = ("test_bridge", "test_import")
"""How the files of tests begin that have tables of operations."""

_HEAD = """\
<!-- Generated from the tables of rules by `python -m mlirtri.pages.coverage_page --write`; a test keeps both equal. -->

# What of MLIR there is

The operations of a program that did not come from Python, and the rule that each has. On a CPU a rule serves the
pipelines `linalg`, `relax` and `mlir` alike, for CUDA one without complex numbers. An operation without a rule is
refused, with its line. `program.report()` and `mlirtri translate --report FILE` say the same of one program, whatever
dialects it is of.

"""


_RECORDED = """\
Of the programs that StableHLO's repository records (`stablehlo/testdata` at 3c9301c1), a quarter was run in pipeline
`linalg`: 28 of 28 quantised ones give the recorded bits, and 87 of 87 with run-time sizes, of which no results are
recorded, give what a NumPy interpretation of them (of one, torch's pool) gives. Of the 599 others 596 are within the
bounds that the files name, and none is refused. Three are outside: `cumprod` and `expm1` of complex64 and one
`triangular_solve` of float32. The recorded numbers of these three are farther from a computation in float64 than the
compiled ones are. Of the 599, 105 drawn at random were run in pipeline `mlir` too: all are right.

About 1700 programs of one operation each, of all element types from booleans to complex128, 100 of them with run-time
sizes, agree with StableHLO's interpreter or with NumPy: elementwise operations, reductions, windows, contractions,
convolutions with dilations and groups, gathers, scatters, sorts, loops, functions of CHLO. `rng`, tensors of 4-bit
integers as arguments, and `chlo.broadcast_select` of operands of different ranks are refused.

JAX's calls of LAPACK are no part of these programs. Of 20 functions of `jax.numpy.linalg` and `jax.scipy.linalg` (JAX
0.10.2) 17 compile and 3 are refused: `eig`, `schur` and `hessenberg`. Their results of float32 are within 1.2e-6 of
JAX's, relative to the largest number, but for the signs of vectors and the bases of null spaces. Nine of them were run
in float64, complex64 and complex128 as well (within 1.4e-14, 4.5e-7 and 1.7e-15), and six in pipeline `mlir`.

"""


@dataclass(frozen=True)
class Way:
    """One kind of rule."""

    word: str
    meaning: str
    names: Callable[[], Collection[str]]
    cuda: str = "yes"


def _bodies() -> Collection[str]:
    return SCALAR_RULES


def _whole() -> Collection[str]:
    # The lowering from `tri` has rules of its own in that table, once it has run.
    shared = {name for name, rule in TENSOR_RULES.items() if not rule.__module__.endswith("tri_to_relax")}
    return {*shared, *BODY_OPERATIONS}


def _composed() -> Collection[str]:
    return {*UPSTREAM, *RULES, *total_arithmetic.RULES}


def _complex() -> Collection[str]:
    tables = [table for table in vars(complex_numbers).values() if isinstance(table, dict)]
    return {*complex_numbers.KEPT, *(name for table in tables for name in table if str(name).startswith("complex."))}


def _loops() -> Collection[str]:
    forall = ("scf.forall.in_parallel", "tensor.parallel_insert_slice", "tensor.yield")
    inner = (*loops_to_primfunc.STATEMENT_RULES, *loops_to_primfunc._TERMINATORS)
    return {*inner, *control_flow.RULES, *TM_TENSOR_RULES, *ELEMENTS, *forall}


def _state() -> Collection[str]:
    return {"ml_program.global", *LOADS, STORE}


def _branches() -> Collection[str]:
    return ("cf.br", "cf.cond_br", "cf.switch")


WAYS = (
    Way("structured", "a TIR function, or loops, of its indexing maps and its body", lambda: ()),
    Way("whole", "on tensors, in straight-line code or in a body", _whole),
    Way("scalar", "in bodies, and on whole tensors", _bodies),
    Way("composed", "of other operations first", _composed),
    Way("parts", "by algorithms on real and imaginary parts", _complex, "no"),
    Way("loops", "control flow and updates, compiled as one unit, or beside straight code", _loops, "no"),
    Way("check", "its condition is a result, which is looked at after the call", lambda: ("cf.assert",)),
    Way("lifted", "branches between blocks become loops and ifs", _branches, "no"),
    Way("state", "a parameter of the program, which keeps its value between calls", _state),
)
"""In the order in which they are asked; the first that has the operation names it."""

_ONNX = """\
## ONNX

The package `onnx` 1.23 has 1801 node tests of tensors, without strings, sequences, training and random numbers. All
were run in pipeline `linalg`: 1790 gave the expected numbers, 9 were refused, and 2 are outside of ONNX's tolerance.

| outside of the tolerance | largest difference from a computation in float64 |
|---|---|
| `DFT`, inverse, two tests of one case | 4.4e-7; the expected numbers 1.5e-6 |

| refused | why |
|---|---|
| `ImageDecoder` (9 tests) | a decoder of files, not a tensor program |
| recurrent layers with `Affine` or `ScaledTanh` and no scales for it | ONNX has no defaults |
| a loop that collects results, of an unknown number of iterations | the length of its buffers is not known |
| `Unique` of slices, of more than 2^24 elements in all pairs of slices | it compares all pairs |
| `ai.onnx.ml`, training, strings, sequences, optional values | not tensor programs |

"""
"""Measured by hand: a run of all tests takes most of an hour."""


def page() -> str:
    operations = [name for dialect in DIALECTS for name in operations_of_dialect(dialect)] + list(TM_TENSOR_RULES)
    tables = [(treatment, frozenset(treatment.names())) for treatment in WAYS]
    tests = _Tests()
    parts = [
        _HEAD,
        "".join(f"- *{treatment.word}*: {treatment.meaning}.\n" for treatment in WAYS) + "\n",
        _languages(),
        _ONNX,
    ]
    for dialect in DIALECTS:
        names = sorted(name for name in operations if name.partition(".")[0] == dialect)
        rows = [_row(name, _way(name, tables), tests) for name in names]
        translated = sum("| refused |" not in row for row in rows)
        parts.append(
            f"## {dialect}\n\n{translated} of {len(rows)} operations.\n\n| operation | rule | CUDA | a test |\n"
        )
        parts.append("|---|---|---|---|\n" + "\n".join(rows) + "\n\n")
    parts.append(section())
    return "".join(parts).rstrip("\n") + "\n"


def _languages() -> str:
    lines = ["## Languages\n", "| language | comes in by | files | stages of its own |", "|---|---|---|---|"]
    for language, stages in IMPORT_STAGES.items():
        files = [
            suffix
            for suffix, suffix_language in SUFFIXES.items()
            if suffix_language == language or (suffix_language is None and language == "mlir")
        ]
        names = ", ".join(f"`{stage.name}`" for stage in stages)
        lines.append(f"| {language} | {ENTRIES[language]} | {', '.join(f'`{name}`' for name in files)} | {names} |")
    return "\n".join(lines) + "\n\n" + _RECORDED


def _way(name: str, tables: list[tuple[Way, frozenset[str]]]) -> Way | None:
    treatment = next((candidate for candidate, names in tables if name in names), None)
    is_structured = treatment is None and name.startswith("linalg.")
    return WAYS[0] if is_structured else treatment


def _row(name: str, treatment: Way | None, tests: _Tests) -> str:
    word, cuda = (treatment.word, treatment.cuda) if treatment else ("refused", "no")
    file = tests.file_for(name)
    return f"| `{name}` | {word} | {cuda} | {f'[{file.name}](../{file.relative_to(ROOT)})' if file else '–'} |"


class _Tests:
    def __init__(self) -> None:
        files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("lit_tests/**/*.mlir"), *ROOT.glob("lit_tests/**/*.py")]
        self.texts = {file: file.read_text(encoding="utf-8") for file in sorted(files) if ".out" not in file.parts}
        self.before = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""

    def file_for(self, name: str) -> Path | None:
        """Return the page's current test of an operation if it still names it, else the first test that does."""
        # Tables of named operations leave the dialect out.
        short = re.escape(name.partition(".")[2])
        pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.])")
        table = re.compile(rf'"{short}"')
        old = re.search(rf"^\| `{re.escape(name)}` \|.*\]\(\.\./([^)]+)\)", self.before, re.MULTILINE)
        candidates = [ROOT / old[1]] if old else []
        tables = [file for file in self.texts if file.name.startswith(TABLES) and table.search(self.texts[file])]
        named = (file for file in (*candidates, *self.texts) if pattern.search(self.texts.get(file, "")))
        return next(named, next(iter(tables), None))


@click.command()
@click.option("--write", is_flag=True, help="Write docs/coverage.md instead of printing it.")
def main(write: bool) -> None:
    """Write the page on which MLIR operations are translated."""
    publish(page(), PAGE, write)


if __name__ == "__main__":
    main()
