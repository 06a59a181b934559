"""dialect / spellings / numpy_api."""
