"""What several lowerings of MLIR share: reading, building and analysing operations, and names of attributes.

*Takes* operations, values and types of MLIR; knows no TVM.
*Gives* new operations at the insertion point, or facts; a file that rewrites in place says so.
*Refuses* element types without a NumPy dtype or a TVM dtype, and sizes that are not known where they have to be.

Read in this order:

- `attributes.py`: the attributes of functions, arguments and results that one stage writes and another reads.
- `attribute_checks.py`: those of a text from elsewhere, checked.
- `reading.py`: types, constants and affine expressions. `index_bounds.py`: ranges of integer values.
- `constants.py`: elements of constants to NumPy arrays, and back.
- `index_values.py`: values of type `index`, sizes of axes, loop nests.
- `linalg_builder.py`: `generic`, `empty`, `filled`, `reshape`; generics from named operations and from regions.
- `cloning.py`: copies of operations. `aliasing.py`: which tensors share a buffer after bufferization.
- `imperative.py`: which functions are compiled as loops. `readable_names.py`: names of kernels.
- `memory_spaces.py`: the attribute that says where the tiles of a tile kernel lie.
- `merge_sort.py`: a stable sort in scf. `narrow_floats.py`: fp16 and bf16 rounding in integer arithmetic.

Every lowering that knows MLIR may import it, and so may `mlirtri`.
"""
