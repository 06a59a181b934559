"""How fast and how exact kernels are: `compare`, `profile`, `tune`, `@autotune`.

*Takes* jit functions, graphs, programs or files of them, and arguments; abstract ones become random data.
*Gives* a `Comparison`, a `Profile`, a `Tuning`, or the fastest configuration.
*Refuses* what is none of these (`KernelTypeError`) and arguments that do not fit.
`cli` and `mlirtri` itself import it. It loads torch.

- `comparison.py`: every way to compile beside libraries. `rows.py`: what it finds, as data.
- `subjects.py`: what can be compared. `columns.py`: pipelines, targets, schedules, variants.
- `libraries.py`: NumPy, torch, Numba, … `eager.py`: the plain Python function on torch or NumPy.
- `tables.py`: for the terminal. `reports.py`: CSV, Markdown, and `report.html`. `changes.py`: since an earlier one.
- `profile.py`: where the time of a call goes. `launch_costs.py`: costs kernel by kernel. `machine_limits.py`:
  what the machine can do at most.
- `why.py`: why a row is slower. `machine_code.py`: what its hot loop is made of. `bisection.py`: where numbers change.
- `tracing.py`: a trace page of kernels by several pipelines, with costs.
- `copies.py`: copies of arguments for calls that write them.
- `accuracy.py`: absolute and relative errors, units in the last place, the first element that differs.
- `timing.py`: samples of several calls, round by round.
- `tuning.py`: the default schedule beside one that a search found.
- `autotuning.py`: the fastest of several configurations.
"""
