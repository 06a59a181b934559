"""README.md and the pages of `docs/` do what they say: Python runs, commands print what is shown, links lead somewhere.

The blocks of a page are one story: a Python block whose first line is ``# name.py`` is a file for those after it.
In what a block of output shows, ``…`` stands for anything. Blocks of `sh` name targets of make.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from warm_processes import run_warm

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
WRITTEN = ("README.md", "CONTRIBUTING.md", *(f"docs/{file.relative_to(ROOT / 'docs')}" for file in
           sorted((ROOT / "docs").rglob("*.md"))))  # fmt: skip
"""Every page, those that are generated included."""


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str
    line: int


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page that name a language."""
    text = (ROOT / page).read_text()
    matches = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, match[1], match[2], text[: match.start()].count("\n") + 1) for match in matches]


BLOCKS = {page: blocks_of(page) for page in WRITTEN}
STORIES = [page for page, blocks in BLOCKS.items() if any(each.language in ("python", "console") for each in blocks)]
SLOW = {"docs/tutorials/compare.md", "docs/tutorials/look.md", "docs/tutorials/test.md"}
"""Stories of commands that docs/compare.md, look.md and lit-tests.md have, too, and that compile kernels for each."""


def assert_shown(shown: str, found: str, block: Block) -> None:
    """`found` has the lines of `shown`. Spaces count as one; in a table of measurements all numbers are alike."""
    if "compile ms" in shown:
        shown, found = without_numbers(shown), without_numbers(found)
    squeezed = " ".join(found.split())
    pattern = ".*?".join(re.escape(" ".join(part.split())) for part in shown.split("…"))
    assert re.search(pattern, squeezed, re.DOTALL), f"{block.page}:{block.line} shows\n{shown}\nand this came\n{found}"


def without_numbers(table: str) -> str:
    return re.sub(r"0 (ns|µs|ms|s)\b", "0 s", re.sub(r"\d[\d.]*(e-?\d+)?", "0", table))


def run_python(folder: Path, block: Block) -> str:
    """What the block prints; it is also the file that its first line names."""
    named = re.match(r"# (\w+\.py)\n", block.text)
    file = folder / (named[1] if named else f"line_{block.line}.py")
    file.write_text(block.text)
    run = run_warm([str(file)], folder, {})
    assert run.returncode == 0, f"{block.page}:{block.line}\n{run.stderr}"
    return run.stdout


def run_command(folder: Path, command: str) -> subprocess.CompletedProcess:
    """What a shell does with a line; variables and then `mlirtri` is all that most lines have."""
    words = shlex.split(command)
    variables = dict(
        word.split("=", 1) for word in itertools.takewhile(lambda word: re.match(r"[A-Z_]+=", word), words)
    )
    if words[len(variables)] == "mlirtri" and not re.search(r"[|><;&$*]", command):
        return run_warm(words[len(variables) :], folder, {"COLUMNS": "200", **variables})
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "200"}
    shell = ["bash", "-c", f"set -o pipefail; {command}"]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run_console(folder: Path, block: Block) -> None:
    """Run each line after a ``$`` and compare what it prints with the lines below."""
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        run = run_command(folder, command)
        is_error = "error:" in shown
        assert run.returncode == int(is_error), f"{command}\n{run.stderr}"
        has_output = not is_error and " > " not in command
        assert (run.stdout != "") == has_output, "IR and results go to stdout, errors to stderr"
        assert_shown(shown, run.stderr if is_error else run.stdout, block)


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW)) for page in STORIES])
def test_the_blocks_of_a_page_do_what_they_show(page, tmp_path):
    printed = ""
    for block in BLOCKS[page]:
        if block.language == "python":
            printed = run_python(tmp_path, block)
        elif block.language == "mlir":
            assert_shown(block.text, printed, block)
        elif block.language == "console":
            run_console(tmp_path, block)


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shell = "".join(block.text for blocks in BLOCKS.values() for block in blocks if block.language == "sh")
    named = set(re.findall(r"\bmake ([a-z-]+)", shell))
    assert {"demo", "test", "check", "bench", "docs"} <= named <= targets


@pytest.mark.parametrize("page", WRITTEN)
def test_links_and_named_files_exist(page):
    file = ROOT / page
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", file.read_text())
    missing = [link for link in links if not (file.parent / link).exists()]
    assert missing == []


def test_settings_named_in_the_pages_exist():
    from mlirtri.settings import SETTINGS

    for page in WRITTEN:
        named = {name for name in re.findall(r"MLIRTRI_\w+", (ROOT / page).read_text()) if not name.endswith("_")}
        assert named - SETTINGS.keys() == set(), page


def test_the_page_of_settings_has_every_variable():
    from mlirtri.settings import SETTINGS

    page = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `(MLIRTRI_\w+)` \| (.+?) \| (.+) \|$", page, re.MULTILINE)
    assert rows == [
        (name, "-" if setting.default is None else str(setting.default), setting.meaning)
        for name, setting in SETTINGS.items()
    ]


def test_pipelines_are_as_the_table_says():
    from mlirtri.lowering.core.target import as_target
    from mlirtri.lowering.pipelines import pipeline_for

    rows = dict(re.findall(r"^\| `(\w+)` \| (ast → [a-z →]+) \|", README, re.MULTILINE))
    assert {name: tuple(stages.split(" → ")) for name, stages in rows.items()} == {
        name: pipeline_for(name, as_target("cpu")).names for name in ("linalg", "relax", "mlir")
    }
