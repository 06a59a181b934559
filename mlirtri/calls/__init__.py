"""From a Python call to an executable: tensors and arrays in, results out.

*Takes* the `Interface` of a kernel, its `Executable`, and the arguments of a call: torch tensors, NumPy arrays,
numbers.
*Gives* results of the library that was called with, without copying contiguous arguments.
*Refuses* arguments of another type, device or layout (`ArgumentMismatchError`, `KernelTypeError`, `DeviceError`).
`kernels`, `measure` and `programs.torch_programs` import it. It loads torch.

- `runtime.py`: `Runner`, the general way of a call, and the choice of a shorter one; prints of the kernel.
- `entries.py`: one argument as the tensor that the executable reads.
- `arrays.py`: views between NumPy's arrays, torch's tensors and what executables take.
- `updates.py`: arguments that the kernel writes.
- `dynamic_shapes.py`: shapes of results where sizes are known at run time only.
- `plain.py`: which arguments a compiled function takes as they are; every short way asks it.
- `direct_calls.py`: the short way into a few launches of static shapes, as generated Python.
- `remembered_calls.py`: the short way for shapes that were called before.
"""
