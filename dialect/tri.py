"""The empty module that MLIR's bindings import for the `tri` dialect, whose classes `definition` creates.

The bindings retry a failed import at every operation: hence this module.
"""
