"""The docstring of each package names its files and subpackages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    file.parent for top in ("dialect", "lowering", "mlirtri") for file in sorted(ROOT.glob(f"{top}/**/__init__.py"))
]


def contents(package: Path) -> set[str]:
    """Return the names of a package's files and subpackages."""
    files = {file.stem for file in package.glob("*.py") if not file.stem.startswith("__")}
    return files | {folder.parent.name for folder in package.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_a_package_names_what_is_in_it(package):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert sorted(contents(package) - set(re.findall(r"\w+", docstring))) == []
