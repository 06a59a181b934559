"""Python's syntax before it is lowered: statements written with simpler ones, and what kernels do not have.

*Takes* the statements of a function. *Gives* statements that the handlers of `lowering.frontend` know. *Refuses*
nothing: what has no simpler form stays, and has no handler.

Read in this order:

- `early_exits.py`: `return`, `break` and `continue` as structured control flow; liveness.
- `plain_statements.py`: `match` as a chain of `if`.
- `refused_syntax.py`: the syntax and builtins that kernels do not have, with what to write instead.

`lowering.frontend` may import it. It knows `ast` alone.
"""
