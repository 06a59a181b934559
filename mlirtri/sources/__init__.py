"""Load what files hold: kernels and graphs of Python files, programs of other files.

*Takes* ``FILE.py``, ``FILE.py::name``, or the path of a program.
*Gives* a `JitFunction`, a `Graph` or a `Program`.
*Refuses* with a `KernelError` files that do not exist or do not import, and names that they do not have.
`measure`, `trace`, `cli` and `pages` import it.

- `python_files.py`: kernels and graphs of Python files, and whether arguments fit them.
- `packed_files.py`: the modules and arrays in a file of `mlirtri repro`.
- `program_files.py`: programs of MLIR, StableHLO, TOSA, ONNX, torch and Relax.
"""
