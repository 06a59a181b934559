"""MLIR's Python bindings, imported here and nowhere else.

*Takes* the bindings of the torch-mlir wheel. *Gives* `ir`, the dialect modules, traversal of operations, and locations
as source spans. *Refuses* text that does not parse (`ParseError`).

Read in this order:

- `loading.py`: `linalg` without the definitions of its named operations, which take long to load.
- `mlir.py`: the bindings' names, printing, loading of dialects, traversal of operations.
- `locations.py`: MLIR locations to and from `Span`; errors that point to the user's line.

Every package may import this one; importing it loads MLIR.
"""
