"""The registry of spellings: names, signatures, identity of functions, and what loading costs."""

from __future__ import annotations

import inspect
import math
import operator
import subprocess
import sys

import numpy as np
import pytest
import torch

from mlirtri.dialect.promotion import tables
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.dialect.spellings.base import spelling


def library_function(name: str):
    """The library's object of that name; of a method, the unbound one."""
    owner, path = name.split(".", 1)
    where = {"ndarray": np.ndarray, "Tensor": torch.Tensor}.get(owner) or sys.modules[owner]
    return operator.attrgetter(path)(where)


ELEMENTWISE = {
    *tables.NUMPY_LOOPS, *tables.NUMPY_UNARY, *tables.COMPARISONS, *tables.LOGICAL, *tables.PREDICATES, "divide",
    "where",
}  # fmt: skip


NUMPY_SIGNATURES = [n for n, s in spellings.SPELLINGS.items() if n.startswith("numpy.")]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy tells its signatures from 2.4 on")
@pytest.mark.parametrize("name", NUMPY_SIGNATURES)
def test_numpy_signatures_are_numpys(name):
    """Names, order and kinds of the parameters; those at the end that kernels have no use for may be missing."""
    ours = list(spellings.lookup(name).signature.parameters.values())
    everything = inspect.signature(library_function(name)).parameters.values()
    theirs = [p for p in everything if p.kind != p.VAR_KEYWORD]
    by_name = {p.name: p for p in theirs}
    positional = [p for p in theirs if p.kind != p.KEYWORD_ONLY]
    mine = [p for p in ours if p.kind != p.KEYWORD_ONLY]
    assert [(p.name, p.kind) for p in mine] == [(p.name, p.kind) for p in positional][: len(mine)]
    # `**kwargs` of NumPy's are keywords that it documents in words.
    documented = [p for p in ours if p.kind == p.KEYWORD_ONLY] if len(theirs) < len(everything) else []
    assert all(p.name in by_name or p in documented for p in ours)
    for p in [each for each in ours if each not in documented]:
        default, wanted = p.default, by_name[p.name].default
        default = default.default if isinstance(default, spelling.Unsupported) else default
        if wanted is not np._NoValue:
            assert default == wanted or (default is inspect.Parameter.empty) == (wanted is inspect.Parameter.empty), p


@pytest.mark.parametrize("name", [n for n in spellings.SPELLINGS if n.startswith("torch.nn.functional.")])
def test_torch_functional_signatures_are_torchs(name):
    # What depends on `return_indices` is two functions behind one, which has the signature of the second.
    word = name.rpartition(".")[2]
    of = name.replace(word, f"_{word}") if "max_pool" in word else name
    try:
        theirs = inspect.signature(library_function(of)).parameters.values()
    except ValueError:
        pytest.skip("torch does not tell the signature of a builtin")
    ours = spellings.lookup(name).signature.parameters.values()
    assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs]
    for mine, their in zip(ours, theirs, strict=True):
        default = mine.default.default if isinstance(mine.default, spelling.Unsupported) else mine.default
        assert default == their.default


@pytest.mark.parametrize("name", [n for n in spellings.SPELLINGS if not n.startswith("mlirtri.")])
def test_what_is_spelled_exists(name):
    assert library_function(name) is not None


def test_functions_are_found_by_identity():
    assert spellings.qualified_name(np.absolute) == spellings.qualified_name(np.abs) == "numpy.absolute"
    assert spellings.qualified_name(np.add) == "numpy.add"
    assert spellings.qualified_name(torch.add) == "torch.add"
    assert spellings.qualified_name(torch.nn.functional.gelu) == "torch.nn.functional.gelu"
    assert spellings.qualified_name(math.exp) == "math.exp"
    assert spellings.qualified_name(len) is None


def test_near_names():
    assert spellings.near("numpy.lgo")[0] == "numpy.log"
    assert "torch.softmax" in spellings.near("numpy.softmax")
    assert spellings.near("numpy.zzzz") == []


def test_an_op_has_spellings_of_several_libraries():
    names = ("numpy.sum", "torch.sum", "ndarray.sum", "Tensor.sum", "mlirtri.sum")
    assert all("sum" in spellings.lookup(name).ops for name in names)
    assert spellings.lookup("numpy.no_such") is None


def test_a_name_is_spelled_once():
    with pytest.raises(ValueError, match="a second spelling for"):
        spelling.register("numpy.sum", lambda b, x: x, "")


def test_constants():
    for name, value in spelling.CONSTANTS.items():
        theirs = library_function(name)
        assert value is theirs or value == theirs or math.isnan(value)


def test_loading_imports_neither_torch_nor_mlir():
    program = (
        "import sys; from mlirtri.dialect.spellings import registry as spellings; import math;"
        "assert spellings.qualified_name(math.exp) == 'math.exp';"
        "assert not {'torch', 'torch_mlir', 'tvm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_elementwise_op_has_a_spelling_of_our_own():
    known = {name for name in spellings.SPELLINGS if name.startswith("mlirtri.")}
    assert {f"mlirtri.{op}" for op in ELEMENTWISE} <= known
