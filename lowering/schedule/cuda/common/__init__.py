"""What CUDA's schedule rules share: phases between barriers, instructions of a GPU, copies of tiles, atomic functions.

*Takes* buffers, loops and expressions of a PrimFunc. *Gives* statements and calls. *Refuses* nothing.

- `phases.py`: kernels as phases between barriers.
- `instructions.py`: the instructions for tensor cores and asynchronous copies.
- `whole_copies.py`: copies of tiles that reach over an array's edge.
- `atomic_calls.py`: the functions that update elements which threads share.

`schedule.cuda` and its packages import it.
"""
