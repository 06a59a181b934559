"""Lookup of spellings, by qualified name or by library function.

Imports every file of spellings, and neither torch nor MLIR.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from mlirtri.dialect.spellings.base.spelling import REFUSED, SPELLINGS, Spelling
from mlirtri.errors import nearest

# Importing a file registers its spellings; methods share functions of the libraries before them.
from mlirtri.dialect.spellings.numpy_api import (  # noqa: F401 # isort: skip
    ufuncs, reductions, composed_functions, arrays, shapes, creation, selection, sequences, quantiles, statistical,
    products, linear_algebra, fourier, positions, refused,
)  # fmt: skip
from mlirtri.dialect.spellings.torch_api import (  # noqa: F401 # isort: skip
    elementwise, arrays as torch_arrays, shapes as torch_shapes, sequences as torch_sequences,
    products as torch_products, fourier as torch_fourier, networks, windows,
)  # fmt: skip
from mlirtri.dialect.spellings.kernel_api import (  # noqa: F401 # isort: skip
    math_functions, methods, in_place, mlirtri_functions, complex_numbers,
)  # fmt: skip
from mlirtri.dialect.spellings.torch_api import types_and_names  # noqa: F401 # isort: skip

_LIBRARIES = ("numpy", "torch", "math", "cmath")
_INDEX: dict[str, dict[int, tuple[Any, str]]] = {}


def lookup(name: str) -> Spelling | None:
    """Return the spelling of a qualified name, or None; that of a refused function fails when called."""
    return SPELLINGS.get(name) or (_refusal(name) if name in REFUSED else None)


def _refusal(name: str) -> Spelling:
    reason, help = REFUSED[name]

    def refuse(b, /, *arguments, **keywords):
        b.fail(f"{name} is not supported: {reason}", help=help)

    return Spelling(name, refuse)


def member(owner: object, name: str) -> Spelling | None:
    """Return the spelling of an attribute of a library's object: `numpy.add.outer`, `numpy.mgrid.__getitem__`."""
    owner_name = qualified_name(owner)
    return None if owner_name is None else lookup(f"{owner_name}.{name}")


def near(name: str) -> list[str]:
    """Return up to five known names similar to an unknown one: of its owner, then the same word elsewhere."""
    owner, _, word = name.rpartition(".")
    same_word = [other for other in SPELLINGS if other.rpartition(".")[2] == word and other != name]
    siblings = {other.rpartition(".")[2]: other for other in SPELLINGS if other.rpartition(".")[0] == owner}
    similar = [siblings[other] for other in nearest(word, siblings, 3)]
    return list(dict.fromkeys(similar + same_word))[:5]


def qualified_name(function: object) -> str | None:
    """Return the qualified name of a function object of numpy, torch or math; None for any other.

    By identity, so `from torch import sum as total` is `torch.sum`. Does not import torch.
    """
    for library in _LIBRARIES:
        if library in sys.modules and (entry := _index(library).get(id(function))):
            return entry[1]
    return None


def _index(library: str) -> dict[int, tuple[Any, str]]:
    if library not in _INDEX:
        names = [name.removesuffix(".__getitem__") for name in (*SPELLINGS, *REFUSED) if name.startswith(f"{library}.")]
        _INDEX[library] = _by_identity(library, names)
    return _INDEX[library]


def _by_identity(library: str, names: Iterable[str]) -> dict[int, tuple[Any, str]]:
    index: dict[int, tuple[Any, str]] = {}
    for name in names:
        value = sys.modules[library]
        for part in name.split(".")[1:]:
            # An older version of the library may lack the function.
            value = getattr(value, part, None)
        if value is not None:
            index.setdefault(id(value), (value, name))
    return index
