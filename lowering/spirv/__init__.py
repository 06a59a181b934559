"""SPIR-V for Vulkan, by upstream MLIR: bufferized → gpu → spirv.

*Takes* a bufferized module. *Gives* a module of the gpu dialect, then one SPIR-V module and its binary for each kernel,
and an executable that launches them on a Vulkan device. *Refuses* dtypes and functions that SPIR-V for Vulkan has not,
views of buffers, and arrays that the loops and branches around kernels choose.

Read in this order:

- `bufferized_to_gpu.py`: structured operations become kernels of 64 threads per block; what of SPIR-V they may use.
- `parallel_loops.py`: loops of element kernels as parallel nests. `atomic_updates.py`: elements that iterations share.
  `narrow_comparisons.py`: comparisons of extended integers.
- `bfloat16_bits.py`: bf16 as its bits, with arithmetic in fp32.
- `flat_buffers.py`: sizes known at run time only, and arrays of a thread's own.
- `host_statements.py`: what stands between kernels, as kernels of one thread.
- `gpu_to_spirv.py`: upstream's conversions, and the binaries. `compare_exchange.py`: atomic updates of other kinds.
- `host_program.py`: the host's function as data.
- `executable.py`: interprets that program. `vulkan.py`: a device, its memory, and launches.

The pipelines load it.
"""
