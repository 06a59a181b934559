"""From scheduled PrimFuncs to CUDA C++, through TVM's own lowering; the stage and the schedule rules share it.

Takes named PrimFuncs and TVM's CUDA target. Gives the module of device functions, and its source text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlirtri.lowering.codegen.build_modules import cuda_module
from mlirtri.lowering.codegen.targets import BUILD_PIPELINE
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, tirx, tvm

DEVICE_FUNCTION = 2
"""TVM's `calling_conv` of a function that runs on the device."""


def device_module(functions: Iterable[tuple[str, PrimFunc]], target) -> IRModule:
    """Return the device functions: ``<name>_kernel``, ``<name>_kernel_1``… for each PrimFunc."""
    pipeline, _, finish_device = tvm.tirx.get_tir_pipeline(BUILD_PIPELINE)
    mod = pipeline(tirx.transform.BindTarget(target)(cuda_module(functions)))
    on_device = tirx.transform.Filter(lambda function: int(function.attrs.get("calling_conv", 0)) == DEVICE_FUNCTION)(
        mod
    )
    return finish_device()(on_device)


def source_of(device: IRModule, target) -> str:
    """Return the CUDA C++ of a module of device functions."""
    text = tvm.get_global_func("target.build.cuda")(device, target).inspect_source()
    # TVM prints infinities and NaN of 16-bit floats by names that no header defines.
    text = re.sub(r"\binff\b", "__int_as_float(0x7f800000)", text)
    return re.sub(r"\bnanf\b(?!\()", "__int_as_float(0x7fc00000)", text)
