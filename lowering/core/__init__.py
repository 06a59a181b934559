"""What travels through all stages, and facts that all lowerings share. Most of it knows neither MLIR nor TVM.

*Takes* and *gives* plain data: targets, specializations, interfaces, size programs.
*Refuses* options that do not exist, and operations that no lowering translates.

Read in this order:

- `stage.py`: `Stage`, `CompileContext`, `Code`, and the protocol `Executable`.
- `target.py`: CPU or CUDA architecture. `cpu.py`: caches and vector registers of this CPU.
- `schedule_option.py`: the values of ``schedule=``.
- `interface.py`: `Specialization` and `Interface`, how Python meets a compiled function.
- `size_program.py`: sizes of results, computed on the host from sizes of arguments.
- `symbols.py`: names that MLIR, LLVM, C and TVMScript take.
- `refusals.py`: all operations without a translation, in one error.
- `memory_limits.py`: the largest tensor that is compiled. These two read MLIR.
- `fusion_edges.py`: one verdict on fusion.
- `forks.py`: locks and threads of forked processes.

Every package of `lowering` and of `mlirtri` may import it.
"""
