"""What runs compiled code: executables, their threads and their memory.

*Takes* a runtime module of TVM and a Relax function, or an MLIR execution engine.
*Gives* an `Executable`, whose `launch` runs on contiguous torch tensors.
*Refuses* nothing at launch but missing memory and missing devices: the caller has checked types.

Read in this order:

- `launch_plan.py`: which functions a call runs, on which values. `planner.py` finds it in a Relax function.
- `preparation.py`: the part of a plan that runs once, when tensors are bound.
- `launches.py`: what a call of an executable does, as data from which `mlirtri/calls` generates Python source.
- `tvm_executable.py`: runs a plan, or Relax's virtual machine where there is none.
- `mlir_executable.py`: runs a function that MLIR compiled. `cuda_executable.py`: runs kernels for CUDA.
- `tensor_launches.py`: a launch plan on torch's tensors.
- `artifact.py`: executables as files, which run without the compiler. `linking.py` and `stored_tensors.py` are their
  parts; `shared_objects.py` links where there is no C compiler.
- `torch_threads.py`: parallel loops on torch's OpenMP threads; `torch_threads.mlir` is the code that starts them.
- `openmp.py`: the OpenMP runtimes of this process.
- `memory.py`: new CPU memory, in large pages; one block of memory for all intermediates of a call.
- `red_zones.py`: a test mode that finds writes outside of buffers.

`codegen`, `bridge`, `schedule.meta`, `mlir_backend.llvm`, and `calls`, `compiler` and `cli` of mlirtri import it.
"""
