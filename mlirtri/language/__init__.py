"""The names that a kernel uses, and the types of its arguments.

*Takes* a function's parameters, annotations and arguments.
*Gives* a `Specialization`: which parameters are tensors, run-time scalars or compile-time constants.
*Refuses* arguments that do not fit, all in one `ArgumentMismatchError`.
`calls`, `kernels`, `measure`, `cli` and `mlirtri` itself import it. It loads neither torch nor MLIR.

- `dimensions.py`: `dyn`, the sizes known at run time only.
- `names.py`: `Tensor`, `Ref`, `@macro`, and stubs of the functions of the language.
- `arguments.py`: one argument, its type and what it is. `containers.py`: one that is a tuple, list or dict of
  tensors. `signature.py`: all of a call, as a `Specialization`; its key.
"""
