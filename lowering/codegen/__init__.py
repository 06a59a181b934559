"""Generate code through TVM's own lowering of TIR: scheduled → llvm, asm, cuda, ptx.

*Gives* `Code`: text, an executable, and what the next stage needs. *Refuses* what TVM, LLVM or nvcc refuse, as a
`CodegenError` on the user's line.

Read in this order:

- `scheduled_to_llvm.py`, `llvm_to_asm.py`: code for the CPU.
- `scheduled_to_cuda.py`, `cuda_to_ptx.py`: CUDA source, and nvcc's PTX.
- `cuda_figures.py`: what each launch takes, before there is a device.
- `emulated_launches.py`: the host's half of CUDA functions for the emulated device.
- `cuda_to_llvm.py`: the host's half of a kernel on both kinds of devices.
- `targets.py`: our targets as TVM's, facts of this CPU. `build_pipeline.py`: TVM's lowering with our passes in it.
- `lowered_functions.py`: PrimFuncs lowered one by one, each once; CUDA source.
- `passes/`: TIR passes of ours within TVM's lowering.

`bridge`, `schedule` and the pipelines import it.
"""
