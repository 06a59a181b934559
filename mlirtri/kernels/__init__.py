"""`@jit` and `Kernel`: a Python function compiled for what it is called with.

*Takes* a Python function and options, or a file of IR.
*Gives* a `JitFunction`, and a `Kernel` for each combination of argument types and constants.
*Refuses* what the compiler refuses, as a `KernelError` whose traceback has no frames of mlirtri.
`programs`, `measure`, `cli` and `mlirtri` itself import it. It loads MLIR, with the first `@jit`; torch and TVM later.

- `jit.py`: the decorator; from a call to its kernel.
- `factories.py`: TileLang's `jit`, functions that make tile kernels, and results that calls allocate.
- `graph.py`: `mt.graph`, calls of several kernels recorded and compiled as one.
- `lookup.py`: from a call's arguments to the kernel that such a call had before.
- `recompiles.py`: why a function was compiled again, `MLIRTRI_LOG=recompiles`.
- `options.py`: target, pipeline, schedule and the rest, with settings and defaults filled in.
- `configuration.py`: `Config`, one set of options to compile a kernel with, and the other forms that stand for one.
- `cached.py`: a kernel from the disk cache, or compiled and kept there.
- `cached_stages.py`: the later stages of programs and graphs from the disk cache.
- `session.py`: one compilation, of a function or from a file (`resume`).
- `parallel.py`: many compilations at the same time, by other processes. `remote.py`: what these do.
- `kernel.py`: a compiled kernel, called and read stage by stage.
- `export.py`: the MLIR of a stage as text or bytecode for other tools.
- `fusion_report.py`: `kernel.fusion`. `task_report.py`: `kernel.tasks`.
- `saved.py`: kernels as folders that are loaded without the compiler; `saved_files.py` finds out whether they changed;
  `c_interface.py` is for C programs.
- `argument_text.py`: arguments as the command line writes them, random data, summaries of results.
"""
