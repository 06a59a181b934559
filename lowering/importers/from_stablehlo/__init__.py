"""StableHLO and CHLO → `linalg`, by upstream's lowering and ours of what upstream leaves.

*Takes* a module of `stablehlo` and `chlo` as JAX or another tool wrote it. *Gives* the normal form of `normalize`.
*Refuses*, in one report, custom calls, communication between devices and tokens.

- `chlo_to_stablehlo.py`: the stage `stablehlo`: one function of `stablehlo` alone
- `stablehlo_to_linalg.py`: the stage `linalg`, with sizes known at run time; it calls the others in this order
- `fft.py`: Fourier transforms → products with matrices
- `control_flow.py`: `while`, `if` and `case` → `scf`
- `accumulators.py`: fp32 accumulators for fp16 and bf16
- `sort_and_scatter.py`: operations whose regions compare or combine elements

Imported by `lowering/pipelines.py` only.
"""
