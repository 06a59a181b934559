"""Refuse parallel loops whose iterations depend on each other.

*Takes* a module of the `tri` dialect, whose loops that the user declared parallel (`mt.prange`, `mt.ndrange`) carry the
attribute `DECLARED_PARALLEL`. *Gives* nothing: it only looks. *Refuses* with `LoopDependenceError` a loop in
which an iteration reads or writes what another one writes, unless all of them only add to it, multiply it, or take an
extremum of it: a reduction. What is not proven independent is refused, too. Of tile kernels refuses pipelined loops
whose copies would start too early, and blocks that overwrite each other's results.

Read in this order:

- `declared_loops.py`: the check of each loop with the attribute.
- `tile_loops.py`: pipelined loops and grids of tile kernels.
- `index_forms.py`: indices as linear forms of induction variables and loop-invariant values.
- `accesses.py`: the regions of arrays that a loop's body reads and writes; reductions.
- `congruences.py`: conditions and steps under which an access runs, such as one colour of two.
- `extents.py`: intervals that never overlap.
- `symbolic_strides.py`: strides that are known at run time only, and pairs whose elements one iteration exchanges.
- `distances.py`: the iterations between two accesses of one element.

`lowering.frontend` and `lowering.mlir_backend.loops` may import it.
"""
