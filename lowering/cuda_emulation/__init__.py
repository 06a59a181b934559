"""CUDA without a GPU: the emitted source, compiled by a C++ compiler, on a device that checks every access.

*Takes* CUDA source and a launch plan. *Gives* an executable of CPU tensors. *Refuses* PTX that it has no function for,
and at a launch what a device forbids, as a `DeviceCheckError`.

Read in this order:

- `executable.py`: compiles at the first launch, and runs.
- `translation.py`: CUDA source as C++, line by line. `ptx.py`: inline PTX as calls.
- `library.py`: the C++ compiler, and the library.
- `reports.py`: what the device reports, as errors on the kernel's line.
- `device/`: the emulated device in C++. `scheduler.cpp` runs threads. `access_checks.cpp` has the memory, and checks
  bounds and races; compiled kernels call it through `sanitizer_hooks.cpp`. The headers with names of CUDA's and
  `ptx.hpp` are what kernels include.

`codegen`, and `cache`, `cli` and `compiler` of mlirtri import it.
"""
