"""dialect / spellings / torch_api."""
