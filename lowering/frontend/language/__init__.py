"""What functions and operators of the kernel language mean, in `tri` operations.

Takes tensors and Python numbers. Gives tensors: operands are cast as NumPy or torch would, axes and shapes normalised,
sizes of run time aligned. Refuses, with a sentence, what the library refuses.

Read in this order:

- `builder`: `Language`, one method per function; elementwise functions; checks at run time.
- `shapes`, `arrays`, `reductions`, `complex_numbers`: the other functions by topic, each ``name(b, …)``.
- `linear_algebra`: `numpy.linalg` in the kernel language itself.
- `dynamic_sizes`: sizes and indices of run time in linear form.
- `storage`, `views`: memory behind names, and the view operations from it to a tensor.
- `merging`: one type for the values of two branches, or of two iterations.
- `scf`: builders of `scf` operations around tensors.
- `device_prints`: the log of `device_print`.

Imported by `lowering.frontend` alone.
"""
