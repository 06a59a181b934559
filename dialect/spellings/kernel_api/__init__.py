"""dialect / spellings / kernel_api."""
