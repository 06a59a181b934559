"""Make functions traceable that torch.export does not trace.

*Takes* the functions of torch that a module calls while torch traces it. *Gives* traceable ones with the same results.
*Refuses* most functions of quantised tensors, and writes to `tensor.data`. Only `mlirtri/programs/torch_programs`
imports this package.

- `traceable_modules.py`: the mode that replaces functions, and operators on Python numbers
- `data_dependent_functions.py`: functions whose C++ reads elements
- `eager_strides.py`: eager's order in memory, where views of the program rely on it
- `eager_layouts.py`: eager's order in memory where torch.export infers another one
- `ctc_losses.py`: losses of sequences without alignment
- `quantized_tensors.py`: quantised tensors as integers, scale and zero point
"""
