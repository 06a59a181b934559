"""The generators of random numbers of these test files start anew in each test."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def _state(request):
    generator = getattr(request.module, "RNG", None)
    return None if generator is None else (generator.bit_generator, generator.bit_generator.state)


@pytest.fixture(autouse=True)
def _same_numbers_in_every_order(_state):
    """What a test draws does not depend on the tests that ran before it."""
    if _state is not None:
        generator, state = _state
        generator.state = state
