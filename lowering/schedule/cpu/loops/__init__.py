"""The CPU rule for imperative functions: loops that the user wrote, in parallel, as vectors, products in tiles.

*Takes* a PrimFunc with the attribute ``mlirtri.imperative`` (`bridge.loops`). *Gives* a `Schedule` of the same function
with other loops. *Refuses* other functions with None; a loop that is not proven independent keeps its order.

Read in this order:

- `rule`: the scheduler, from the outermost loop on.
- `accesses`: loads and stores as linear forms of the loops' variables; which loops have independent iterations.
- `interchange`: marks these loops, and moves reductions inside of them.
- `fusion`: fuses neighbouring parallel loops.
- `vector_choice`: which loop of a nest is vectorised.
- `reductions`: partial results of reductions that a loop carries.
- `transposes`: loops whose loads and stores are contiguous along different loops.
- `products`: matrix products of dynamic sizes as contractions.
- `convolutions`: convolutions of a dynamic number of images.

`schedule.cpu` may import it.
"""
