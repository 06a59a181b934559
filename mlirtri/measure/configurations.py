"""Which of the configurations that `autotune` chooses from are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.errors import KernelValueError, UnknownOptionError
from mlirtri.kernels.configuration import Config


@dataclass(frozen=True)
class Pruning:
    """The choice of configurations to measure."""

    early: Callable[..., Any] | None = None
    model: Callable[..., float] | None = None
    top: float | int = field(default=1.0)

    def pruned(self, configs: Sequence[Config], named: dict[str, Any]) -> tuple[Config, ...]:
        """Return the valid configurations, limited to the `top` best by the model; raises `KernelValueError`."""
        remaining = tuple(configs) if self.early is None else tuple(self.early(list(configs), dict(named)))
        if not remaining:
            raise KernelValueError(
                "early_config_prune left no configuration", help="let it give at least one of those that it takes"
            )
        if self.model is None:
            return remaining
        count = max(1, math.floor(self.top * len(remaining))) if isinstance(self.top, float) else self.top
        ranked = sorted(remaining, key=lambda config: self.model(**{**named, **config.all_kwargs()}))
        return tuple(ranked[:count])


def as_pruning(options: Mapping[str, Any] | None) -> Pruning:
    """Return `autotune`'s ``prune_configs_by``; raises `UnknownOptionError` for unknown keys."""
    fields = {"early_config_prune": "early", "perf_model": "model", "top_k": "top"}
    unknown = [name for name in options or {} if name not in fields]
    if unknown:
        raise UnknownOptionError(f"prune_configs_by has no {unknown[0]!r}", help=f"its keys are {', '.join(fields)}")
    pruning = Pruning(**{fields[name]: value for name, value in (options or {}).items()})
    if isinstance(pruning.top, bool) or not isinstance(pruning.top, (int, float)) or pruning.top <= 0:
        raise UnknownOptionError(f"top_k is a number or a fraction, not {pruning.top!r}", help="write top_k=4 or 0.5")
    return pruning
