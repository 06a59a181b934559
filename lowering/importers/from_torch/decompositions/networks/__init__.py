"""Decompositions of ATen's operators of neural networks: layers, attention, losses, quantisation.

*Takes* operands of an operator in a trace. *Gives* what eager computes, in products, loops and elementwise operators.
*Refuses* nothing: a rule returns `NotImplemented` and the operator stays. `table.py` of the package around this one
imports every module, and `mlirtri/programs/torch_programs` the attention of `layers.py`.

- `layers.py`: attention, norms and embedding bags; `flash_attention.py`: attention that torch differentiates
- `recurrent.py`: LSTM, GRU and plain recurrent layers, as loops
- `losses.py`: cross entropies that torch computes in chunks
- `quantized.py`: torch's quantisation, with scales and zero points as tensors
"""
