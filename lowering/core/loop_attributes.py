"""Names of attributes of functions and loops that stages of MLIR write and schedules of TIR read."""

from __future__ import annotations

TILE_KERNEL = "mlirtri.tile_kernel"
"""Attribute of a function with a ``with T.Kernel(…)``: the number of threads of a block."""
STAGES = "mlirtri.stages"
"""Attribute of a pipelined loop: the ``num_stages`` of ``T.Pipelined``."""
BLOCKS = "mlirtri.blocks"
"""Attribute of a loop over the blocks along one axis of a grid."""
TRIPS = "mlirtri.trips"
"""Attribute of a loop whose extent depends on outer loops: its usual trip count, for the cost model."""
NARROWED_SUM = "mlirtri.narrowed_sum"
"""Attribute of a loop that adds to an fp64 which nothing reads but casts to fp32: not every term needs fp64."""
