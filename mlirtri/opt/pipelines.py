"""Parse the passes of a command line of `mlirtri-opt`, upstream's and ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnknownOptionError, offer
from mlirtri.lowering.toolchain.mlir_passes import in_module, parse_pipeline
from mlirtri.opt.options import FLAGS, VALUES, Options, UsageError
from mlirtri.opt.own_passes import OWN, TRANSLATIONS, checked, name_of
from mlirtri.opt.registry import new_context, passes_near

_UNREGISTERED = re.compile(r"'([^']*)' does not refer to a registered pass")


@dataclass(frozen=True)
class Plan:
    """What runs on each module."""

    elements: tuple[str, ...] = ()
    """Texts of passes on modules: upstream's, nested where they need it, and ours."""
    translation: str | None = None
    """The name of what makes the result, which is then no MLIR."""
    dumped_before: frozenset[str] = frozenset()
    """The passes before which the IR is printed."""
    dumped_after: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The passes as ``--pass-pipeline`` takes them."""
        return in_module(",".join([*self.elements, *([self.translation] if self.translation else [])]))


def plan_of(options: Options) -> Plan:
    """Return the passes of a command line; raises `UsageError` for those that do not exist or do not parse."""
    try:
        plan = _plan(options.values.get("pass-pipeline"), options.passes)
        before, after = (_names(options, f"mlir-print-ir-{when}") for when in ("before", "after"))
        return replace(plan, dumped_before=before, dumped_after=after)
    except UnknownOptionError as error:
        raise UsageError(str(error)) from None


def _plan(pipeline: str | None, passes: list[str]) -> Plan:
    context = new_context()
    given = passes if pipeline is None else _elements(pipeline, context)
    translations = [element for element in given if name_of(element) in TRANSLATIONS]
    if translations and (len(translations) > 1 or given[-1] != translations[0]):
        raise UsageError(f"--{translations[0]} gives no MLIR: it comes last")
    for translation in translations:
        checked(translation)
    elements = [_checked(option, context, is_alone=pipeline is None) for option in given if option not in translations]
    return Plan(tuple(elements), translations[0] if translations else None)


def _elements(pipeline: str, context: ir.Context) -> list[str]:
    if not {*re.findall(r"[\w-]+", pipeline)} & {*OWN, *TRANSLATIONS}:
        try:
            parse_pipeline(pipeline, context)
        except UnknownOptionError as error:
            if match := _UNREGISTERED.search(str(error)):
                error.help = f"{offer(passes_near(match[1]))}{error.help}"
                raise UsageError(str(error)) from None
            raise
    return elements_of(pipeline)


def _checked(element: str, context: ir.Context, is_alone: bool) -> str:
    """Return an element that MLIR's parser takes: a pass on the command line is nested as mlir-opt does."""
    if name_of(element) in OWN:
        checked(element)
        return element
    for name in re.findall(r"[\w.-]+", re.sub(r"\{[^{}]*\}", "", element)):
        if name in OWN or name in TRANSLATIONS:
            raise UsageError(f"{name} runs on modules: write it directly inside of builtin.module(…)")
    try:
        parse_pipeline(in_module(element), context)
    except UnknownOptionError as error:
        if is_alone and (match := re.search(r"restricted to '([\w.]+)'", str(error))):
            return f"{match[1]}({element})"
        if _UNREGISTERED.search(str(error)):
            raise UsageError(_unknown(element, is_alone, str(error))) from None
        raise
    return element


def _unknown(element: str, is_alone: bool, error: str) -> str:
    """Return the message on a name that no pass has, with the names nearest to it."""
    match = _UNREGISTERED.search(error)
    name = element.partition("{")[0] if is_alone or match is None else match[1]
    what = f"--{name} is neither an option nor a pass" if is_alone else f"{name!r} is no pass"
    return f"{what}; {offer(passes_near(name, (*FLAGS, *VALUES) if is_alone else ()))}see --help and --list-passes"


def _names(options: Options, option: str) -> frozenset[str]:
    """Return the passes that ``--option=a,b`` names; raises `UsageError` for an unknown one."""
    context = new_context()
    wanted = [name.strip() for name in options.values.get(option, "").split(",") if name.strip()]
    for name in wanted:
        if name in OWN:
            continue
        try:
            parse_pipeline(f"any({name})", context)
        except UnknownOptionError as error:
            if _UNREGISTERED.search(str(error)):
                raise UsageError(f"--{option}: {_unknown(name, False, str(error))}") from None
    return frozenset(wanted)


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
