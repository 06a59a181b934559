"""The CPU rule for imperative functions: loops that the user wrote, in parallel, as vectors, products in tiles.

*Takes* a PrimFunc with the attribute ``mlirtri.imperative`` (`bridge.loops`). *Gives* a `Schedule` of the same function
with other loops. *Refuses* other functions with None; a loop that is not proven independent keeps its order.

Read in this order:

- `rule.py`: the scheduler, from the outermost loop on.
- `accesses.py`: loads and stores as linear forms of the loops' variables; which loops have independent iterations.
- `interchange.py`: marks these loops, and moves reductions inside of them.
- `fusion.py`: fuses neighbouring parallel loops.
- `vector_choice.py`: which loop of a nest is vectorised.
- `reductions.py`: partial results of reductions that a loop carries.
- `transposes.py`: loops whose loads and stores are contiguous along different loops.
- `products.py`: matrix products of dynamic sizes as contractions.
- `convolutions.py`: convolutions of a dynamic number of images.

`schedule.cpu` may import it.
"""
