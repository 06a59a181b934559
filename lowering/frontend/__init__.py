"""From a Python function to the `tri` dialect.

Takes a kernel's source and specialization. Gives a module with one `func.func` of `tri` operations, `scf` around them
where there are loops and branches of run time, each at its line; and the kernel's interface. Runs no code of the user.
Refuses Python that kernels do not have, each mistake with line, column and what to write instead.

Read in this order:

- `python_to_ast`: a function to its syntax tree, with the file's positions.
- `ast_to_tri`: the module around what the handlers emit.
- `context`: the state of one function, the table of handlers by AST node class, the dispatch.
- `scope`: the value of a name; what a kernel captures.
- `early_exits`: `return`, `break` and `continue` as structured control flow; liveness.
- `statements`, `expressions`, `operators`: their handlers.
- `indexing`, `slices`, `updates`: subscripts that are read, the basic ones, and those that are written.
- `calls`, `library_calls`, `builtin_calls`, `inlining`: what a call can mean.
- `branches`; `loops`, `iterables`, `loop_state`: `scf.if`, `scf.for`, `scf.while` and their iter_args.
- `device_placement`: copies of values between devices.
- `breakpoints`: `breakpoint()` in kernels that are interpreted.

`language/` says what ``x + y`` or ``sum(x)`` means. `lowering.interpreter` imports `breakpoints`; `mlirtri`'s packages
import `python_to_ast` and the tables of `operators`.
"""
