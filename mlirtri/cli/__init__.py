"""The command `mlirtri`.

*Takes* a command line: a file of kernels, a program or IR of a stage, and options.
*Gives* IR, results and tables on stdout; everything else goes to stderr.
*Refuses* with exit status 1 what a `KernelError` says, with 2 a command line that does not parse.
Only `pages` imports it.

- `entry.py`: the command; asks a server first. `main.py`: the commands and their options. `__main__.py` runs it.
- `kernel_files.py`: from ``FILE.py::name`` to a compiled kernel.
- `program_files.py`: from a file of MLIR, ONNX, torch, … to a `Program`.
- `cache_commands.py`: `mlirtri cache`. `serve_command.py`: `mlirtri serve`. `terminal.py`: tables on stdout.
- `reports.py`: the tables of `mlirtri stages` and `mlirtri env`.
- `doctor.py`: the checks of `mlirtri doctor`.
"""
