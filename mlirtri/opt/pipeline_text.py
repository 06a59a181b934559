"""The text of a pass pipeline, parsed: ``builtin.module(cse,func.func(sroa{x=1},canonicalize))``."""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.opt.options import UsageError


def elements_of(pipeline: str) -> list[str]:
    """Return the elements directly below ``builtin.module``; raises `UsageError` for another anchor."""
    text = pipeline.strip()
    anchor, bracket, rest = text.partition("(")
    if not bracket or not rest.endswith(")") or anchor.strip() not in ("builtin.module", "any"):
        raise UsageError(f"--pass-pipeline={pipeline!r} has to be builtin.module(…)")
    return list(_split(rest[:-1]))


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that stand in no brackets."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in "({[<") - (character in ")}]>" and text[position - 1] != "-")
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if last := text[start:].strip():
        yield last


def leaves(element: str) -> list[str]:
    """Return the single passes of an element, nested as it was: ``func.func(a)`` and ``func.func(b)``."""
    anchor, bracket, rest = element.partition("(")
    if not bracket or "{" in anchor or not rest.endswith(")"):
        return [element]
    return [f"{anchor}({leaf})" for part in _split(rest[:-1]) for leaf in leaves(part)]


def pass_name(leaf: str) -> str:
    """Return the name of the pass in a leaf, without nesting and options."""
    bare = leaf.partition("{")[0]
    return bare.rpartition("(")[2].rstrip(")").strip()
