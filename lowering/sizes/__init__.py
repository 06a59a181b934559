"""The sizes of functions on tensors of dynamic shape, as programs on the sizes of their arguments.

*Takes* a module of one function on tensors. *Gives* a `SizeProgram` (`lowering/core/size_program.py`): the sizes of its
results and the conditions that a call checks before it runs. *Refuses* sizes that depend on elements.

- `conditions.py`: the conditions of one operation
- `loop_sizes.py`: sizes that loops and branches do not change
- `size_reader.py`: MLIR's arithmetic → steps of a size program
- `infer_size_program.py`: the size program of a function
- `size_arguments.py`: dynamic sizes as arguments of compiled code

Imported by `normalize/sizes`, `fusion`, the bridge, MLIR's backend, `mlirtri/compiler` and `mlirtri/programs`.
"""
