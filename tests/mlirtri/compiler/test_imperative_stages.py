"""Kernels that write their arguments, resumed at every stage; the interface of a dump's manifest has all of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.compiler.interface_json import from_json, to_json

SUFFIX = {"mlir": ".mlir", "tvmscript": ".py"}


def carry(x, y):
    s = x[0]
    for i in range(1, x.shape[0]):
        if x[i] > y[i]:
            y[i] = x[i] - s
        else:
            s = s + y[i]
    return s


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_kernel_that_writes_its_argument_resumes_at_every_stage(tmp_path, pipeline):
    random = np.random.default_rng(0)
    x, y = random.normal(size=9), random.normal(size=9)
    kernel = mt.jit(carry, pipeline=pipeline).compile(x, y)
    wanted = y.copy()
    sums = carry(x, wanted)
    stages = [stage for stage in kernel.pipeline.stages if stage.kind in SUFFIX]
    assert len(stages) >= 4
    for stage in stages:
        file = tmp_path / f"{stage.name}{SUFFIX[stage.kind]}"
        file.write_text(kernel.compilation.records[stage.name].complete())
        found = y.copy()
        assert mt.resume(file, stage.name, pipeline=pipeline)(x, found) == sums, stage.name
        np.testing.assert_array_equal(found, wanted, err_msg=stage.name)


def test_manifests_keep_updates_prints_and_sizes_of_run_time():
    def kernel(x, y):
        y[0] = x[0]
        mt.device_print("first", x[0])
        return x[x > 0], x

    interface = mt.jit(kernel, debug=True).compile(np.ones(4), np.ones(4)).interface
    assert interface.updates
    assert interface.log
    assert interface.tree[0].counts
    again = from_json(json.loads(json.dumps(to_json(interface))), Path("manifest.json"))
    assert again == interface
