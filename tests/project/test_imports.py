"""Imports between packages go one way: the table below is every edge that is allowed, in the order of the stages.

A package imports only what stands above it. What a whole section shares is said once, the rest by package. Late
imports, those under TYPE_CHECKING and module paths in strings count. A row names no edge that the code does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from import_graph import ROOT, edges, imported, modules, package_of


@dataclass(frozen=True)
class Section:
    title: str
    shared: str
    """Packages that each one of the section may import."""
    packages: dict[str, str]
    """By package, in the order of the stages, what it imports beside those."""


LAYERS = (
    Section(
        "The vocabulary knows no compiler: errors, dtypes, operations, spellings",
        shared="errors settings dialect.base dialect.bindings",
        packages={
            "errors": "",
            "settings": "",
            "dialect.base": "",
            "dialect.bindings": "",
            "dialect.scalar": "",
            "dialect.ops": "dialect.scalar",
            "dialect": "dialect.ops",
            "dialect.promotion": "",
            "dialect.spellings.base": "dialect.promotion",
            "dialect.spellings.numpy_api": "dialect.promotion dialect.spellings.base",
            "dialect.spellings.torch_api": (
                "dialect.ops dialect.promotion dialect.spellings.base dialect.spellings.numpy_api"
            ),
            "dialect.spellings.kernel_api": (
                "dialect.promotion dialect.spellings.base dialect.spellings.numpy_api dialect.spellings.torch_api"
            ),
            "dialect.spellings": (
                "dialect.spellings.base dialect.spellings.numpy_api dialect.spellings.torch_api "
                "dialect.spellings.kernel_api"
            ),
        },
    ),
    Section(
        "What several lowerings share",
        shared="errors settings dialect dialect.base dialect.bindings lowering.core lowering.toolchain",
        packages={
            "lowering": "",
            "lowering.core": "",
            "lowering.toolchain": "",
            "lowering.mlir_common": "dialect.scalar",
            "lowering.tir": "",
            "lowering.sizes": "lowering.mlir_common",
            "lowering.external": "",
            "lowering.elementary": "lowering.tir",
            "lowering.special_functions": "",
            "lowering.runtime": "lowering.external",
            "lowering.cuda_emulation": "lowering.runtime",
        },
    ),
    Section(
        "MLIR: Python and imported programs to fused linalg, and on to LLVM",
        shared="errors dialect dialect.base dialect.bindings lowering.core lowering.toolchain lowering.mlir_common",
        packages={
            "lowering.frontend.semantics": "dialect.ops dialect.promotion",
            "lowering.frontend.library_functions": (
                "dialect.spellings.torch_api lowering.frontend.semantics lowering.special_functions"
            ),
            "lowering.dependence": "",
            "lowering.frontend.syntax": "",
            "lowering.frontend.tile_language": "lowering.frontend.semantics",
            "lowering.frontend.indexing": "dialect.spellings lowering.frontend.semantics",
            "lowering.frontend": (
                "dialect.spellings lowering.dependence lowering.external lowering.frontend.semantics "
                "lowering.frontend.library_functions lowering.frontend.syntax lowering.frontend.tile_language "
                "lowering.frontend.indexing"
            ),
            "lowering.frontend.graph": "lowering.external lowering.frontend lowering.frontend.semantics",
            "lowering.linalg": "dialect.ops dialect.scalar lowering.external",
            "lowering.importers.normalize.arithmetic": "dialect.scalar",
            "lowering.importers.normalize.sizes": "lowering.sizes",
            "lowering.importers.normalize": (
                "dialect.scalar lowering.external lowering.importers.normalize.arithmetic "
                "lowering.importers.normalize.sizes lowering.linalg"
            ),
            "lowering.importers": "lowering.importers.normalize",
            "lowering.importers.from_torch.tracing": "",
            "lowering.importers.from_torch": (
                "dialect.scalar lowering.frontend lowering.importers.normalize lowering.linalg"
            ),
            "lowering.importers.from_torch.decompositions.complex_numbers": "lowering.importers.from_torch",
            "lowering.importers.from_torch.decompositions.elementwise": (
                "lowering.importers.from_torch lowering.importers.from_torch.decompositions.complex_numbers "
                "lowering.special_functions"
            ),
            "lowering.importers.from_torch.decompositions.images": (
                "lowering.importers.from_torch lowering.special_functions"
            ),
            "lowering.importers.from_torch.decompositions.matrices": (
                "lowering.frontend.library_functions lowering.importers.from_torch"
            ),
            "lowering.importers.from_torch.decompositions.networks": "lowering.importers.from_torch",
            "lowering.importers.from_torch.decompositions": (
                "lowering.importers.from_torch lowering.importers.from_torch.decompositions.complex_numbers "
                "lowering.importers.from_torch.decompositions.elementwise "
                "lowering.importers.from_torch.decompositions.images "
                "lowering.importers.from_torch.decompositions.matrices "
                "lowering.importers.from_torch.decompositions.networks"
            ),
            "lowering.importers.from_torch.graph_passes": (
                "lowering.importers.from_torch lowering.importers.from_torch.decompositions"
            ),
            "lowering.importers.from_onnx": "lowering.importers.from_torch lowering.importers.normalize",
            "lowering.importers.from_stablehlo": (
                "lowering.importers.from_torch lowering.importers.from_torch.decompositions "
                "lowering.importers.from_torch.decompositions.matrices lowering.importers.from_torch.graph_passes "
                "lowering.importers.from_torch.tracing lowering.importers.normalize"
            ),
            "lowering.importers.from_relax": "lowering.importers.normalize",
            "lowering.fusion": "lowering.sizes",
            "lowering.mlir_backend": "",
            "lowering.mlir_backend.bufferize": "lowering.external lowering.fusion",
            "lowering.mlir_backend.loops": "lowering.dependence",
            "lowering.spirv": "lowering.dependence lowering.mlir_backend.loops",
            "lowering.mlir_backend.llvm": (
                "lowering.elementary lowering.mlir_backend.bufferize lowering.mlir_backend.loops "
                "lowering.runtime lowering.sizes"
            ),
        },
    ),
    Section(
        "TVM: from the bridge to code. The targets of codegen and the row rules are asked by those before them",
        shared="errors settings dialect.base lowering.core lowering.toolchain lowering.tir",
        packages={
            "lowering.codegen.passes": "lowering.elementary lowering.runtime",
            "lowering.codegen": (
                "lowering.codegen.passes lowering.cuda_emulation lowering.elementary lowering.external lowering.runtime"
            ),
            "lowering.bridge.scalar": "dialect.bindings lowering.mlir_common",
            "lowering.bridge.loops": "dialect.bindings lowering.bridge.scalar lowering.mlir_common",
            "lowering.bridge": (
                "dialect dialect.bindings dialect.ops lowering.bridge.loops lowering.bridge.scalar "
                "lowering.external lowering.importers.from_relax lowering.linalg lowering.mlir_common "
                "lowering.mlir_backend.bufferize lowering.mlir_backend.loops lowering.runtime lowering.sizes"
            ),
            "lowering.schedule.rows": "",
            "lowering.schedule.imperative": "lowering.codegen",
            "lowering.schedule.products": "lowering.codegen lowering.elementary lowering.schedule.imperative",
            "lowering.schedule.cpu.common": "lowering.codegen",
            "lowering.schedule.cpu.matmul": (
                "lowering.codegen lowering.schedule.cpu.common lowering.schedule.products"
            ),
            "lowering.schedule.cpu.convolution": (
                "lowering.codegen lowering.schedule.cpu.common lowering.schedule.cpu.matmul lowering.schedule.products"
            ),
            "lowering.schedule.cpu.nests": "lowering.codegen lowering.schedule.cpu.common",
            "lowering.schedule.cpu.rows": (
                "lowering.codegen lowering.schedule.cpu.common lowering.schedule.cpu.nests lowering.schedule.rows"
            ),
            "lowering.schedule.cpu.attention": (
                "lowering.codegen lowering.schedule.cpu.common lowering.schedule.cpu.matmul "
                "lowering.schedule.cpu.rows lowering.schedule.rows"
            ),
            "lowering.schedule.cpu.loops": (
                "lowering.codegen lowering.schedule.cpu.common lowering.schedule.cpu.convolution "
                "lowering.schedule.cpu.matmul lowering.schedule.cpu.nests lowering.schedule.imperative "
                "lowering.schedule.products"
            ),
            "lowering.schedule.cpu": (
                "lowering.codegen lowering.schedule.cpu.attention lowering.schedule.cpu.common "
                "lowering.schedule.cpu.convolution lowering.schedule.cpu.loops lowering.schedule.cpu.matmul "
                "lowering.schedule.cpu.nests lowering.schedule.cpu.rows lowering.schedule.products"
            ),
            "lowering.schedule.cuda.common": "lowering.schedule.imperative lowering.schedule.rows",
            "lowering.schedule.cuda.tensor_cores": "lowering.schedule.cuda.common lowering.schedule.products",
            "lowering.schedule.cuda.tiles": (
                "lowering.codegen lowering.schedule.cuda.common lowering.schedule.cuda.tensor_cores "
                "lowering.schedule.imperative lowering.schedule.products"
            ),
            "lowering.schedule.cuda": (
                "lowering.codegen lowering.schedule.cuda.common lowering.schedule.cuda.tensor_cores "
                "lowering.schedule.cuda.tiles lowering.schedule.imperative lowering.schedule.products "
                "lowering.schedule.rows"
            ),
            "lowering.schedule.meta": ("lowering.codegen lowering.external lowering.runtime lowering.schedule.cuda"),
            "lowering.schedule": (
                "lowering.codegen lowering.external lowering.schedule.cpu lowering.schedule.cpu.attention "
                "lowering.schedule.cpu.convolution lowering.schedule.cpu.matmul lowering.schedule.cpu.rows "
                "lowering.schedule.cuda lowering.schedule.meta lowering.schedule.rows"
            ),
            "lowering.relax": (
                "lowering.bridge.scalar lowering.external lowering.schedule lowering.schedule.products "
                "lowering.schedule.rows"
            ),
            "lowering.interpreter": (
                "dialect dialect.bindings dialect.ops lowering.bridge lowering.external lowering.frontend.semantics "
                "lowering.relax"
            ),
            "lowering.pipelines": (
                "lowering.bridge lowering.codegen lowering.external lowering.frontend lowering.frontend.graph "
                "lowering.fusion lowering.importers lowering.importers.from_onnx lowering.importers.from_relax "
                "lowering.importers.from_stablehlo lowering.importers.from_torch lowering.importers.normalize "
                "lowering.interpreter lowering.linalg lowering.mlir_backend.bufferize lowering.mlir_backend.llvm "
                "lowering.relax lowering.schedule lowering.spirv"
            ),
        },
    ),
    Section(
        "What users import and run",
        shared=(
            "errors settings dialect dialect.base dialect.bindings lowering.core lowering.toolchain lowering.pipelines"
        ),
        packages={
            "trace": "",
            "language": "",
            "testing": "",
            "reduce": "",
            "lit": "testing",
            "relax": "lowering.external",
            "calls": "language lowering.runtime",
            "compiler": (
                "lowering.cuda_emulation lowering.frontend lowering.linalg lowering.mlir_common "
                "lowering.mlir_backend.llvm lowering.runtime lowering.schedule.meta "
                "lowering.sizes trace"
            ),
            "cache": "compiler dialect.spellings lowering.cuda_emulation lowering.runtime",
            "kernels": (
                "cache calls compiler language lowering.bridge lowering.external lowering.frontend "
                "lowering.frontend.graph lowering.fusion lowering.linalg lowering.mlir_common "
                "lowering.mlir_backend.bufferize lowering.mlir_backend.loops lowering.relax lowering.runtime trace"
            ),
            "tile": "kernels language",
            "programs": (
                "compiler kernels lowering.importers.from_onnx lowering.importers.from_relax "
                "lowering.importers.normalize lowering.mlir_common lowering.sizes"
            ),
            "programs.torch_programs": (
                "calls compiler kernels language lowering.frontend lowering.importers.from_torch "
                "lowering.importers.from_torch.decompositions lowering.importers.from_torch.decompositions.networks "
                "lowering.importers.from_torch.graph_passes lowering.importers.from_torch.tracing lowering.runtime "
                "programs"
            ),
            "sources": "kernels language programs programs.torch_programs",
            "measure": (
                "calls compiler kernels language lowering.mlir_backend.bufferize lowering.runtime programs sources "
                "trace"
            ),
            "serve": "compiler",
            "opt": "kernels lowering.bridge lowering.fusion lowering.linalg lowering.mlir_common programs serve",
            "lsp": "compiler kernels",
            "cli": (
                "cache calls compiler kernels language lowering.cuda_emulation lowering.runtime lowering.spirv lsp "
                "measure opt programs reduce serve sources testing trace"
            ),
            "__main__": "cli",
            "pages": (
                "dialect.ops dialect.spellings dialect.spellings.base lowering.bridge lowering.bridge.loops "
                "lowering.frontend lowering.frontend.library_functions lowering.importers.normalize "
                "lowering.mlir_common sources"
            ),
            "mlirtri": (
                "dialect.spellings kernels language lit lowering.external measure programs programs.torch_programs "
                "relax testing"
            ),
        },
    ),
)
TVM = (
    "lowering.toolchain", "lowering.tir", "lowering.elementary", "lowering.runtime", "lowering.external",
    "lowering.importers.from_relax", "lowering.cuda_emulation", "lowering.codegen", "lowering.bridge",
    "lowering.schedule", "lowering.relax",
    "lowering.interpreter", "mlirtri", "cli", "compiler", "measure", "programs",
)  # fmt: skip
"""The packages, with those below them, that may load TVM: the `mlir` pipeline never loads any of them."""


def rows() -> dict[str, set[str]]:
    """Return what each package may import, in the order of the stages."""
    return {
        package: {*section.shared.split(), *own.split()}
        for section in LAYERS
        for package, own in section.packages.items()
    }


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], list[str]]:
    return edges()


def test_every_package_has_a_row():
    files = modules()
    assert {package_of(module, files) for module in files} == set(rows())


def test_each_import_is_in_the_table(found):
    allowed = {(above, below) for above, row in rows().items() for below in row}
    wrong = [f"{lines[0]}: {above} imports {below}" for (above, below), lines in found.items()
             if (above, below) not in allowed]  # fmt: skip
    assert wrong == [], "move the code, or put the edge into LAYERS if the order allows it"


def test_the_table_has_no_edge_that_runs_back():
    order = list(rows())
    own = {(above, below) for section in LAYERS for above, row in section.packages.items() for below in row.split()}
    assert {(above, below) for above, below in own if order.index(below) >= order.index(above)} == set()


def test_no_row_names_an_edge_that_is_gone(found):
    own = {(above, below) for section in LAYERS for above, row in section.packages.items() for below in row.split()}
    assert own - set(found) == set()


def test_stages_without_tvm_import_none_of_it():
    files = modules()
    users = {package_of(module, files) for module, file in files.items() if "toolchain.tvm_names" in file.read_text()}
    assert [user for user in users if not any(f"{user}.".startswith(f"{each}.") for each in TVM)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "from mlirtri.kernels.jit import jit",
        "def late():\n    import mlirtri.kernels.jit",
        "if TYPE_CHECKING:\n    from mlirtri.kernels import jit",
        "import_module('mlirtri.kernels.jit')",
    ],
)
def test_a_wrong_import_is_seen(statement):
    """A module of `dialect` imports `mlirtri.kernels`, in each way that there is."""
    files = modules()
    below = {package_of(name, files) for _, name in imported(statement, files)}
    assert below == {"kernels"}
    assert not below & rows()["dialect.ops"]


def test_a_tree_with_a_wrong_import_fails(tmp_path):
    for folder in ("mlirtri", "dialect", "lowering"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "mlirtri" / "errors.py").write_text("from mlirtri.lowering import pipelines\n")
    (tmp_path / "lowering" / "pipelines.py").write_text("")
    assert edges(tmp_path) == {("errors", "lowering.pipelines"): ["mlirtri/errors.py:1"]}
    assert "lowering.pipelines" not in rows()["errors"]
    assert (ROOT / "mlirtri" / "errors.py").is_file()
