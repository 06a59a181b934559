"""The configurations that `autotune` chooses from, and which of them are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.errors import KernelTypeError, KernelValueError, UnknownOptionError
from mlirtri.kernels.options import Options, language_options, resolved
from mlirtri.lowering.core.tracebacks import public


class Config:
    """One way to compile a kernel: values of its compile-time parameters, and how to compile.

    Two configurations with the same content are equal. `pre_hook` is called with all arguments by name before each
    run. Raises `UnknownOptionError` for an option that does not exist, `KernelTypeError` for what is no dictionary.
    """

    @public
    def __init__(
        self,
        kwargs: Mapping[str, Any] | None = None,
        *,
        pipeline: Any = None,
        schedule: str | None = None,
        target: str | None = None,
        unroll: int | None = None,
        pre_hook: Callable[[dict[str, Any]], Any] | None = None,
    ):
        if not isinstance(kwargs or {}, Mapping):
            raise KernelTypeError(
                f"a configuration is a dictionary of parameters, not {kwargs!r}", help='write mlirtri.Config({"n": 4})'
            )
        self.kwargs = dict(kwargs or {})
        self.options = Options(target, pipeline, schedule, unroll=unroll)
        self.pre_hook = pre_hook
        resolved(self.options)
        language_options(self.options)

    def all_kwargs(self) -> dict[str, Any]:
        """Return the values of parameters, and the options that are set."""
        names = ("pipeline", "schedule", "target", "unroll")
        values = {name: getattr(self.options, name) for name in names}
        return {**self.kwargs, **{name: value for name, value in values.items() if value is not None}}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(str(self))

    def _content(self) -> tuple[Any, ...]:
        return self.kwargs, self.options, self.pre_hook

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items()) or "default"

    def __repr__(self) -> str:
        return f"<mlirtri.Config {self}>"


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
