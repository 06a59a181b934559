"""What marks tile kernels from the frontend to their schedules."""

from __future__ import annotations

TILE_KERNEL = "mlirtri.tile_kernel"
"""Attribute of a function with a ``with T.Kernel(…)``: the number of threads of a block."""
STAGES = "mlirtri.stages"
"""Attribute of a pipelined loop: the ``num_stages`` of ``T.Pipelined``."""
BLOCKS = "mlirtri.blocks"
"""Attribute of a loop over the blocks along one axis of a grid."""
