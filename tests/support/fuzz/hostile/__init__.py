"""Damaged inputs for every entry point of the compiler, each run in a worker process with limits of time and memory.

Takes entry points (MLIR, bytecode, ONNX, archives of torch, stages, manifests…), a seed and a number of seconds. Gives how many
inputs were right, refused, or findings: other exceptions, dead processes, more than the limits.

Read in this order:

* `seeds.py`: valid inputs of each entry point.
* `mutations.py`: what damages them.
* `entries.py`: reads, compiles and calls an input.
* `__main__.py`: the driver and its worker.
"""
