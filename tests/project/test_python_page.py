"""The page on Python and NumPy in kernels is that of its table, and every test that it names exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlirtri.pages.python_page import AREAS, PAGE, page

TESTS = Path(__file__).parents[1]
ROWS = [row for rows in AREAS.values() for row in rows]


def test_the_page_is_that_of_the_table():
    assert PAGE.read_text() == page(), "run python -m mlirtri.pages.python_page --write"


@pytest.mark.parametrize("row", ROWS, ids=[row.what for row in ROWS])
def test_every_row_names_a_test(row):
    file, _, name = row.test.partition("::")
    assert name in (TESTS / file).read_text()
