"""Compare all examples with NumPy in two pipelines, and print their tasks: ``python examples/elements``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


import mlirtri as mt
from elements import EXAMPLES

for example in EXAMPLES.values():
    for pipeline in ("linalg", "mlir"):
        example.check(pipeline)
    print(mt.jit(example.kernel).compile(*example.make(1)).tasks)
