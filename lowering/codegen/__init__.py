"""Generate code through TVM's own lowering of TIR: scheduled → llvm, asm, cuda, ptx.

*Gives* `Code`: text, an executable, and what the next stage needs. *Refuses* what TVM, LLVM or nvcc refuse, as a
`CodegenError` on the user's line.

Read in this order:

- `scheduled_to_llvm.py`, `llvm_to_asm.py`: code for the CPU.
- `scheduled_to_cuda.py`, `cuda_to_ptx.py`: CUDA source, and nvcc's PTX.
- `cuda_figures.py`: what each launch takes, before there is a device.
- `emulated_launches.py`: what the host runs to launch CUDA functions on the emulated device.
- `cuda_to_llvm.py`: the host's code of a kernel that runs on the CPU and on a CUDA device.
- `targets.py`: TVM's target for a `Target`, facts of this CPU. `build_pipeline.py`: TVM's lowering of TIR, with the
  passes of `passes/` in it.
- `lowered_functions.py`: PrimFuncs lowered one by one, each once; CUDA source.
- `passes/`: TIR passes that TVM lacks.

`bridge`, `schedule` and the pipelines import it.
"""
