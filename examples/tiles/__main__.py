"""Run all examples in two pipelines and print the largest error of each: ``python examples/tiles``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tiles import EXAMPLES

for name, example in EXAMPLES.items():
    errors = [f"{pipeline} {example.error(pipeline):.1e}" for pipeline in ("linalg", "mlir")]
    print(f"{name:24} {', '.join(errors)}")
