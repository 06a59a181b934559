"""Graphs of kernels: several calls that were recorded, lowered to one function of the `tri` dialect.

*Takes* the kernels' calls on symbolic values, as `mlirtri.graph` records them. *Gives* stage `graph`, a listing, and a
module with one `func.func`, each call inlined in order. *Refuses* calls that the kernels refuse outside of a graph.
`mlirtri/kernels` and the table of stages import this package.

- `kernel_graph.py`: the recorded calls, values by number
- `graph_to_tri.py`: one function of them; checks of calls while they are recorded
"""
