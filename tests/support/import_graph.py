"""Which package imports which, read from the source: late, TYPE_CHECKING and string imports included."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"mlirtri": "mlirtri", "dialect": "mlirtri.dialect", "lowering": "mlirtri.lowering"}
DOTTED = re.compile(r"mlirtri(?:\.\w+){2,}")
"""A module path inside of a string. Attributes of ours such as ``mlirtri.updates`` have one dot less."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Return the file of every module below `root`, by the name under which it installs."""
    files = {}
    for folder, package in FOLDERS.items():
        for file in sorted((root / folder).rglob("*.py")):
            parts = file.relative_to(root / folder).with_suffix("").parts
            files[".".join((package, *parts)).removesuffix(".__init__")] = file
    return files


def package_of(module: str, files: dict[str, Path]) -> str:
    """Return the package of a module, without ``mlirtri.``; a file right in `mlirtri` or `lowering` is its own."""
    if files[module].name == "__init__.py":
        return module.removeprefix("mlirtri.")
    package, _, name = module.rpartition(".")
    return f"{package}.{name}".removeprefix("mlirtri.") if package in ("mlirtri", "mlirtri.lowering") else package[8:]


def imported(source: str, files: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every module of ours that a source text imports or names in a string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mlirtri"):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [path if path in files else node.module for path in paths]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [each for each in DOTTED.findall(node.value) if each in files and files[each].name != "__init__.py"]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name in files)


def edges(root: Path = ROOT) -> dict[tuple[str, str], list[str]]:
    """Return, for each pair of packages of which the first imports the second, the lines that do, as ``file:line``."""
    files, by_package = modules(root), defaultdict(list)
    for module, file in files.items():
        above = package_of(module, files)
        for line, name in imported(file.read_text(), files):
            below = package_of(name, files)
            if below != above:
                by_package[above, below].append(f"{file.relative_to(root)}:{line}")
    return dict(by_package)
