"""Analyses and rewrites of imperative functions that the CPU's and CUDA's rules share.

An imperative function is a PrimFunc of statements, with loops, branches and stores, instead of one SBlock per tensor.

*Takes* its statements. *Gives* facts about loops and stores, and the same statements in other loops, without threads
or vectors. *Refuses* with None, or returns the statements as they are, where a rewrite is not proven correct.

Read in this order:

- `accesses.py`: loads and stores as linear forms of the loops' variables; which loops have independent iterations.
- `interchange.py`: marks these loops, and moves reductions inside of them.
- `vector_choice.py`: which loop of a nest is contiguous in memory, and so vectorised.
- `fusion.py`: fuses neighbouring parallel loops.
- `allocations.py`: buffers that one loop alone uses are allocated in it.
- `carried_sums.py`: scalar buffers that a loop reduces into.
- `perfect_nests.py`: nests around one store.
- `summed_products.py`: loops over products as one product with a longer sum.

`schedule.cpu.loops` and `schedule.cuda` import it.
"""
