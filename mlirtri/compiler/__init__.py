"""The compile loop, and what happens between two stages: print, verify, dump, take an edited file, read it back.

*Takes* the input of a first stage, a `Pipeline` and a `CompileContext`.
*Gives* a `Compilation`: text and time of every stage, and the executable that the last one made.
*Refuses* what a stage refuses, and IR text that does not parse or does not fit the kernel (`ParseError`).
`kernels`, `programs`, `measure` and `cli` import it. All files but `records.py`, `compile_lock.py`, `traces.py` and
`versions.py` load MLIR.

- `records.py`: what a compilation leaves behind: text, time and IR of each stage, and the failed steps that `mlirtri
  doctor --last` shows. `versions.py`: versions of the compilers, and a digest of our sources.
- `compile_lock.py`: one compilation at a time, without full garbage collections, as exports of torch are.
- `stage_loop.py`: the loop over the stages, with a progress bar while schedules are searched for.
- `printing.py`: the texts of a stage, and the way back from text.
- `isolation.py`: parses MLIR that others wrote in another process first.
- `observe.py`: the hook between stages, made from arguments and settings.
- `traces.py`: what trace pages show, and those that are written meanwhile, `MLIRTRI_TRACE`.
- `verify.py`: the operations that each stage may hold.
- `user_stages.py`: what a user's stage may give.
- `dumps.py`: stages, manifest and parameters as files.
- `interfaces.py`: how to call a function of MLIR. `interface_json.py`: the same in a manifest.
- `relax_modules.py`: interface and checks of TVM's modules; it loads TVM, so the others import it late.
"""
