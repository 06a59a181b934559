"""The command `mlirtri`.

*Takes* a command line: a file of kernels, a program or IR of a stage, and options.
*Gives* IR, results and tables on stdout; everything else goes to stderr.
*Refuses* with exit status 1 what a `KernelError` says, with 2 a command line that does not parse.
Only `pages` imports it.

- `entry.py`: the command; asks a server first. `main.py`: the commands. `__main__.py` runs it.
- `options.py`: the options that several share. `emit_command.py`: `mlirtri emit`.
  `run_command.py`: `mlirtri run`. `data_files.py`: its arguments and results in files.
  `repro_command.py`: `mlirtri repro`. `translate_command.py`: `mlirtri translate`.
  `compare_command.py`: `mlirtri compare`. `profile_command.py`: `mlirtri profile`. `trace_command.py`: `mlirtri trace`.
  `difference_commands.py`: `mlirtri diff` and `emit --diff`.
- `kernel_files.py`: compiles what ``FILE[::name]`` names.
- `program_files.py`: compiles, translates and reports on programs of files.
- `cache_commands.py`: `mlirtri cache`.
- `lit_commands.py`: `mlirtri init-lit`, `test`, `update-checks`, `reduce`. `terminal.py`: tables on stdout.
- `reports.py`: the tables of `mlirtri stages` and `mlirtri env`.
- `doctor.py`: the checks of `mlirtri doctor`.
"""
