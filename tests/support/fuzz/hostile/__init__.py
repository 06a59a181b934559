"""Damaged inputs for every door of the compiler, each run in a worker process with limits of time and memory.

Takes doors (MLIR, bytecode, ONNX, archives of torch, stages, manifests…), a seed and a number of seconds. Gives how many
inputs were right, refused, or findings: other exceptions, dead processes, more than the limits.

Read in this order:

* `seeds.py`: valid inputs of each door.
* `mutations.py`: what damages them.
* `doors.py`: reads, compiles and calls an input.
* `__main__.py`: the driver and its worker.
"""
