"""SPIR-V for Vulkan, by upstream MLIR: bufferized → gpu → spirv.

*Takes* a bufferized module of static sizes. *Gives* a module of the gpu dialect, then one SPIR-V module and its binary
for each kernel. *Refuses* loops and branches around kernels, sizes known at run time only, dtypes and functions that
SPIR-V for Vulkan has not.

Read in this order:

- `bufferized_to_gpu.py`: structured operations become kernels of 64 threads per block; what of SPIR-V they may use.
- `parallel_loops.py`: loops of element kernels as parallel nests.
- `gpu_to_spirv.py`: upstream's conversions, and the binaries.

The pipelines load it.
"""
