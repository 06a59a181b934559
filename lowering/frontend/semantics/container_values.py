"""Lists and dicts of a kernel: their structure is known at compile time, and their elements are values of run time.

A name holds the elements that its list has now. A list or dict that the kernel makes has an `Identity` when it is
bound, so that a change reaches every name that holds it, and every tuple, list and dict that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.builder import KernelValue
from mlirtri.lowering.core.interface import like, parts_of


@dataclass(eq=False)
class Identity:
    """Which list or dict a value is; compared by itself."""

    fixed: str | None = None
    """Why it does not change; None for one that may."""


class List(list):
    """A list with an identity."""

    identity: Identity

    def with_parts(self, parts: Iterable[KernelValue]) -> List:
        """Return this list with other elements."""
        return _with_identity(List(parts), self.identity)


class Dict(dict):
    """A dict with an identity."""

    identity: Identity

    def with_parts(self, parts: Iterable[KernelValue]) -> Dict:
        """Return this dict with other elements for its keys."""
        return self.with_items(zip(self, parts, strict=True))

    def with_items(self, items: KernelValue) -> Dict:
        """Return this dict with other keys and elements."""
        return _with_identity(Dict(items), self.identity)


class View(tuple):
    """What `keys`, `values` or `items` of a dict give: the dict's own when it changes."""

    owner: Any
    name: str

    @classmethod
    def of(cls, owner: KernelValue, name: str) -> View:
        """Return the view of a dict by the name of its method."""
        view = cls(getattr(owner, name)())
        view.owner, view.name = owner, name
        return view

    def with_parts(self, parts: Iterable[KernelValue]) -> View:
        """Return this view with other elements."""
        view = View(parts)
        view.owner, view.name = self.owner, self.name
        return view


def _with_identity(container: Any, identity: Identity) -> Any:
    container.identity = identity
    return container


def is_container(value: object) -> bool:
    """Return whether a value has elements that a kernel knows: a tuple, a list or a dict."""
    return isinstance(value, (tuple, list, dict))


def owning(value: KernelValue, parts: Iterable[KernelValue], fixed: str | None = None) -> KernelValue:
    """Return a tuple, list or dict with these elements; a list or dict that has no identity gets one."""
    if not isinstance(value, (list, dict)) or hasattr(value, "identity"):
        return like(value, parts)
    made = List(parts) if isinstance(value, list) else Dict(zip(value, parts, strict=True))
    return _with_identity(made, Identity(fixed))


def from_outside(value: KernelValue, reason: str) -> KernelValue:
    """Return a value of the caller's or of the file, whose lists and dicts do not change, for this reason."""
    if not is_container(value) or isinstance(value, (List, Dict)):
        return value
    parts = [from_outside(part, reason) for part in parts_of(value)]
    is_same = isinstance(value, tuple) and all(new is old for new, old in zip(parts, value, strict=True))
    return value if is_same else owning(value, parts, reason)


def plain(value: KernelValue) -> KernelValue:
    """Return a value with Python's own lists and dicts, as the caller gets them."""
    if not is_container(value):
        return value
    parts = [plain(part) for part in parts_of(value)]
    if isinstance(value, View):
        return tuple(parts)
    if isinstance(value, List):
        return parts
    return dict(zip(value, parts, strict=True)) if isinstance(value, Dict) else like(value, parts)


def containers(value: KernelValue) -> Iterator[List | Dict]:
    """Yield each list and dict of a value that has an identity, outer ones first."""
    if is_container(value):
        if isinstance(value, (List, Dict)):
            yield value
        for part in parts_of(value):
            yield from containers(part)


def identities(value: KernelValue) -> Iterator[Identity]:
    """Yield the identity of each list and dict of a value, outer ones first."""
    return (part.identity for part in containers(value))


def replaced(value: KernelValue, changed: List | Dict) -> KernelValue:
    """Return a value with the elements that the list or dict of an identity has now; itself if it does not hold it."""
    if not is_container(value):
        return value
    if isinstance(value, (List, Dict)) and value.identity is changed.identity:
        return changed
    if isinstance(value, View) and isinstance(value.owner, Dict) and value.owner.identity is changed.identity:
        return View.of(changed, value.name)
    parts = [replaced(part, changed) for part in parts_of(value)]
    if all(new is old for new, old in zip(parts, parts_of(value), strict=True)):
        return value
    return like(value, parts)


def renewed(value: KernelValue, fixed: str | None) -> KernelValue:
    """Return a value whose lists and dicts have new identities: which they are depends on what ran."""
    if not is_container(value):
        return value
    parts = [renewed(part, fixed) for part in parts_of(value)]
    if not isinstance(value, (List, Dict)):
        return like(value, parts)
    return _with_identity(value.with_parts(parts), Identity(fixed))


def alike(x: KernelValue, y: KernelValue) -> bool:
    """Return whether two values have the same structure: the same classes, lengths and keys."""
    if not is_container(x) or not is_container(y):
        return is_container(x) == is_container(y)
    if _kind(x) is not _kind(y) or len(x) != len(y) or (isinstance(x, dict) and list(x) != list(y)):
        return False
    return all(map(alike, parts_of(x), parts_of(y)))


def _kind(value: Any) -> type:
    return next((kind for kind in (list, dict) if isinstance(value, kind)), type(value))
