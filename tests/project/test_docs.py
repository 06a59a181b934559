"""The pages of `docs/` and CONTRIBUTING.md name files that exist, and the architecture names every stage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dialect", "lowering", "mlirtri", "tests", "benchmarks", "examples", "lit_tests")
MAP = (ROOT / "docs" / "architecture.md").read_text()


def named_in(text: str) -> set[str]:
    """Python files named in code quotes."""
    return set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/notes.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page):
    named = named_in((ROOT / page).read_text())
    on_disk = {file.relative_to(ROOT).as_posix() for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
    assert {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in on_disk)} == set()


def test_the_map_has_every_stage_in_its_table():
    from mlirtri.lowering.pipelines import PIPELINE_STAGES, TARGET_STAGES

    stages = {stage.name for stages in (*PIPELINE_STAGES.values(), *TARGET_STAGES.values()) for stage in stages}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .+ \| .+ \|$", MAP, re.MULTILINE)
    assert stages <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}
