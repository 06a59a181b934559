"""lowering / toolchain."""
