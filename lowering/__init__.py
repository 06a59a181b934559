"""The lowerings of the compiler: `pipelines.py` has the stages in order, each package below one part of the way.

The folder installs as `mlirtri.lowering`. A package's docstring has what it *takes*, what it *gives*, and what it
*refuses*: the errors that it raises for what a user can cause.

A lowering is a module ``<from>_to_<to>.py`` with a function ``lower(ir, context) -> ir``. The way of Python's
kernels::

    frontend → linalg → fusion → bridge → relax → schedule → codegen        pipelines linalg and relax
                               → mlir_backend                               pipelines mlir and poly

`dependence` rejects loops that are declared parallel and whose iterations depend on each other, at stage `tri`.
`cuda_emulation` runs stage `cuda` without a GPU. `spirv` takes stage `bufferized` to Vulkan's SPIR-V. `importers`
brings in programs of other languages; `interpreter` runs stage `tri` on NumPy; `runtime` has what runs compiled code.
Several of them share `core`, `toolchain`, `mlir_common`, `tir`, `sizes`, `external`, `elementary` and
`special_functions`. Imports go one way; `tests/project/test_imports.py` holds the allowed edges.
"""
