"""Masks select without gathering where what is computed of the selected elements allows it."""

from __future__ import annotations

import numpy as np
import pytest
from imperative_tri import FLOAT64, MASK, PIPELINES, RANDOM, V, X, linalg_and_fused, run
from tolerances import within


def _squares(t, z, c, mask):
    selected = t.compress(z, mask)
    made = t.add(t.multiply(selected, selected), t.multiply(t.compress(c, mask), t.constant(3, FLOAT64)))
    return t.place(z, mask, made)


def _mean(t, z, c, mask):
    return t.mean(t.exp(t.compress(z, mask)), axes=(0,), keepdims=False)


def _variance(t, z, c, mask):
    return t.var(t.compress(z, mask), axes=(0,), keepdims=True, correction=1)


def _extremes(t, z, c, mask):
    selected = t.compress(z, mask)
    largest = t.max(selected, axes=(0,), keepdims=False)
    any_large = t.any(t.greater(selected, t.constant(0.5, FLOAT64)), axes=(0,), keepdims=False)
    return largest, any_large, t.size(selected, axis=0)


MASKED = {
    "squares": (_squares, lambda z, c, m: np.where(m, z * z + c * 3, z)),
    "mean": (_mean, lambda z, c, m: np.exp(z[m]).mean()),
    "variance": (_variance, lambda z, c, m: z[m].var(ddof=1, keepdims=True)),
    "extremes": (_extremes, lambda z, c, m: (z[m].max(), (z[m] > 0.5).any(), m.sum())),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", MASKED)
def test_what_is_computed_of_selected_elements_selects_in_the_end(tmp_path, pipeline, name):
    body, reference = MASKED[name]
    c = RANDOM.random(X.shape)
    found, wanted = run(tmp_path, pipeline, [X, c, MASK], body), reference(X, c, MASK)
    for mine, other in zip(np.atleast_1d(found), np.atleast_1d(wanted), strict=True):
        np.testing.assert_allclose(mine, other, **within("float64", 32))
    assert "scf.for" not in linalg_and_fused([X, c, MASK], body)[0]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_masks_select_rows(tmp_path, pipeline):
    rows, weights = MASK[:, 1], V[:1] * np.arange(6)

    def body(t, x, mask, weights):
        selected = t.multiply(t.compress(x, mask), weights)
        new = t.place(x, mask, selected)
        return new, t.sum(selected, axes=(0,), keepdims=True), t.sum(selected, axes=(0, 1), keepdims=False)

    found = run(tmp_path, pipeline, [X, rows, weights], body)
    wanted = X.copy()
    wanted[rows] = X[rows] * weights
    for mine, other in zip(found, (wanted, (X[rows] * weights).sum(0, keepdims=True), (X[rows] * weights).sum()),
                           strict=True):  # fmt: skip
        np.testing.assert_allclose(mine, other, **within("float64", 32))
    assert "scf.for" not in linalg_and_fused([X, rows, weights], body)[0]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_masks_that_differ_and_positions_select_first(tmp_path, pipeline):
    other = np.roll(MASK.ravel(), 3).reshape(MASK.shape)

    def body(t, x, mask, other):
        selected = t.compress(x, mask)
        return t.place(x, other, selected), t.argmax(selected, axes=(0,), keepdims=False)

    wanted = X.copy()
    wanted[other] = X[MASK]
    found, position = run(tmp_path, pipeline, [X, MASK, other], body)
    assert np.array_equal(found, wanted)
    assert position == X[MASK].argmax()
