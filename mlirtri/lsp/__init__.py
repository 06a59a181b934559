"""Check kernels while they are typed, and show an editor the type of every expression: the Language Server Protocol.

*Takes* the text of a Python file as an editor holds it, saved or not. *Gives* its mistakes at their ranges, the type of
each expression, and the IR of each kernel. Runs the file's imports, definitions and assignments, and no other statement
of it. *Refuses* nothing: what does not import or compile is a diagnostic.

Read in this order:

- `documents.py`: the text of a file to the kernels in it, each with the arguments that comments give it.
- `analysis.py`: a kernel to its diagnostics and the types of its expressions, by the front end alone.
- `server.py`: the requests of an editor, answered from these; the only file that needs `pygls`.

Imported by `mlirtri.cli`.
"""
