"""lowering / schedule / cpu / nests."""
