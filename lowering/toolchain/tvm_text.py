"""Print TVMScript, to read or to resume from, and parse it.

`print_readable` leaves out binding locations and metadata. `parse` reads either text, and drops the source spans that
TVM's parser sets, which would show in metadata and debug information.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import count
from typing import Any

from mlirtri.errors import ParseError, Span
from mlirtri.lowering.toolchain.tvm_names import (
    SCRIPT_NAMES,
    IRModule,
    PrimFunc,
    from_source,
    ir,
    relax,
    script_of,
    structural_walk,
    tirx,
    with_values,
)
from mlirtri.lowering.toolchain.tvm_passes import module_text, respelled, short_message

_SPANS = ("ir.Span", "ir.SequentialSpan", "ir.SourceName")


def print_readable(mod: IRModule) -> str:
    """Return TVMScript without the location table of the Relax function."""
    return module_text(mod)


def print_complete(mod: IRModule) -> str:
    """Return TVMScript with metadata, which `parse` reads back to a structurally equal module."""
    return respelled(script_of(mod, show_meta=True))


def parse(text: str, file: str) -> IRModule:
    """Return the module of a TVMScript text; raises `ParseError` at its line. TVM reads it as Python: trust it."""
    try:
        # The parser's own check of form is stricter than what TVM's schedules make: inlining repeats a `T.Let`.
        mod = from_source(respelled(text), dict(SCRIPT_NAMES), check_well_formed=False)
        if isinstance(mod, IRModule):
            relax.analysis.well_formed(mod)
    except Exception as error:
        raise _parse_error(error, file) from None
    if not isinstance(mod, IRModule):
        raise ParseError(
            "this TVMScript is a function, not a module", Span(file, 1, 1), help="put it in an @I.ir_module"
        )
    return without_spans(mod)


def without_spans(mod: IRModule) -> IRModule:
    """Return `mod` without source spans. They are nodes of their own in TVM's JSON."""
    graph = json.loads(ir.save_json(mod))
    graph["nodes"] = [{"type": "None"} if node["type"] in _SPANS else node for node in graph["nodes"]]
    return ir.load_json(json.dumps(graph))


def with_names_as_printed(mod: IRModule) -> IRModule:
    """Return `mod` where buffers, loops in loops and `T.Let`s of a function have variables and names of their own.

    Schedules repeat names, and inlining repeats a `T.Let` with its variable. The text tells them apart by numbers, so
    names (which generated code shows) would change by being read back.
    """
    changed = {}
    for callee, function in mod.functions_items():
        if isinstance(function, PrimFunc) and _has_repeated_names(function):
            single = tirx.transform.ConvertSSA()(IRModule({callee: function}))[callee]
            changed[callee] = _renamed(single)
    if not changed:
        return mod
    return IRModule({**dict(mod.functions_items()), **changed}, attrs=mod.attrs, global_infos=mod.global_infos)


def _named(function: PrimFunc) -> list[Any]:
    """Return the variables of the body's lets, once for each, and its buffers, once, in order."""
    lets: list[Any] = []
    structural_walk(function.body, (tirx.Let, lets.append), order="pre")
    buffers = [variable for variable in _variables_of(function) if isinstance(variable.ty, tirx.BufferType)]
    return [*buffers, *(let.var for let in lets)]


def _variables_of(function: PrimFunc) -> list[Any]:
    """Return the function's variables, buffers included, once for each, in order."""
    variables: dict[int, Any] = {}

    def note(variable: Any) -> None:
        variables.setdefault(variable.__chandle__(), variable)

    structural_walk(function, (tirx.Var, note), order="pre")
    return [*variables.values()]


def _has_repeated_names(function: PrimFunc) -> bool:
    names = [variable.name for variable in _named(function)]
    return len(names) != len(set(names)) or bool(_shadowing(function))


def _shadowing(function: PrimFunc) -> dict[Any, None]:
    """Return the variables of loops in loops of the same name, in order."""
    loops: list[Any] = []
    structural_walk(function.body, (tirx.For, loops.append), order="pre")
    counts = Counter(loop.loop_var.name for loop in loops)
    inner: dict[Any, None] = {}
    for loop in loops:
        name = loop.loop_var.name
        # Large loops have names of their own, so that only small bodies are walked again.
        if counts[name] > 1:
            others: list[Any] = []
            structural_walk(loop.body, (tirx.For, others.append), order="pre")
            inner.update(dict.fromkeys(other.loop_var for other in others if other.loop_var.name == name))
    return inner


def _renamed(function: PrimFunc) -> PrimFunc:
    used = {variable.name for variable in _variables_of(function)}
    defined: set[str] = set()
    new: dict[Any, Any] = {}
    shadowing = _shadowing(function)
    for variable in [*_named(function), *shadowing]:
        name = variable.name
        if name in defined or variable in shadowing:
            number = next(n for n in count(1) if f"{name}_{n}" not in used)
            new[variable] = tirx.Var(f"{name}_{number}", variable.ty)
            used.add(new[variable].name)
        defined.add(name)
    body = with_values(function.body, new)
    parameters = [new.get(parameter, parameter) for parameter in function.params]
    return PrimFunc(parameters, body, function.ret_type, function.attrs, function.span)


def _parse_error(error: Exception, file: str) -> ParseError:
    if isinstance(error, SyntaxError):
        return ParseError(f"this is not TVMScript: {error.msg}", Span(file, error.lineno or 1, error.offset or 1))
    message = short_message(error)
    reason = message.partition("\n")[0].removeprefix("error: ")
    match = re.search(r"^ *--> .*:(\d+):(\d+)$", message, re.MULTILINE)
    span = Span(file, int(match.group(1)), int(match.group(2))) if match else Span(file, 1, 1)
    return ParseError(f"this is not TVMScript: {reason}", span)
