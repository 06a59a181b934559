"""Lowerings that do not end, or end their process: modules of their own, so that a worker can import them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import mlirtri as mt


def sleep(ir: Any, context: Any) -> Any:
    time.sleep(600)
    return ir


def crash(ir: Any, context: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)
    return ir


def with_stage(lowering: Any) -> mt.Pipeline:
    """Return pipeline `mlir` with a stage after `linalg` that only its name distinguishes from others."""
    return mt.Pipeline.named("mlir").insert_after("linalg", mt.Stage(lowering.__name__, "mlir", lowering))
