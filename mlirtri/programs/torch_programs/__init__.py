"""torch modules as programs: `mt.from_torch`, the backend of `torch.compile`, and kernels as torch's operators.

*Takes* a `torch.nn.Module`, an `ExportedProgram`, or Dynamo's graphs. *Gives* kernels that are called like the module.
*Refuses* what torch does not export, random numbers whose count depends on elements, and calls that differ from the
export.
`mlirtri/cli` and `mlirtri/__init__.py`, which loads it lazily, import this package.

- `program.py`: `from_torch` and `TorchProgram`
- `archives.py`: archives of `torch.export.save`, which may hold data alone
- `graphs.py`: an exported program to a `TorchGraph`, its tensors, and its calling convention
- `calling_convention.py`: arguments, results and sizes of a call
- `caches.py`: the caches of `transformers` as arguments and results
- `calling_json.py`: the same as JSON, for kernels that are saved
- `random_draws.py`: random tensors, drawn from torch's generator at each call; `lifted_draws.py` finds them in a graph
- `torch_kernel.py`: the kernel, which also writes the buffers and arguments that the module writes, and packs weights
  again that were written
- `flat_calls.py`: the fast path of calls with tensors alone
- `backend.py`: the backend of `torch.compile`
- `compile_report.py`: `mt.torch_report`, what it compiled and what torch runs eagerly
- `traced_functions.py`: AOTAutograd's graphs as kernels; `dynamic_graphs.py`: one for all sizes of a graph
- `custom_op.py`: `mt.torch_op`; `kernel_calls.py`: programs that call such operators, which are lowered with them;
  `partitions.py`: graphs of torch.compile, which are split at such operators
"""
