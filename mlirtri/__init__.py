"""mlirtri: a kernel compiler from plain Python through MLIR and TVM Relax to CPU code and CUDA source."""
