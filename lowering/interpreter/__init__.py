"""Interpret the `tri` dialect with NumPy, without a compiler: the reference that the pipelines are compared with.

*Takes* a `tri` module. *Gives* an executable that runs it operation by operation, each under its source line, so that
debuggers stop there. *Refuses* unknown operations, all at once.

Read in this order:

- `tri_to_interpreted.py`: the translation of a module, control flow, the executable.
- `steps.py`: what each operation does to NumPy arrays.
- `external.py`: calls of functions that TVM compiles.
- `frames.py`: Python frames with the kernel's file, line and variables.

Imported by `lowering.pipelines` alone.
"""
