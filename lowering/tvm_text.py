"""TVMScript to read and TVMScript to resume from.

`print_readable` leaves out what is there for tools: binding locations and metadata. `print_complete` keeps all.
"""

from __future__ import annotations

from mlirtri.errors import ParseError, Span
from mlirtri.lowering.tvm_names import IRModule, from_source, relax, tvm
from mlirtri.lowering.tvm_passes import BINDING_LOCATIONS, short_message


def print_readable(mod: IRModule) -> str:
    """TVMScript without the location table of the Relax function."""
    shown = IRModule(dict(mod.functions_items()), attrs=mod.attrs)
    for name, function in mod.functions_items():
        if isinstance(function, relax.Function) and function.attrs and BINDING_LOCATIONS in function.attrs:
            shown.update_func(name, function.without_attr(BINDING_LOCATIONS))
    return shown.script()


def print_complete(mod: IRModule) -> str:
    """TVMScript with metadata: what `parse` reads back to a structurally equal module."""
    return mod.script(show_meta=True)


def parse(text: str, file: str) -> IRModule:
    """The module of a TVMScript text; raises `ParseError`. The text is Python to TVM's parser, so it is trusted."""
    from tvm.script import ir as I  # noqa: N812 - the name that TVMScript uses
    from tvm.script import relax as R  # noqa: N812
    from tvm.script import tirx as T  # noqa: N812

    try:
        return from_source(text, {"tvm": tvm, "I": I, "R": R, "T": T, "float": float})
    except Exception as error:
        raise ParseError(f"this is not TVMScript: {short_message(error)}", Span(file, 1, 1)) from None


