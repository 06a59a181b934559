"""The command `mlirtri-opt`: upstream's mlir-opt over the bindings, with the `tri` dialect.

*Takes* MLIR text and passes as options of mlir-opt.
*Gives* the text after the passes; diagnostics go to stderr.
*Refuses* a command line that makes no sense (`UsageError`, exit status 2); a failed pass is exit status 1.
Nothing imports it.

- `main.py`: the command. `__main__.py` runs it.
- `options.py`: its command line.
- `passes.py`: pipelines, one transformation, the list of passes.
- `diagnostics.py`: what MLIR reports, printed, or compared with ``expected-error`` comments.
"""
