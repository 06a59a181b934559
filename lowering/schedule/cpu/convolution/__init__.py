"""lowering / schedule / cpu / convolution."""
