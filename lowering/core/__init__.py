"""What travels through all stages, and facts that all lowerings share. Most of it knows neither MLIR nor TVM.

Read in this order:

- `stage.py`: `Stage`, `CompileContext`, `Code`, the protocol `Executable`; `Edge`, which says of one tensor whether its
  producer and its consumer were fused; names of attributes of loops and functions that MLIR and TIR share.
- `target.py`: CPU or CUDA architecture. `cpu.py`: caches and vector registers of this CPU, what a thread costs.
- `launch_figures.py`: what a launch on CUDA takes; the occupancy of a multiprocessor.
- `tuning.py`: the values of ``schedule=``, and the file of what searches and `autotune` measured.
- `interface.py`: `Specialization` and `Interface`, how Python meets a compiled function; valid symbols; the
  arguments of a call by parameter.
- `size_program.py`: sizes of results, computed on the host from sizes of arguments.
- `named_sizes.py`: the sizes that a signature names, as conditions of a size program.
- `untranslatable.py`: operations without a translation and tensors larger than memory, as errors. It reads MLIR.
  Errors of indices, types and syntax are raised by `frontend`.
- `forks.py`: locks and threads of forked processes. `recursion.py`: Python's limit of recursion.
- `tracebacks.py`: the decorator of public functions; it removes our frames from the tracebacks of their errors.

Every package of `lowering` and of `mlirtri` may import it.
"""
