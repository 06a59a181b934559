"""Combinations of values to test: some of them always, and the rest in the slow target."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def in_turn(*axes: Iterable[Any], of: int = 1) -> list[Any]:
    """Return all combinations of the axes' values for `parametrize`, most of them marked slow.

    Each combination of values of all axes but the last runs with `of` values of the last one, a different one in turn.
    The other axes are thus covered whole, and the last one wherever they have as many values.
    """
    *others, last = (list(axis) for axis in axes)
    chosen = []
    for number, values in enumerate(itertools.product(*others)):
        runs = {(number + step) % len(last) for step in range(of)}
        chosen += [
            pytest.param(*values, value, marks=[pytest.mark.slow] * (position not in runs))
            for position, value in enumerate(last)
        ]
    return chosen
