"""Code shared by the CPU's schedule rules: flat loop nests, strip-mining, vectors, transposes, tile sizes, threads.

*Takes* blocks of a PrimFunc and statements of TIR. *Gives* loop nests over flat memory, and the statements of
vectorised, tiled and parallel loops. *Refuses* by None, or `DivergentLanesError`, a loop without such a form.

Read in this order:

- `profitability.py`: when several threads are profitable, and the loops that run on them.
- `nest.py`: a block as loops over flat buffers (`FlatNest`).
- `vector_stores.py`: one store for several neighbouring iterations.
- `strips.py`: a loop body for several iterations at once, as vectors or unrolled.
- `register_transposes.py`: square tiles that are transposed in registers.
- `contraction_tiles.py`: the register tiles of contractions, and the number of lanes.
- `loops.py`: steps of a TVM `Schedule` for the plain rules and for nests beside a product.

Every package of `schedule.cpu` may import it.
"""
