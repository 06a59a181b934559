"""dialect / spellings."""
