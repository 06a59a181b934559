"""The pages of `docs/` and CONTRIBUTING.md name files that exist, and the map names every file that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "docs" / "architecture.md").read_text()


def rooms() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "lowering").glob("*_to_*.py"))


def named_in(text: str) -> set[str]:
    """Python files named in code quotes."""
    return set(re.findall(r"`((?:\w+/)?\w+\.py)`", text))


def test_every_room_on_disk_is_on_the_map():
    from mlirtri.lowering.pipelines import STAGES

    rows = re.findall(r"^\| `(lowering/\w+\.py)` \|", MAP, re.MULTILINE)
    used = {f"lowering/{stage.run.name}.py" for stages in STAGES.values() for stage in stages}
    assert used <= set(rows)
    assert set(rows) <= set(rooms())


@pytest.mark.parametrize("folder", ["dialect", "lowering", "mlirtri"])
def test_every_file_on_disk_is_on_the_map(folder):
    names = {name.rpartition("/")[2] for name in named_in(MAP)}
    patterns = {pattern.replace("*", r"\w+") for pattern in re.findall(r"`(\w+_\*\.py)`", MAP)}
    on_disk = {path.name for path in (ROOT / folder).glob("*.py")} - {"__init__.py"}
    missing = {name for name in on_disk - names if not any(re.fullmatch(pattern, name) for pattern in patterns)}
    assert missing == set(), "put them on the map in docs/architecture.md"


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/notes.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page):
    folders = [ROOT, ROOT / "dialect", ROOT / "lowering", ROOT / "mlirtri"]
    named = named_in((ROOT / page).read_text())
    assert named
    assert {name for name in named if not any((folder / name).is_file() for folder in folders)} == set()


def test_the_map_has_every_stage_in_its_table():
    from mlirtri.lowering.pipelines import BACK, STAGES

    stages = {stage.name for stages in (*STAGES.values(), *BACK.values()) for stage in stages}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .+ \| .+ \|$", MAP, re.MULTILINE)
    assert stages <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}
