"""The command `mlirtri-opt`: mlir-opt over MLIR's Python bindings, with the `tri` dialect and mlirtri's own passes.

*Takes* MLIR text or bytecode, and passes as options of mlir-opt.
*Gives* the text after the passes; diagnostics go to stderr.
*Refuses* a command line that makes no sense (`UsageError`, exit status 2); a failed pass is exit status 1.
`cli` serves it.

- `main.py`: the command. `__main__.py` runs it.
- `options.py`: its command line. `own_passes.py`: the table of mlirtri's passes, conversions and
  translations.
- `pipelines.py`: from options, and from the text of a pass pipeline, to passes.
- `passes.py`: one transformation. `running.py`: the passes of it, dumps, reproducers.
- `registry.py`: the lists of passes and dialects.
- `diagnostics.py`: what MLIR reports, printed, or compared with ``expected-error`` comments.
"""
