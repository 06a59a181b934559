"""What is on disk is what a user installs: the wheel, the lists in pyproject.toml and the pins agree."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"mlirtri": ROOT / "mlirtri", "mlirtri/dialect": ROOT / "dialect", "mlirtri/lowering": ROOT / "lowering"}
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def files_on_disk() -> set[str]:
    """Every file of the packages, under the name that it has in the wheel."""
    return {
        f"{name}/{file.relative_to(folder).as_posix()}"
        for name, folder in PACKAGES.items()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy, so that neither an old build/ gets in nor a new one is left behind."""
    copy = tmp_path_factory.mktemp("checkout")
    for entry in ("mlirtri", "dialect", "lowering"):
        shutil.copytree(ROOT / entry, copy / entry, ignore=shutil.ignore_patterns("__pycache__"))
    for entry in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        if (ROOT / entry).exists():
            shutil.copy(ROOT / entry, copy)
    command = [sys.executable, "-c", BUILD, str(copy)]
    run = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    with zipfile.ZipFile(copy / run.stdout.splitlines()[-1]) as archive:
        yield archive


def test_the_wheel_has_every_file_on_disk_and_nothing_else(wheel):
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == files_on_disk()


def test_the_wheel_has_types_licence_and_commands(wheel):
    names = wheel.namelist()
    assert "mlirtri/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    commands = next(wheel.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert "mlirtri = mlirtri.cli.entry:main" in commands
    assert "mlirtri-opt = mlirtri.opt.main:main" in commands
    assert "[pytest11]\nmlirtri = mlirtri.testing.pytest_plugin" in commands


def test_every_folder_of_python_files_is_a_package():
    # Discovery passes over a folder without __init__.py: it would import in a checkout and be missing from the wheel.
    folders = {file.parent for folder in PACKAGES.values() for file in folder.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_test_is_inside_a_package():
    # pytest would import it as a member of a top-level `dialect`, a second copy of mlirtri.dialect.
    assert [name for name in files_on_disk() if re.search(r"/(test_\w+|\w+_test|conftest)\.py$", name)] == []


def test_no_module_shadows_a_public_name():
    # Importing mlirtri.compare as a module, wherever that happens, would put the module where mt.compare was.
    import mlirtri

    modules = {file.stem for file in (ROOT / "mlirtri").iterdir()}
    late = set(mlirtri._LAZY) | set(mlirtri._STATIC)
    assert modules & late == set()


def test_the_installed_versions_are_the_pinned_ones():
    pins = [re.match(r"([\w-]+)==([\w.]+)$", line) for line in metadata.requires("mlirtri") or []]
    pinned = {pin[1]: pin[2] for pin in pins if pin}
    assert pinned.keys() == {"apache-tvm", "apache-tvm-ffi", "torch-mlir"}
    assert {name: metadata.version(name) for name in pinned} == pinned


def test_tvm_names_knows_the_pinned_versions():
    from mlirtri.lowering.toolchain.tvm_names import PINNED

    requirements = metadata.requires("mlirtri") or []
    assert {f"{name}=={known[0]}" for name, known in PINNED.items()} <= set(requirements)


def test_the_changelog_speaks_of_this_version():
    pyproject = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"$', pyproject, re.MULTILINE)[1]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def imports_of(file: Path) -> set[str]:
    """The mlirtri modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "mlirtri":
            found |= {f"mlirtri.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if name.startswith("mlirtri")}


@pytest.mark.parametrize(
    ("folder", "below"),
    [
        ("dialect", ("mlirtri.errors", "mlirtri.settings", "mlirtri.dialect")),
        ("lowering", ("mlirtri.errors", "mlirtri.settings", "mlirtri.dialect", "mlirtri.lowering")),
    ],
)
def test_imports_point_one_way(folder, below):
    upward = {(file.name, name) for file in (ROOT / folder).rglob("*.py") for name in imports_of(file)
              if not name.startswith(below)}  # fmt: skip
    assert upward == set()


def test_errors_and_settings_import_nothing_above_them():
    assert imports_of(ROOT / "mlirtri" / "errors.py") == set()
    assert imports_of(ROOT / "mlirtri" / "settings.py") == {"mlirtri.errors"}
