"""How fast compiled kernels are beside eager torch, ``torch.compile`` and NumPy, and beside what the machine can do.

``python -m benchmarks`` prints the table of goals (`docs/performance.md` says how to read it), ``python -m
benchmarks.rules`` compares each schedule rule with unscheduled loops, ``python -m benchmarks.networks`` times whole
networks, ``python -m benchmarks.models`` says which architectures compile, and ``python benchmarks/numpy_kernels.py``
times a suite of scientific kernels beside Numba.
"""
