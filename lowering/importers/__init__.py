"""Programs of other frameworks → `linalg`, or the stage before it.

*Takes* a torch program, ONNX, StableHLO, TOSA, Relax or MLIR on tensors. *Gives* a function in the normal form that
`normalize/mlir_to_linalg.py` ends with. *Refuses*, in one report, the operators that nothing lowers.

- `from_torch/`, `from_onnx/`: by way of torch-mlir
- `from_stablehlo/`, `tosa_to_linalg.py`: upstream's lowerings, and ours of what they leave
- `from_relax/`: TVM's models
- `normalize/`: the steps that all of them end with

Imported by `lowering/pipelines.py` and `mlirtri/programs`.
"""
