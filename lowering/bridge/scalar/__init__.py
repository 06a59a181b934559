"""lowering / bridge / scalar."""
