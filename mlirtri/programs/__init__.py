"""Programs from other sources than Python functions: MLIR, TOSA, StableHLO, ONNX, Relax; torch in `torch_programs`.

*Takes* a model, a module, its text or a file. *Gives* a `Program`, which compiles its functions to kernels. *Refuses*
what does not parse, names that the program does not have, and unknown options. `mlirtri/cli`, `mlirtri/pages` and
`mlirtri/__init__.py`, which loads them lazily, import this package.

- `program.py`: the class `Program`
- `params.py`: the tensors that a program is bound to
- `mlir_program.py`: MLIR and TOSA
- `signless.py`: integers without a sign, called with either
- `mlir_sources.py`: text, bytecode and files of MLIR, and the resources in its text
- `stablehlo_program.py`: StableHLO, and JAX through it
- `onnx_program.py`, `relax_program.py`: ONNX and Relax
- `report.py`: which operations each pipeline translates
"""
