"""Lower a Python function to the `tri` dialect.

*Takes* a kernel's source and specialization. *Gives* a module with one `func.func` of `tri` operations, in `scf`
regions for run-time loops and branches, each at its source line; and the kernel's interface. Runs no code of the user.
*Refuses* Python that kernels do not support, each mistake with line, column and what to write instead.

Read in this order:

- `python_to_ast.py`: a function to its syntax tree. `ast_to_tri.py`: the module around what the handlers emit.
- `argument_sizes.py`: the run-time sizes of arguments, by name.
- `context.py`: the state of one function, the table of handlers by AST node class, the dispatch.
- `scope.py`: the value of a name; what a kernel captures.
- `statements.py`, `expressions.py`, `operators.py`: the handlers of statements, expressions and operators.
- `containers.py`: lists and dicts that change, their methods and items.
- `calls.py`, `library_calls.py`, `builtin_calls.py`, `inlining.py`: calls by kind of callee. `generators.py`: `sum` and
  others of a generator whose elements are known at run time only, as loops; `map` and `filter`.
- `branches.py`; `loops.py`, `iterables.py`, `loop_state.py`: `scf.if`, `scf.for`, `scf.while` and their iter_args.
- `comprehensions.py`: lists, sets and dicts of known length.
- `raising.py`: `raise`.
- `atomics.py`: updates of elements that iterations may share.
- `ndrange.py`: `mt.ndrange` as nested loops. `lowering.dependence` refuses parallel loops whose iterations are not
  independent.
- `tile_kernels.py`: tile kernels, and calls of the functions of `mlirtri.tile`, which are in `tile_language/`.
- `device_placement.py`: copies of values between devices.

`syntax/` writes statements with simpler ones, `return` in a loop among them, and names what kernels do not take.
`semantics/` defines ``x + y`` and ``sum(x)``, and `indexing/` what ``a[i]`` reads and writes. `library_functions/` has
the functions that are themselves written as kernels, such as `numpy.linalg.solve`. `graph/` lowers recorded calls of
several kernels to one function.
`mlirtri`'s packages import `python_to_ast` and the tables of `operators`.
"""
