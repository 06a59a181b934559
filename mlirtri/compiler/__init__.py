"""The loop over the stages of a pipeline, and the hooks between two stages: print, verify, dump, substitute a file.

*Takes* the input of a first stage, a `Pipeline` and a `CompileContext`.
*Gives* a `Compilation`: text and time of every stage, and the executable that the last one made.
*Refuses* what a stage refuses, and IR text that does not parse or does not fit the kernel (`ParseError`).
`kernels`, `programs`, `measure` and `cli` import it. All files but `records.py`, `compile_lock.py`, `traces.py` and
`versions.py` load MLIR.

- `records.py`: what a compilation leaves behind: text, time and IR of each stage, and the failed steps that `mlirtri
  doctor --last` shows. `versions.py`: versions of the compilers, and a digest of our sources.
- `compile_lock.py`: one compilation at a time, without full garbage collections, as exports of torch are.
- `stage_loop.py`: the loop over the stages, with a progress bar while schedules are searched for.
- `printing.py`: prints the IR of a stage, and parses it again.
- `isolation.py`: parses MLIR from elsewhere in another process first, because a bad text can crash the parser.
- `observe.py`: the hook between stages, made from arguments and settings.
- `traces.py`: what trace pages show, and those that are written meanwhile, `MLIRTRI_TRACE`.
- `verify.py`: the operations that each stage may hold.
- `user_stages.py`: checks what a stage that a user added returns.
- `dumps.py`: stages, manifest and parameters as files.
- `interfaces.py`: how to call a function of MLIR. `interface_json.py`: the same in a manifest.
- `relax_modules.py`: interface and checks of TVM's modules; it loads TVM, so the others import it late.
"""
