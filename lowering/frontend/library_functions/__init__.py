"""Functions of NumPy and torch in the kernel language, which the frontend inlines where they are called.

Python never runs them, but those that a file lists in `COMPILE_TIME`. *Takes* a call of a library's function or method.
*Gives* the Python function that means the same. *Refuses* by `refuse(…)` what the library refuses, and by
`require_value(…)`, `require_index(…)` at run time.

Read in this order:

- `inlined.py`: the table of all of them, how a call finds one, and their checks; `gcd`, `ldexp`, `unique`.
- `array_functions.py`: writes at positions, insertion, bits, histograms. `polynomials.py`: their sums, products, fits.
- `ufunc_methods.py`: `reduce`, `accumulate`, `reduceat`, `outer`, `at` of ufuncs.
- `linear_algebra.py`: `numpy.linalg`: LU, Cholesky, solving, inverses, determinants. `matrix_factors.py`: QR,
  eigenvalues, singular values and what follows from them.
- `random_generator.py`: the generator of `numpy.random`. `random_numbers.py`, `random_distributions.py`: the numbers
  that are drawn from it. `ziggurat_tables.py`: the tables of two distributions.
- `set_functions.py`: sets, and NumPy's functions that take functions.
- `special_functions.py`: gamma, Bessel and inverse error functions; exponents and neighbours of floats.
- `torch_arrays.py`: arrays, statistics and factors of torch that few programs use.
- `torch_functions.py`: torch's composed arithmetic and distances. `torch_indexing.py`: its elements by positions and
  masks, scatters. `torch_losses.py`: its losses and normalisations. `torch_images.py`: its windows, pixel shuffles,
  interpolation, samples. `torch_pools.py`: its pools with positions, and their inverses. `torch_statistics.py`: its
  statistics, comparisons and arrangements. `torch_matrices.py`: its linear algebra, recurrent cells and other networks.

Imported by `lowering.frontend`, decompositions of torch programs, and `inlined` by `mlirtri.pages`.
"""
