"""The registry of spellings, and helpers on the builder.

*Takes* functions of a builder and of a library function's parameters. *Gives* `Spelling` objects by qualified name.
*Refuses* a second spelling for one name.

Read in this order:

- `operand_kinds.py`: which parameters take numbers, integers or tensors, checked where arguments are bound.
- `spelling.py`: `Spelling`, the `Builder` protocol, `register` and the decorator `spelling`.
- `helpers.py`: axes, shapes and compile-time values of arguments.
- `contraction.py`: contractions of labelled axes. `tensor_products.py`: einsum, tensordot, kron, cross.
- `fourier.py`: discrete Fourier transforms of one axis.

The other packages of `dialect.spellings` may import it; `mlirtri/pages` reads `Spelling`.
"""
