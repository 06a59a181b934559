"""Elementary functions as vector arithmetic: exp, log, tanh, sin, erf and others, within 2 units in the last place.

*Takes* PrimFuncs that call such functions, or scalars of MLIR's LLVM lowering.
*Gives* arithmetic that vectorises, where LLVM would call the C library for each element.
*Refuses* nothing: a function without a rule stays a call.

Read in this order:

- `tir_lanes.py`: expressions on the lanes of a vector, in which the functions are written.
- `functions.py`: fp32. `wide.py`: fp32 computed in fp64. `double.py`: fp64.
- `circular.py`: sine and cosine of vectors; sine, cosine, tangent and powers of one fp32 number.
- `tir_pass.py`: replaces the calls in a PrimFunc.

`codegen`, `schedule.cpu.matmul` and `mlir_backend.llvm` import it.
"""
