"""Masks among indices: reads, whose sizes only a run knows, and writes."""

from __future__ import annotations

import torch

from torch_cases.makers import b, f


def _filled(x):
    z = x.clone()
    z[z > 0.5] = 0
    return z


def _filled_columns(x, m):
    z = x.clone()
    z[:, m] = 7
    return z


def _row_in_rows(x, m, y):
    z = x.clone()
    z[m] = y
    return z


def _beside_a_number(x, m):
    z = x.clone()
    z[m, 1] = 7
    return z


def _doubled(x, y):
    z = x.clone()
    z[z > 0] = y[z > 0] * 2
    return z


def _increased(x):
    z = x.clone()
    z[z > 0] += 1
    return z


CASES = [
    ("read", lambda x: x[x > 0.5], lambda: (f(3, 4),)),
    ("read none", lambda x: x[x > 50], lambda: (f(3, 4),)),
    ("read rows", lambda x, m: x[m], lambda: (f(5, 4), b(5))),
    ("read columns", lambda x, m: x[:, m], lambda: (f(5, 4, 2), b(4))),
    ("read pairs of axes", lambda x, m: x[:, m], lambda: (f(2, 5, 4), b(5, 4))),
    ("read beside a number", lambda x, m: x[m, 1], lambda: (f(5, 4), b(5))),
    ("read what is computed on", lambda x: (x[x > 0] * 2).sum() + x[x > 0].mean(), lambda: (f(3, 4),)),
    ("selected", lambda x, m: torch.masked_select(x, m), lambda: (f(3, 4), b(4))),
    ("filled", _filled, lambda: (f(3, 4),)),
    ("filled columns", _filled_columns, lambda: (f(3, 4, 2), b(4))),
    ("filled beside a number", _beside_a_number, lambda: (f(5, 4), b(5))),
    ("row in rows", _row_in_rows, lambda: (f(5, 4), b(5), f(4))),
    ("doubled", _doubled, lambda: (f(3, 4), f(3, 4))),
    ("increased", _increased, lambda: (f(3, 4),)),
    ("added", lambda x, m: x.index_put((m,), torch.tensor(2.0), accumulate=True), lambda: (f(5, 4), b(5))),
]
