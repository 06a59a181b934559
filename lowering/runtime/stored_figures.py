"""What launches of CUDA kernels take, in a kernel's files: as they were when it was compiled.

Registers and spills are nvcc's to say, so they are not stored: a loaded kernel asks nvcc, as a compiled one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from mlirtri.errors import DeviceError
from mlirtri.lowering.core.launch_figures import Compiled, LaunchFigures
from mlirtri.lowering.toolchain.nvcc import resource_usage

_FIELDS = ("kernel", "grid", "block", "shared_bytes", "barriers", "bytes")


def compiled_by_nvcc(source: str, kernel: str, architecture: str) -> Compiled | None:
    """Return what nvcc makes of a kernel of a CUDA source for an architecture; None without nvcc."""
    return _usage(source, architecture).get(kernel)


@lru_cache(maxsize=32)
def _usage(source: str, architecture: str) -> dict[str, Compiled]:
    try:
        usage = resource_usage(source, architecture)
    except DeviceError:  # no nvcc
        return {}
    return {name: Compiled(*figures) for name, figures in usage.items()}


def figures_to_json(figures: Sequence[LaunchFigures]) -> list[dict[str, Any]]:
    """Return the figures of launches as JSON."""
    return [{name: getattr(each, name) for name in _FIELDS} for each in figures]


def figures_from_json(data: Sequence[dict[str, Any]], source: str) -> tuple[LaunchFigures, ...]:
    """Return the figures that `figures_to_json` wrote, of kernels of a CUDA source."""
    return tuple(_figures_of(each, source) for each in data)


def _figures_of(data: dict[str, Any], source: str) -> LaunchFigures:
    x, y, z = data["grid"]
    across, down, deep = data["block"]
    return LaunchFigures(
        data["kernel"], (x, y, z), (across, down, deep), data["shared_bytes"], data["barriers"], data["bytes"],
        partial(compiled_by_nvcc, source, data["kernel"]),
    )  # fmt: skip
