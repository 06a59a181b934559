"""lowering / fusion."""
