"""lowering / bridge / loops."""
