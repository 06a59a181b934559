"""What makes the bindings of `linalg` cheap to load: no definitions of named operations in Python.

`torch_mlir.dialects.linalg` evaluates 100 definitions of OpDSL, which takes as long as all other bindings together, for
functions that build named operations; the classes of the operations come from elsewhere. Where somebody asks the module
for one of these functions, they are evaluated then.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import typing
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

_LINALG = "torch_mlir.dialects.linalg"
_DEFINITIONS = f"{_LINALG}.opdsl.ops.core_named_ops"
_OPERATIONS, _ENUMERATIONS = (f"torch_mlir.dialects._linalg_{what}_gen" for what in ("ops", "enum"))
_OWN = ("index", "yield_")
"""Functions that no definition replaces, and that are used here."""


@contextlib.contextmanager
def without_definitions() -> Iterator[None]:
    """Let `linalg` be imported here without its definitions; afterwards it finds them when they are asked for."""
    if _LINALG in sys.modules or _DEFINITIONS in sys.modules:
        yield
        return
    sys.modules[_DEFINITIONS] = stand_in = ModuleType(_DEFINITIONS)
    # The functions of `linalg` itself take these names from there.
    vars(stand_in).update({name: getattr(typing, name) for name in ("List", "Optional", "Sequence", "Union")})
    vars(stand_in)["ir"] = sys.modules["torch_mlir.ir"]
    try:
        yield
    finally:
        del sys.modules[_DEFINITIONS]
    _ask_for_definitions(vars(sys.modules[_LINALG]))


def _ask_for_definitions(linalg: dict[str, Any]) -> None:
    """Remove the generated functions from `linalg`, some of which the definitions replace, until one is asked for."""
    generated = {**vars(sys.modules[_OPERATIONS]), **vars(sys.modules[_ENUMERATIONS])}
    replaced = {name: value for name, value in generated.items() if linalg.get(name) is value and name[0] != "_"}
    for name, value in replaced.items():
        if isinstance(value, FunctionType) and name not in _OWN:
            del linalg[name]

    def definition(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {_LINALG!r} has no attribute {name!r}")
        del linalg["__getattr__"]
        definitions = vars(importlib.import_module(_DEFINITIONS))
        public = {other: value for other, value in definitions.items() if other[0] != "_"}
        complete = {**replaced, **public}
        linalg.update({other: value for other, value in complete.items() if other not in linalg or other in replaced})
        return getattr(sys.modules[_LINALG], name)

    linalg["__getattr__"] = definition
