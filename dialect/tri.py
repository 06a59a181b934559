"""Where MLIR's bindings look for the Python side of the `tri` dialect, whose classes `definition` makes.

They look once for each dialect that they find, and at every operation for one that they do not: hence this module.
"""
