"""lowering / schedule / cpu / matmul."""
