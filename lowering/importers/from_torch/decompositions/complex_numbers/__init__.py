"""Decompositions of ATen's operators on complex tensors into operators on their real and imaginary parts.

*Takes* operands of an operator in a trace, of which the first or the second is complex. *Gives* what eager computes.
*Refuses* nothing: a rule returns `NotImplemented` and the operator stays. `table.py` of the package around this one
imports both modules, and `elementwise/` and `reductions.py` use their arithmetic.

- `tensors.py`: arithmetic, creation and movement of complex tensors
- `functions.py`: powers, reciprocals, signs and reductions
"""
