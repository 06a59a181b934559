"""Contract arrays with labelled axes, for `einsum`, `tensordot` and `inner`.

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
from mlirtri.dialect.spellings.base.spelling import Builder, Value

Labels = tuple[Hashable, ...]
OPS = "matmul multiply sum any transpose reshape cut cast"


@dataclass(frozen=True)
class Term:
    """An array and a label for each of its axes."""

    value: Any
    labels: Labels


def contracted(b: Builder, terms: Sequence[Term], output: Labels) -> Value:
    """Return the product of the terms, summed over all labels that `output` lacks; all have one dtype."""
    sizes = _sizes(b, terms)
    terms = [_without_repeats(b, _without_ones(b, term, sizes)) for term in terms]
    while len(terms) > 1:
        first, second = min(combinations(range(len(terms)), 2), key=lambda pair: _cost(terms, pair, output, sizes))
        others = [term for index, term in enumerate(terms) if index not in (first, second)]
        output_labels = set(output).union(*(term.labels for term in others))
        terms = [_pair(b, terms[first], terms[second], output_labels), *others]
    last = _summed(b, terms[0], set(output))
    return b.transpose(last.value, tuple(last.labels.index(label) for label in output))


def _sizes(b: Builder, terms: Sequence[Term]) -> dict[Hashable, Value]:
    sizes: dict[Hashable, Any] = {}
    for term in terms:
        for label, size in zip(term.labels, helpers.shape_of(b, term.value), strict=True):
            previous = sizes.setdefault(label, size)
            if previous == 1:
                sizes[label] = size
            elif size not in (1, previous):
                b.fail(f"the axes labelled {label!r} have the sizes {previous} and {size}")
    return sizes


def _cost(terms: Sequence[Term], pair: tuple[int, int], output: Labels, sizes: dict[Hashable, Any]) -> Any:
    """Return the cost of a pair: its result size. Pairs without a shared label come last; run-time sizes count 1024."""
    first, second = (terms[index] for index in pair)
    others = [term.labels for index, term in enumerate(terms) if index not in pair]
    output_labels = set(output).union(*others)
    result_sizes = [sizes[label] for label in {*first.labels, *second.labels} & output_labels]
    size = prod(axis_size if isinstance(axis_size, int) else 1024 for axis_size in result_sizes)
    return not set(first.labels) & set(second.labels), size, pair


def _without_ones(b: Builder, term: Term, sizes: dict[Hashable, Value]) -> Term:
    """Return the term without axes of size 1 that are broadcast."""
    shape = helpers.shape_of(b, term.value)
    axes = [axis for axis, label in enumerate(term.labels) if shape[axis] != 1 or sizes[label] == 1]
    if len(axes) == len(shape):
        return term
    return Term(b.reshape(term.value, tuple(shape[axis] for axis in axes)), tuple(term.labels[axis] for axis in axes))


def _without_repeats(b: Builder, term: Term) -> Term:
    """Return the term with the diagonal of axes of the same label."""
    for label in term.labels:
        if term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            value = helpers.diagonal(b, helpers.moved(b, term.value, (first, second), (-2, -1)), 0)
            labels = [other for axis, other in enumerate(term.labels) if axis not in (first, second)]
            return _without_repeats(b, Term(value, (*labels, label)))
    return term


def _summed(b: Builder, term: Term, output_labels: set[Hashable]) -> Term:
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in output_labels)
    if not axes:
        return term
    dtype = b.type_of(term.value).dtype
    value = b.any(term.value, axis=axes) if dtype.is_bool else b.sum(term.value, axis=axes, dtype=dtype)
    return Term(value, tuple(label for label in term.labels if label in output_labels))


def _pair(b: Builder, x: Term, y: Term, output_labels: set[Hashable]) -> Term:
    """Return the product of two terms, summed over the shared labels that are not `output_labels`."""
    x, y = _summed(b, x, output_labels | set(y.labels)), _summed(b, y, output_labels | set(x.labels))
    shared = [label for label in x.labels if label in y.labels]
    batch = [label for label in shared if label in output_labels]
    inner = [label for label in shared if label not in output_labels]
    left = [label for label in x.labels if label not in shared]
    right = [label for label in y.labels if label not in shared]
    labels = (*batch, *left, *right)
    if not inner:
        return Term(b.multiply(_with_axes(b, x, labels), _with_axes(b, y, labels)), labels)
    sizes = dict(zip((*x.labels, *y.labels), helpers.shape_of(b, x.value) + helpers.shape_of(b, y.value), strict=True))
    product = b.matmul(_matrices(b, x, (batch, left, inner)), _matrices(b, y, (batch, inner, right)))
    return Term(b.reshape(product, tuple(sizes[label] for label in labels)), labels)


def _with_axes(b: Builder, term: Term, labels: Labels) -> Value:
    """Return the term with its axes in the order of `labels`, with size 1 for those it lacks."""
    term_labels = [label for label in labels if label in term.labels]
    value = b.transpose(term.value, tuple(term.labels.index(label) for label in term_labels))
    sizes = dict(zip(term_labels, helpers.shape_of(b, value), strict=True))
    return b.reshape(value, tuple(sizes.get(label, 1) for label in labels))


def _matrices(b: Builder, term: Term, groups: tuple[list[Hashable], ...]) -> Value:
    """Return the term with one axis per group of labels; without the first one where that is empty."""
    order = [label for group in groups for label in group]
    value = b.transpose(term.value, tuple(term.labels.index(label) for label in order))
    sizes = dict(zip(order, helpers.shape_of(b, value), strict=True))
    groups = groups if groups[0] else groups[1:]
    shape = [sizes[group[0]] if len(group) == 1 else prod(sizes[label] for label in group) for group in groups]
    return b.reshape(value, tuple(shape))
