"""Make a failing program smaller while it fails in the same way: `mlirtri reduce`.

*Takes* the text of a program (MLIR, Python, TVMScript) and a test of whether a text still fails.
*Gives* the smallest text that still fails.
*Refuses* a text that does not fail in the first place (`KernelValueError`).
`cli` imports it, and the fuzzer of the tests.

- `search.py`: the loop over smaller candidates, for any kind of program.
- `python_candidates.py`: smaller Python, TVMScript included, by its syntax tree.
- `mlir_candidates.py`: smaller MLIR, by its operations. It loads MLIR.
- `files.py`: a file, its kind, and the command that tests it.
"""
