"""Library calls compiled: the calls of spelling_calls as kernels of numpy or torch, through all three pipelines.

Twenty calls make one kernel, written to a file as a user would write it; the oracle is the library's own result.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from compiled_calls import ARRAY_CALLS, CALLS, expression, is_torch, module_from
from eager_builder import flat
from tolerances import within
from torch_calls import TENSORS
from window_calls import WINDOWS

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir")
CALLS_PER_KERNEL = 20


def groups():
    """Library, calls and pipeline; of the functions of whole arrays some, and all of them when slow tests run.

    Calls go through one of the pipelines in turn, and through the others when slow tests run.
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
                is_other = pipeline != pipelines[start // CALLS_PER_KERNEL % len(pipelines)]
                slow = [pytest.mark.slow] if is_other else marks
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
