"""The empty module that MLIR's bindings import for the `tri` dialect, which `definition` loads.

The bindings retry a failed import at every operation: hence this module.
"""
