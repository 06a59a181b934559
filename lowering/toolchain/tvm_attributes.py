"""Names of the attributes and annotations of Relax and TIR that one stage writes and another one reads.

Those of MLIR operations stand in `lowering/mlir/attributes.py`.
"""

from __future__ import annotations

LOCATION = "mlirtri.loc"
"""Annotation of an SBlock or a loop: ``"/abs/file.py:line:column"`` of the user's expression that it computes."""
BINDING_LOCATIONS = "mlirtri.locations"
"""Attribute of the Relax function: name of a binding to its ``"/abs/file.py:line:column"``."""
KERNEL_LOCATIONS = "mlirtri.lines"
"""Attribute of a scheduled PrimFunc: the locations of all its blocks, those that a schedule inlined away included."""
IMPERATIVE = "mlirtri.imperative"
"""Attribute of a PrimFunc that is statements, not a loop nest around one block."""
PARALLEL = "mlirtri.parallel"
"""Annotation of a loop of an imperative PrimFunc whose iterations are independent."""
EXACT_BUFFERS = "mlirtri.exact_buffers"
"""Attribute of a PrimFunc whose buffers no pass can shrink; to find that out takes TVM seconds."""
SCHEDULE_RULE = "mlirtri.schedule"
"""Attribute of a scheduled PrimFunc: the name of the rule that scheduled it."""
SCHEDULE_FAILURES = "mlirtri.schedule_failures"
"""Attribute of a PrimFunc: what the rules said that failed on it."""
IS_SCHEDULED = "tirx.is_scheduled"
"""Attribute of a PrimFunc that no rule may schedule again; TVM's own passes read it, too."""
