"""Define what functions and operators of the kernel language mean, in `tri` operations.

Operands are cast as NumPy or torch would, axes and shapes normalised, operands of run-time sizes sliced to a common
size. Refuses, with an error message, what the library refuses.

Read in this order:

- `builder`: `Language`, one method per function; elementwise functions; checks at run time.
- `shapes`, `arrays`, `reductions`, `complex_numbers`: the other functions by topic, each ``name(b, …)``.
- `linear_algebra`: `numpy.linalg` in the kernel language itself.
- `dynamic_sizes`: run-time sizes and indices in linear form.
- `storage`: the memory of arrays, and the view operations from it to a tensor.
- `merging`: the common type of a value after two branches, or of two iterations.
- `scf`: builders of `scf` operations around tensors.
- `debugging`: the log of `device_print`; `breakpoint()`.

Imported by `lowering.frontend`, and `debugging` by `lowering.interpreter`.
"""
