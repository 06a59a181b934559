"""Decompositions of ATen's operators on matrices: products, factorizations, eigenvalues, norms, Fourier transforms.

*Takes* the matrices of an operator in a trace, with leading batch axes. *Gives* what eager computes, in products, loops
and elementwise operators. *Refuses* nothing: a rule returns `NotImplemented` and the operator stays. `table.py` of the
package around this one imports every module.

- `matrix_products.py`: products of matrices and vectors, by dtype; `experts.py`: products of groups of rows
- `norms.py`: norms of vectors and matrices, distances
- `linear_algebra.py`: LU, Cholesky, solving, inverses, determinants, by calls of the library of kernels
- `householder.py`: QR, and operators on its reflections
- `spectra.py`: eigenvalues, singular values, pseudo-inverses, exponentials
- `lapack.py`: what routines of LAPACK return, for programs that call them
- `fourier.py`: discrete Fourier transforms
"""
