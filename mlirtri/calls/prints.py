"""Prints what a kernel's `device_print` statements left in its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.lowering.core.interface import PrintLog, PrintSite


def print_log(log: PrintLog, results: Sequence[Any]) -> None:
    """Every print of the call on its line, in order; says how many more there were than the log holds."""
    rows, count = results[log.index].cpu().numpy(), int(results[log.count].item())
    for row in rows[: min(count, len(rows))]:
        number, *values = row
        print(_line(log.sites[int(number)], iter(values)))
    if count > len(rows):
        print(f"… and {count - len(rows)} more prints")


def _line(site: PrintSite, values: Iterator[float]) -> str:
    return " ".join(part if isinstance(part, str) else _shown(part, values) for part in site.parts)


def _shown(part: TensorType, values: Iterator[float]) -> str:
    numbers = [next(values) for _ in range(part.size or 0)]
    array = np.array(numbers, np.float64).astype(part.dtype.numpy).reshape(part.shape)
    return str(array) if part.rank else str(array.item())
