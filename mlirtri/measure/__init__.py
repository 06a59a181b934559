"""How fast and how exact kernels are: `compare`, `tune`, `@autotune`.

*Takes* a jit function and arguments; abstract ones become random data.
*Gives* a `Comparison`, a `Tuning`, or the fastest configuration.
*Refuses* what is no jit function (`KernelTypeError`) and arguments that do not fit.
`cli` and `mlirtri` itself import it. It loads torch.

- `comparison.py`: every pipeline beside torch or NumPy, as rows and as tables.
- `eager.py`: the plain Python function on torch or NumPy.
- `copies.py`: copies of arguments for calls that write them.
- `accuracy.py`: absolute errors, and errors in units in the last place.
- `timing.py`: samples of several calls, round by round.
- `tuning.py`: the default schedule beside one that a search found.
- `autotuning.py`: the fastest of several configurations. `configurations.py`: which of them are measured.
"""
