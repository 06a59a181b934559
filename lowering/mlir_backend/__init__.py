"""The `mlir` pipeline after `fused`: upstream MLIR down to machine code, without TVM.

Its packages, in the order of the stages:

- `bufferize/`: `fused` to `bufferized`.
- `loops/`: structured operations on memrefs to loops.
- `llvm/`: `bufferized` to `llvmdialect` and `asm`, and to `poly`.
"""
