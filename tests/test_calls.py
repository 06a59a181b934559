"""Library calls compiled: the calls of spelling_calls as kernels of numpy or torch, through all three pipelines.

Twenty calls make one kernel, written to a file as a user would write it; the oracle is the library's own result.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from eager_builder import flat
from numpy_calls import ARRAYS
from spelling_calls import NETWORKS, NUMPY, TORCH
from tolerances import within
from torch_calls import TENSORS
from window_calls import WINDOWS

import mlirtri as mt
from mlirtri.dialect.spellings import registry as spellings

PIPELINES = ("linalg", "relax", "mlir")
CALLS_PER_KERNEL = 20


def module_from(file: Path):
    specification = importlib.util.spec_from_file_location(f"calls_{file.stem}", file)
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up.
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


CALLS = [case for case in [*NUMPY, *TORCH, *NETWORKS] if "empty" not in case.name]
# A slice is written in brackets only.
ARRAY_CALLS = [case for case in ARRAYS if not any(isinstance(each, slice) for each in case.arguments[1:])]


def written(value, arrays: list[np.ndarray]) -> str:
    """Python source of an argument; arrays become parameters."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return f"a{len(arrays) - 1}"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(written(each, arrays) for each in value)
        return f"({inner}{',' * bool(value)})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, np.dtype):
        return f"numpy.{value.name}"
    if isinstance(value, slice):
        return ":".join("" if part is None else repr(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, float) and abs(value) == float("inf"):
        return f"numpy.inf * {int(value > 0) * 2 - 1}"
    return (
        f"numpy.{value.__name__}"
        if isinstance(value, type) and issubclass(value, np.generic)
        else (value.__name__ if isinstance(value, type) else repr(value))
    )


def expression(case, arrays: list[np.ndarray]) -> str:
    arguments = [written(each, arrays) for each in case.arguments]
    arguments += [f"{name}={written(each, arrays)}" for name, each in case.keywords.items()]
    owner, _, name = case.name.partition(".")
    if name.endswith(".__getitem__"):
        return f"{case.name.removesuffix('.__getitem__')}[{arguments[0].strip('()')}]"
    if owner not in ("ndarray", "Tensor"):
        return f"{case.name}({', '.join(arguments)})"
    attribute = spellings.lookup(case.name).is_attribute
    return f"{arguments[0]}.{name}" + ("" if attribute else f"({', '.join(arguments[1:])})")


def is_torch(case) -> bool:
    return case.name.startswith(("torch.", "Tensor."))


def groups():
    """Library, calls and pipeline; of the functions of whole arrays some, and all of them when slow tests run.

    Calls go through `linalg` and one of the other pipelines in turn, and through the third when slow tests run.
    """
    parts = (
        ("numpy", "numpy", [case for case in CALLS if not is_torch(case)], PIPELINES, ()),
        ("torch", "torch", [case for case in CALLS if is_torch(case)], PIPELINES, ()),
        ("numpy", "some-arrays", ARRAY_CALLS[::6], ("linalg",), ()),
        ("torch", "some-tensors", TENSORS[::6], ("linalg",), ()),
        ("torch", "some-windows", WINDOWS[::6], PIPELINES, ()),
        ("numpy", "arrays", ARRAY_CALLS, PIPELINES, [pytest.mark.slow]),
        ("torch", "tensors", TENSORS, PIPELINES, [pytest.mark.slow]),
        ("torch", "windows", WINDOWS, PIPELINES, [pytest.mark.slow]),
    )
    for library, name, calls, pipelines, marks in parts:
        for start in range(0, len(calls), CALLS_PER_KERNEL):
            for pipeline in pipelines:
                some = calls[start : start + CALLS_PER_KERNEL]
                is_third = pipeline == ("relax", "mlir")[start // CALLS_PER_KERNEL % 2]
                slow = [pytest.mark.slow] if is_third else marks
                yield pytest.param(library, some, pipeline, id=f"{name}-{start}-{pipeline}", marks=slow)


@pytest.mark.parametrize(("library", "calls", "pipeline"), list(groups()))
def test_compiled_calls(tmp_path, library, calls, pipeline):
    arrays: list[np.ndarray] = []
    lines = [expression(case, arrays) for case in calls]
    parameters = ", ".join(f"a{position}" for position in range(len(arrays)))
    body = ",\n        ".join(lines)
    file = tmp_path / f"calls_{library}.py"
    file.write_text(
        f"import math\nimport numpy\nimport torch\n\ndef kernel({parameters}):\n    return (\n        {body},\n    )\n"
    )
    function = module_from(file).kernel
    arguments = arrays if library == "numpy" else [torch.from_numpy(np.array(each)) for each in arrays]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = function(*arguments)
        found = mt.jit(function, pipeline=pipeline)(*arguments)
    problems = [problem for line, f, w in zip(lines, found, wanted, strict=True) if (problem := difference(line, f, w))]
    assert not problems, "\n" + "\n".join(problems)


def difference(line: str, found, wanted) -> str | None:
    """What is wrong, in words: number of results, dtype, shape, or values beyond a few fp32 roundings."""
    found, wanted = flat(found), flat(wanted)
    if len(found) != len(wanted):
        return f"{line}: {len(found)} results for {len(wanted)}"
    for f, w in zip(found, wanted, strict=True):
        f, w = np.asarray(f), np.asarray(w)
        if (f.dtype, f.shape) != (w.dtype, w.shape):
            return f"{line}: {f.dtype}{f.shape}, the library has {w.dtype}{w.shape}"
        if not np.allclose(f, w, **within(w.dtype), equal_nan=True):
            return f"{line}: {f}, the library has {w}"
    return None
