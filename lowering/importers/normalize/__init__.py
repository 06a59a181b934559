"""Any MLIR of linalg on tensors → the normal form of `linalg` that fusion, bridge and MLIR's backend take.

*Takes* a module as another tool or importer wrote it, with several functions, globals, scalars, `affine`, `complex`,
`tm_tensor`, 8-bit floats or dynamic shapes. *Gives* one public function of tensors over `linalg`, `tensor`, `arith`,
`math`, `complex` parts and `scf`, defined for all operands and in bounds for all indices. *Refuses* recursion, memrefs,
irreducible control flow, what no target can store, and operations of unknown dialects. Imported by the other importers,
`lowering/pipelines.py`, `mlirtri/programs` and the coverage page.

Read `mlir_to_linalg.py` first: it lists the steps in the order in which they run.

- `mlir_to_linalg.py`: `lower`, and the list of steps
- `inline_entry.py`: one function, all calls inlined
- `control_flow.py`: branches between blocks, `affine` and parallel loops → `scf`
- `global_variables.py`: `ml_program.global` → constants and state
- `constants.py`: large constants → bound parameters
- `refused_programs.py`: programs that are too large, unknown operations
- `signatures.py`: scalar arguments and results → rank-0 tensors
- `storage_types.py`: 8-bit floats, odd widths and signs → signless integers of 8 to 64 bits
- `sizes/`: dynamic shapes
- `decompositions.py`: `linalg.pack`, `tensor.pad`, `tensor.gather`, `index` and others → simpler operations
- `complex_numbers.py`: `complex` → real and imaginary parts
- `tm_tensor.py`, `tm_tensor_attention.py`: scan, scatter, sort, top-k and attention of torch-mlir
- `asserts.py`: `cf.assert` → results that are checked after the call
- `empty_tensors.py`: tensors without elements, and of undefined elements
- `partial_outputs.py`: generics that do not write each output element once → loops
- `arithmetic/`: arithmetic defined for all operands
- `bodies.py`: straight-line bodies, clamped indices
"""
