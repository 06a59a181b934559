"""StableHLO and CHLO → `linalg`, by upstream's lowering and ours of what upstream leaves.

*Takes* a module of `stablehlo` and `chlo` as JAX or another tool wrote it. *Gives* the normal form of `normalize`.
*Refuses*, in one report, other custom calls, communication between devices and tokens, and quantised types without one
scale per tensor or per slice of an axis.

- `chlo_to_stablehlo.py`: the stage `stablehlo`: one function of `stablehlo` alone
- `quantized_types.py`: quantised types → storage integers, and floats to compute in
- `stablehlo_to_linalg.py`: the stage `linalg`, with sizes known at run time; it calls the others in this order
- `shape_operands.py`: what sizes are computed from → scalars
- `dynamic_operations.py`: pads, slices, gathers and others of sizes known at run time only
- `windows.py`: windows and convolutions of such sizes
- `fft.py`: Fourier transforms → products with matrices
- `lapack_calls.py`: JAX's calls of LAPACK → programs of torch's operators on matrices
- `linear_algebra.py`: triangular systems and Cholesky factors
- `control_flow.py`: `while`, `if` and `case` → `scf`
- `accumulators.py`: fp32 accumulators for fp16 and bf16
- `sort_and_scatter.py`: operations whose regions compare or combine elements

Imported by `lowering/pipelines.py` only.
"""
