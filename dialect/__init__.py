"""The vocabulary: dtypes, the op table, the `tri` dialect. Knows MLIR, not TVM."""
