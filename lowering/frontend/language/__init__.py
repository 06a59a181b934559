"""Define what functions and operators of the kernel language mean, in `tri` operations.

Operands are cast as NumPy or torch would, axes and shapes normalised, operands of run-time sizes sliced to a common
size. *Refuses*, with an error message, what the library refuses.

Read in this order:

- `builder.py`: `Language`, one method per function; elementwise functions; checks at run time.
- `shapes.py`, `arrays.py`, `reductions.py`, `complex_numbers.py`: the other functions by topic, each ``name(b, …)``.
- `linear_algebra.py`: `numpy.linalg` in the kernel language itself: LU, Cholesky, solving, inverses, determinants.
- `matrix_factors.py`: the same, QR, eigenvalues, singular values and what follows from them.
- `random_generator.py`: the generator of `numpy.random`. `random_numbers.py`: the numbers that are drawn from it.
  `ziggurat_tables.py`: the tables of two distributions.
- `ufunc_methods.py`: `reduce`, `accumulate`, `reduceat`, `outer`, `at` of ufuncs.
- `random_distributions.py`: gamma, Poisson, binomial and other numbers.
- `array_functions.py`: writes at positions, insertion, bits, histograms, polynomials.
- `torch_functions.py`: torch's composed arithmetic, distances, scatters. `torch_losses.py`: its losses and
  normalisations. `torch_images.py`: its windows, pixel shuffles and interpolation.
- `library_functions.py`: other functions that need a loop, and the table of all inlined functions.
- `dynamic_sizes.py`: run-time sizes and indices in linear form. `fixed_sizes.py`: those that arguments decide.
- `index_checks.py`: checks that indices are inside. `value_ranges.py`: the range of integers, which proves some.
- `storage.py`: the memory of arrays, and the view operations from it to a tensor.
- `strides.py`: whether a reshape of a view is a view.
- `pointers.py`: `match_buffer`, arrays with sizes and strides over the memory of a pointer.
- `merging.py`: the common type of a value after two branches, or of two iterations.
- `scf.py`: builders of `scf` operations around tensors.
- `debugging.py`: the log of `device_print`; `breakpoint()`.

Imported by `lowering.frontend`, and `debugging` by `lowering.interpreter`.
"""
