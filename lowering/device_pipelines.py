"""The stages of a kernel whose regions run on both kinds of devices: CUDA source first, then the host's code.

Takes a pipeline, and the IR that a stage left. Gives that pipeline, or one whose last stages make both kinds of code.
Refuses nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.external.devices import Device
from mlirtri.lowering.pipelines import ASM, CUDA, LLVM, SCHEDULED, LazyLowering, Pipeline

BOTH = (CUDA, replace(LLVM, run=LazyLowering("mlirtri.lowering.codegen.cuda_to_llvm")), ASM)


def for_devices(pipeline: Pipeline, target: Target, kind: str, ir: Any) -> Pipeline:
    """The pipeline for IR (text of which is of that kind), which may name devices of another kind than the target's."""
    names = pipeline.names
    if SCHEDULED.name not in names or names[-1] == SCHEDULED.name or not _kinds(kind, ir) - {target.kind}:
        return pipeline
    return replace(pipeline, stages=(*pipeline.stages[: names.index(SCHEDULED.name) + 1], *BOTH))


def _kinds(kind: str, ir: Any) -> set[str]:
    """The kinds of devices, ``"cpu"`` and ``"cuda"``, that the IR names."""
    if kind == "mlir":
        from mlirtri.lowering.external.calls import KIND, calls_in, values_of  # imports MLIR

        regions = [values_of(each) for _, each in calls_in(ir) if each.attributes[KIND].value == "device"]
        return {Device.named(values["device"]).kind for values in regions}
    if kind == "tvmscript":
        from mlirtri.lowering.external.vdevices import kind_of, vdevices_in  # imports TVM

        return {kind_of(each) for each in vdevices_in(ir)}
    return set()
