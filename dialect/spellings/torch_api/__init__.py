"""The functions of `torch` and `torch.nn.functional`, with torch's signatures, defaults and results.

*Takes* a builder and the arguments of a call. *Gives* tensors of the builder, Python values, or tuples.
*Refuses* what the function refuses, and parameters that mlirtri does not support.

One file per kind of function: `elementwise.py`, `arrays.py` (creation, reductions), `shapes.py`, `sequences.py` (scans,
sorts, searches), `products.py`, `fourier.py`, `networks.py` (activations, norms, attention),
`windows.py` (convolutions, pooling), `types_and_names.py` (dtypes, second names).
Read `elementwise.py` first.

`kernel_api` shares some of its functions; otherwise only `spellings/registry.py` imports it.
"""
