"""Contractions of arrays with labelled axes, for `einsum`, `tensordot` and `inner`.

Two arrays at a time become one matrix product, or a broadcast multiplication where nothing is summed. The pair with
the smallest result is contracted first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Builder

Labels = tuple[Hashable, ...]
OPS = "matmul multiply sum any transpose reshape cut cast"


@dataclass(frozen=True)
class Term:
    """An array and a label for each of its axes."""

    value: Any
    labels: Labels


def contracted(b: Builder, terms: Sequence[Term], output: Labels) -> Any:
    """Return the product of the terms, summed over all labels that `output` lacks; all have one dtype."""
    sizes = _sizes(b, terms)
    terms = [_without_repeats(b, _without_ones(b, term, sizes)) for term in terms]
    while len(terms) > 1:
        first, second = min(combinations(range(len(terms)), 2), key=lambda pair: _cost(terms, pair, output, sizes))
        others = [term for at, term in enumerate(terms) if at not in (first, second)]
        kept = set(output).union(*(term.labels for term in others))
        terms = [_pair(b, terms[first], terms[second], kept), *others]
    last = _summed(b, terms[0], set(output))
    return b.transpose(last.value, tuple(last.labels.index(label) for label in output))


def _sizes(b: Builder, terms: Sequence[Term]) -> dict[Hashable, Any]:
    sizes: dict[Hashable, Any] = {}
    for term in terms:
        for label, size in zip(term.labels, helpers.shape_of(b, term.value), strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                b.fail(f"the axes labelled {label!r} have the sizes {known} and {size}")
    return sizes


def _cost(terms: Sequence[Term], pair: tuple[int, int], output: Labels, sizes: dict[Hashable, Any]) -> Any:
    """Return the cost of a pair: its result size. Pairs without a shared label come last; run-time sizes count 1024."""
    first, second = (terms[at] for at in pair)
    others = [term.labels for at, term in enumerate(terms) if at not in pair]
    kept = set(output).union(*others)
    known = [sizes[label] for label in {*first.labels, *second.labels} & kept]
    size = prod(each if isinstance(each, int) else 1024 for each in known)
    return not set(first.labels) & set(second.labels), size, pair


def _without_ones(b: Builder, term: Term, sizes: dict[Hashable, Any]) -> Term:
    """Return the term without axes of size 1 that are broadcast."""
    shape = helpers.shape_of(b, term.value)
    kept = [at for at, label in enumerate(term.labels) if shape[at] != 1 or sizes[label] == 1]
    if len(kept) == len(shape):
        return term
    return Term(b.reshape(term.value, tuple(shape[at] for at in kept)), tuple(term.labels[at] for at in kept))


def _without_repeats(b: Builder, term: Term) -> Term:
    """Return the term with the diagonal of axes of the same label."""
    for label in term.labels:
        if term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            value = helpers.diagonal(b, helpers.moved(b, term.value, (first, second), (-2, -1)), 0)
            rest = [each for at, each in enumerate(term.labels) if at not in (first, second)]
            return _without_repeats(b, Term(value, (*rest, label)))
    return term


def _summed(b: Builder, term: Term, kept: set[Hashable]) -> Term:
    axes = tuple(at for at, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    dtype = b.type_of(term.value).dtype
    value = b.any(term.value, axis=axes) if dtype.is_bool else b.sum(term.value, axis=axes, dtype=dtype)
    return Term(value, tuple(label for label in term.labels if label in kept))


def _pair(b: Builder, x: Term, y: Term, kept: set[Hashable]) -> Term:
    """Return the product of two terms, summed over the shared labels that are not `kept`."""
    x, y = _summed(b, x, kept | set(y.labels)), _summed(b, y, kept | set(x.labels))
    shared = [label for label in x.labels if label in y.labels]
    batch = [label for label in shared if label in kept]
    inner = [label for label in shared if label not in kept]
    left = [label for label in x.labels if label not in shared]
    right = [label for label in y.labels if label not in shared]
    labels = (*batch, *left, *right)
    if not inner:
        return Term(b.multiply(_spread(b, x, labels), _spread(b, y, labels)), labels)
    sizes = dict(zip((*x.labels, *y.labels), helpers.shape_of(b, x.value) + helpers.shape_of(b, y.value), strict=True))
    product = b.matmul(_matrices(b, x, (batch, left, inner)), _matrices(b, y, (batch, inner, right)))
    return Term(b.reshape(product, tuple(sizes[label] for label in labels)), labels)


def _spread(b: Builder, term: Term, labels: Labels) -> Any:
    """Return the term with its axes in the order of `labels`, with size 1 for those it lacks."""
    own = [label for label in labels if label in term.labels]
    value = b.transpose(term.value, tuple(term.labels.index(label) for label in own))
    sizes = dict(zip(own, helpers.shape_of(b, value), strict=True))
    return b.reshape(value, tuple(sizes.get(label, 1) for label in labels))


def _matrices(b: Builder, term: Term, groups: tuple[list[Hashable], ...]) -> Any:
    """Return the term with one axis per group of labels; without the first one where that is empty."""
    order = [label for group in groups for label in group]
    value = b.transpose(term.value, tuple(term.labels.index(label) for label in order))
    sizes = dict(zip(order, helpers.shape_of(b, value), strict=True))
    groups = groups if groups[0] else groups[1:]
    shape = [sizes[group[0]] if len(group) == 1 else prod(sizes[label] for label in group) for group in groups]
    return b.reshape(value, tuple(shape))
