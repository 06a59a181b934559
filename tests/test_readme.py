"""README.md does what it says: its Python runs, its commands print what it shows, its links lead somewhere.

A Python block whose first line is ``# name.py`` is also that file, for the blocks after it. In what a block of output
shows, ``…`` stands for anything. Blocks of `sh` are make's and pip's, of which only the targets are checked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks_of(text: str) -> list[Block]:
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2], text[: match.start()].count("\n") + 1) for match in found]


BLOCKS = blocks_of(README)
PYTHON = [block for block in BLOCKS if block.language == "python"]
COMMANDS = [
    (block.line, *re.match(r"\$ ([^\n]*)\n(.*)", part, re.DOTALL).groups())
    for block in BLOCKS
    if block.language == "console"
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)
    if part
]


def assert_shown(shown: str, found: str) -> None:
    """`found` has the lines of `shown`; spaces count as one, since numbers in tables change their width."""
    squeezed = " ".join(found.split())
    pattern = ".*?".join(re.escape(" ".join(part.split())) for part in shown.split("…"))
    # The spaces around a gap may themselves be part of what it stands for.
    assert re.search(pattern, squeezed, re.DOTALL), f"expected\n{shown}\nin\n{found}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the Python blocks have run, in order; with what they printed."""
    folder = tmp_path_factory.mktemp("readme")
    for block in PYTHON:
        if name := re.match(r"# (\w+\.py)\n", block.text):
            (folder / name[1]).write_text(block.text)
    return folder


@pytest.fixture(scope="module")
def printed(folder):
    """What each Python block prints."""
    return [run_block(folder, number, block) for number, block in enumerate(PYTHON)]


def run_block(folder: Path, number: int, block: Block) -> str:
    file = folder / f"block_{number}.py"
    file.write_text(block.text)
    run = subprocess.run([sys.executable, file], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"README.md:{block.line}\n{run.stderr}"
    return run.stdout


def test_python_blocks_run_and_print_what_is_shown(printed):
    first = BLOCKS.index(PYTHON[0])
    shown = [block for block in BLOCKS[first + 1 : first + 3] if block.language == "mlir"]
    assert len(shown) == 2
    for block in shown:
        assert_shown(block.text, printed[0])


@pytest.mark.parametrize(
    ("line", "command", "shown"), COMMANDS, ids=[f"line {line}: {c[:40]}" for line, c, _ in COMMANDS]
)
def test_commands_print_what_is_shown(folder, printed, line, command, shown):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path}
    piped = f"set -o pipefail; {command}"
    run = subprocess.run(
        ["bash", "-c", piped], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    is_error = "error:" in shown
    assert run.returncode == int(is_error), f"README.md:{line}\n{run.stderr}"
    assert_shown(shown, run.stderr if is_error else run.stdout)
    assert (run.stdout == "") == is_error


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", "".join(block.text for block in BLOCKS if block.language == "sh")))
    assert named == {"demo", "test"}
    assert named <= targets


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/notes.md"])
def test_links_and_named_files_exist(page):
    file = ROOT / page
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", file.read_text())
    missing = [link for link in links if not (file.parent / link).exists()]
    assert missing == []


def test_settings_named_in_the_readme_exist():
    from mlirtri.settings import SETTINGS

    assert set(re.findall(r"MLIRTRI_\w+", README)) <= SETTINGS.keys()


def test_pipelines_are_as_the_table_says():
    from mlirtri.lowering.pipelines import pipeline_for
    from mlirtri.lowering.target import as_target

    rows = dict(re.findall(r"^\| `(\w+)` \| ([a-z →]+) \|", README, re.MULTILINE))
    assert {name: tuple(stages.split(" → ")) for name, stages in rows.items()} == {
        name: pipeline_for(name, as_target("cpu")).names for name in ("linalg", "relax", "mlir")
    }


def test_what_is_not_there_is_refused():
    import mlirtri as mt

    with pytest.raises(mt.KernelError, match="meta"):
        mt.jit(schedule="meta")
