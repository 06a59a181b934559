"""How MLIR's and TVM's passes are run, and the only two modules that import TVM.

*Takes* modules, lists of passes and the compile context.
*Gives* modules; the context records the text after every pass.
*Refuses* unknown passes, and versions of TVM other than the pinned ones. A failed pass is a `PassFailedError`.

Read in this order:

- `mlir_passes.py`: upstream MLIR passes, one by one.
- `worker_process.py`: runs work that can crash or hang in another process. `isolated_passes.py`: MLIR passes in one.
  `worker_pool.py`: several at the same time.
- `nvcc.py`: NVIDIA's compiler, where it is on PATH.
- `tvm_runtime.py`: what runs compiled code, without TVM's compiler. `cuda_code.py`: CUDA sources to
  the machine code that it loads.
- `tvm_names.py`: the only importer of TVM's compiler: modules, types, helpers; names of our attributes.
  `tvm_loading.py`: what makes that import cheap.
- `tvm_passes.py`: TVM's passes, one by one. `tvm_text.py`: TVMScript to read, and back.

Every package may import it; only packages of stage `relax` and later import the files that load TVM.
"""
