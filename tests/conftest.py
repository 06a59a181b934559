"""Fixtures that several test files ask for."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def random():
    """Random numbers, the same ones in every test."""
    return np.random.default_rng(0)
