"""Decompositions of ATen's elementwise operators on real numbers.

*Takes* operands of an operator in a trace: tensors, Python numbers, sizes. *Gives* what eager computes, with eager's
dtype, NaN and overflow. *Refuses* nothing: a rule returns `NotImplemented` and the operator stays. `table.py` of the
package around this one imports every module.

- `integers.py`: integer arithmetic and powers, and operators on a tensor and a Python number
- `floats.py`: activations and arithmetic for which torch-mlir loses NaN, infinity or precision
- `comparisons.py`: comparisons and predicates; `bits.py`: functions of the bits
- `special_functions.py`, `bessel_functions.py`, `orthogonal_polynomials.py`: series and recurrences
"""
