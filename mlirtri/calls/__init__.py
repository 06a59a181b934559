"""From a Python call to an executable: tensors and arrays in, results out.

*Takes* the `Interface` of a kernel, its `Executable`, and the arguments of a call: torch tensors, NumPy arrays,
numbers.
*Gives* results of the library that was called with, without copying contiguous arguments.
*Refuses* arguments of another type, device or layout (`ArgumentMismatchError`, `KernelTypeError`, `DeviceError`).
`kernels`, `measure` and `programs.torch_programs` import it. It loads torch.

- `runtime.py`: `Runner`, the general way of a call; prints of the kernel.
- `argument_conversion.py`: one argument as the tensor that the executable reads.
- `arrays.py`: views between NumPy's arrays, torch's tensors and what executables take.
- `updates.py`: arguments that the kernel writes.
- `dynamic_shapes.py`: shapes of results where sizes are known at run time only.
- `short_calls.py`: the short call, Python written for the classes of arguments that a kernel was called with. Arrays
  need no torch. `call_source.py` writes a branch of it with `call_parts.py`, `call_memory.py` knows its memory,
  `callee.py` what it has to know of the kernel, `torch_guards.py` how torch's tensors are checked.
"""
