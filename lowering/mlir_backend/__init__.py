"""The `mlir` pipeline after `fused`: upstream MLIR down to machine code, without TVM.

Its packages, in the order of the stages:

- `bufferize/`: `fused` to `bufferized`. The imperative bridge uses it too.
- `loops/`: structured operations on memrefs to loops, which the bridge and `spirv` read too.
- `llvm/`: `bufferized` to `llvmdialect` and `asm`, and to `poly`.

What all lowerings of MLIR share is in `lowering/mlir_common`.
"""
