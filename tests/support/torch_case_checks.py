"""Whether what a kernel gave is what eager gives: structures, dtypes, shapes, and numbers within a tolerance."""

from __future__ import annotations

import torch
from tolerances import within
from torch.utils import _pytree as pytree

LENGTH = 256
"""Terms that the sums of the cases have at most, with what went into them."""


def agrees(results, expected) -> str | None:
    """What is different, or None."""
    found_leaves, found_tree = pytree.tree_flatten(results)
    wanted_leaves, wanted_tree = pytree.tree_flatten(expected)
    if found_tree != wanted_tree and _plain(found_tree) != _plain(wanted_tree):
        return f"structure {found_tree}, wanted {wanted_tree}"
    for a, b in zip(found_leaves, wanted_leaves, strict=True):
        problem = _agrees(a, b)
        if problem is not None:
            return problem
    return None


def _plain(tree) -> str:
    """torch.export makes tuples of the named tuples that torch.max and others return."""
    return str(tree).split("leaves")[0] if tree.is_leaf() else f"{tree.num_leaves}"


def _agrees(a, b) -> str | None:
    if not isinstance(b, torch.Tensor):
        return None if type(a) is type(b) and a == b else f"{a!r}, wanted {b!r}"
    if not isinstance(a, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
        shown = f"{a.dtype}{list(a.shape)}" if isinstance(a, torch.Tensor) else repr(a)
        return f"{shown}, wanted {b.dtype}{list(b.shape)}"
    try:
        torch.testing.assert_close(a, b.contiguous(), equal_nan=True, **within(b.dtype, LENGTH))
    except AssertionError as error:
        return " ".join(str(error).split())
    return None
