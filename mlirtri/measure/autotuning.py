"""`@autotune`: measure several configurations of a kernel and use the fastest.

A call whose key is new runs each configuration on copies of its arguments and keeps the fastest. Configurations that
do not compile or run are skipped; if all fail, the call raises.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from numbers import Real
from typing import Any

from mlirtri import settings
from mlirtri.compiler.versions import versions
from mlirtri.errors import (
    ArgumentMismatchError,
    KernelError,
    KernelTypeError,
    KernelValueError,
    UnknownNameError,
    UnknownOptionError,
    did_you_mean,
)
from mlirtri.kernels.argument_text import data_for, device_for
from mlirtri.kernels.configuration import Config
from mlirtri.kernels.jit import JitFunction
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, content_key, resolved
from mlirtri.kernels.parallel import Means, compile_all, compile_here, usable_cpus
from mlirtri.language.arguments import is_array, is_torch
from mlirtri.language.names import Tensor
from mlirtri.language.signature import key_of
from mlirtri.lowering.core.forks import renewed
from mlirtri.lowering.core.tracebacks import hide_frames, public
from mlirtri.lowering.core.tuning import recall, remember
from mlirtri.measure.copies import copied, restore, written
from mlirtri.measure.timing import Timed, samples, wait_for

TUNING = renewed(threading.RLock())
"""One at a time: kernels that are measured side by side slow each other down."""
_BUDGET_SECONDS = 0.1
"""What timing takes per configuration."""
WORKERS_START = 8.0
"""Seconds that other processes take before they compile: less than this is not worth them."""
Bench = Callable[[Callable[[], Any]], float]


@dataclass(frozen=True)
class Choice:
    """The fastest configuration of a key, and each one's seconds, infinite if it does not run."""

    config: Config
    timings: dict[Config, float] = field(default_factory=dict)
    seconds: float = 0.0
    """How long measuring took."""


class AutotunedFunction:
    """A jit function decorated by `@autotune`, called without the parameters that configurations set."""

    def __init__(
        self, function: JitFunction, configs: Sequence[Config], key: Sequence[str] | None, pruning: Pruning,
        resets: _Resets, bench: Bench | None, is_kept: bool,
    ):  # fmt: skip
        functools.update_wrapper(self, function, updated=())
        self.fn = function
        self.configs = tuple(configs)
        self.key = None if key is None else tuple(key)
        self.cache: dict[Any, Config] = {}
        """Key to the configuration that was fastest for it."""
        self.best_config: Config | None = None
        """Of the last call."""
        self.configs_timings: dict[Config, float] = {}
        """Seconds of each configuration, when they were last measured."""
        self.bench_time: float | None = None
        """Seconds that measuring took the last time."""
        self._pruning, self._resets, self._bench, self._is_kept = pruning, resets, bench, is_kept
        self._variants: dict[Config, JitFunction] = {}
        self._check_names()

    def _check_names(self) -> None:
        parameters = self.fn.signature.parameters
        set_names = [name for config in self.configs for name in config.kwargs]
        for name in (*(self.key or ()), *self._resets.names, *set_names):
            if name not in parameters:
                hint = f"{did_you_mean(name, parameters)}its parameters are {', '.join(parameters)}"
                raise UnknownNameError(
                    f"{self.fn.__name__} has no parameter {name!r}", self.fn.signature.span, help=hint
                )

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        """Run the fastest configuration for these arguments; measure first if their key is new."""
        try:
            named, out = self._named(arguments, keywords)
            if any(hasattr(type(value), "__mlirtri_value__") for value in named.values()):
                raise KernelTypeError(
                    f"{self.fn.__name__} measures configurations on real arguments, and these are values of a graph",
                    help=f"record one configuration: {self.fn.__name__}.fn(…)",
                )
            config = self.best_config = self._choose(named)
            if config.pre_hook is not None:
                config.pre_hook({**named, **config.kwargs})
            return self._variant(config)(**named, **config.kwargs, **out)
        except KernelError as error:
            hide_frames(error)
            raise

    def compile(self, *arguments: object, **keywords: object) -> Kernel:
        """Return the kernel of the fastest configuration for these arguments; random data replaces abstract ones."""
        try:
            named, _ = self._named(arguments, keywords)
            config = self.best_config = self._choose(named)
            return self._variant(config).compile(**named, **config.kwargs)
        except KernelError as error:
            hide_frames(error)
            raise

    def _named(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters = self.fn.signature.parameters
        keywords = dict(keywords)
        out = {"out": keywords.pop("out")} if "out" in keywords and "out" not in parameters else {}
        for config in self.configs:
            if twice := [name for name in config.kwargs if name in keywords]:
                raise ArgumentMismatchError(
                    f"{self.fn.__name__}() got {twice[0]!r}, which its configurations set", self.fn.signature.span,
                    help="leave it out of the call",
                )  # fmt: skip
        chosen = self.configs[0].kwargs
        bound = self.fn.signature.bind(arguments, {**keywords, **chosen}, abstract=True)
        return {name: value for name, value in bound.items() if name not in chosen}, out

    def _variant(self, config: Config) -> JitFunction:
        if config not in self._variants:
            options = config.options.over(self.fn.options)
            self._variants[config] = JitFunction(self.fn.__mlirtri_function__, options)
        return self._variants[config]

    def _choose(self, named: dict[str, Any]) -> Config:
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key(named)
        config = self.cache.get(key)
        if config is None:
            with TUNING:
                # Another thread may have set it.
                config = self.cache.get(key) or self._measured(key, named)
                self.cache[key] = config
        return config

    def _key(self, named: dict[str, Any]) -> Any:
        if self.key is None:
            return tuple([_shown_key(value) for value in named.values()])
        chosen = [_shown_key(named[name]) for name in self.key if name in named]
        return (*chosen, *[str(value.dtype) for value in named.values() if hasattr(value, "dtype")])

    def _measured(self, key: Any, named: dict[str, Any]) -> Config:
        configs = self._pruning.pruned(self.configs, named)
        stored = self._stored_key(key, configs)
        if self._is_kept and (config := self._recalled(stored, configs)) is not None:
            return config
        fastest = _Measuring(self, named).fastest(configs)
        self.configs_timings, self.bench_time = fastest.timings, fastest.seconds
        if self._is_kept:
            shown = {str(config): seconds for config, seconds in fastest.timings.items() if seconds != inf}
            remember(stored, {"name": self.fn.__name__, "config": str(fastest.config), "timings": shown})
        if settings.get("MLIRTRI_PRINT_AUTOTUNING"):
            print(f"{self.fn.__name__}: {fastest.config} is the fastest for {key}", file=sys.stderr)
        return fastest.config

    def _stored_key(self, key: Any, configs: Sequence[Config]) -> str:
        function = self.fn.__mlirtri_function__
        target, _, _ = resolved(self.fn.options)
        names = (function.__module__, function.__qualname__, self.fn.options, repr(target))
        code = function.__code__
        facts = (*names, code.co_code, code.co_names, [str(config) for config in configs], key, versions())
        return "configuration-" + content_key(*facts)

    def _recalled(self, stored: str, configs: Sequence[Config]) -> Config | None:
        record = recall(stored) or {}
        by_name = {str(config): config for config in configs}
        timings = record.get("timings", {})
        self.configs_timings = {config: timings[name] for name, config in by_name.items() if name in timings}
        return by_name.get(record.get("config", ""))

    def __repr__(self) -> str:
        return f"<mlirtri.autotune function {self.fn.__name__}, {len(self.configs)} configurations>"


def _shown_key(value: Any) -> Any:
    """Return the key as text that is the same in every process."""
    if is_torch(value) or is_array(value) or isinstance(value, Tensor):
        return tuple(value.shape), str(value.dtype), is_array(value)
    return key_of(value)


@dataclass(frozen=True)
class _Resets:
    to_zero: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.to_zero, *self.restored)


class _Measuring:
    def __init__(self, tuned: AutotunedFunction, named: dict[str, Any]):
        self.tuned = tuned
        self.target, _, _ = resolved(tuned.fn.options)
        device = device_for(self.target)
        self.originals = {
            name: data_for(name, value.type, value, device) if isinstance(value, Tensor) else value
            for name, value in named.items()
        }
        self.named = copied(self.originals)
        self.restored = {name for name in tuned._resets.restored if name in named}
        """What runs have written so far, too."""
        self.wait = wait_for(device)

    def fastest(self, configs: Sequence[Config]) -> Choice:
        start = time.perf_counter()
        refusals = self._compile(configs)
        runs = [config for config in configs if config not in refusals]
        calls = {config: call for config in runs if (call := self._call(config, refusals)) is not None}
        if not calls:
            first = next(iter(refusals.values()))
            first.help = f"none of {len(configs)} configurations runs, and this is the first: {next(iter(refusals))}"
            raise first
        if self.tuned._bench is not None:
            seconds = [_seconds(self.tuned._bench(call.prepared)) for call in calls.values()]
        else:
            budget = _BUDGET_SECONDS * len(calls)
            timed = [call if self._is_prepared(config) else Timed(call.call) for config, call in calls.items()]
            seconds = [statistics.median(rounds) for rounds in samples(timed, None, budget, self.wait)]
        timings = {**dict.fromkeys(refusals, inf), **dict(zip(calls, seconds, strict=True))}
        return Choice(min(calls, key=timings.__getitem__), timings, time.perf_counter() - start)

    def _compile(self, configs: Sequence[Config]) -> dict[Config, KernelError]:
        """Compile the configurations, by other processes where that saves time; return the errors there are."""
        jobs = {config: self.tuned._variant(config).job((), {**self.named, **config.kwargs}, Options())
                for config in configs}  # fmt: skip
        results: dict[Config, Kernel | KernelError] = {}
        saved = 1 - 1 / usable_cpus()
        fastest = inf
        for config, job in jobs.items():
            left = {option: jobs[option] for option in jobs if option not in results}
            # The first one loads the compilers.
            if len(results) > 1 and fastest * len(left) * saved > WORKERS_START:
                results.update(zip(left, compile_all(list(left.values()), Means()), strict=True))
                break
            start = time.perf_counter()
            results[config] = job if isinstance(job, KernelError) else compile_here(job)
            fastest = min(fastest, time.perf_counter() - start)
        return {config: result for config, result in results.items() if isinstance(result, KernelError)}

    def _call(self, config: Config, refusals: dict[Config, KernelError]) -> Timed | None:
        arguments = {**self.named, **config.kwargs}
        call = Timed(partial(self.tuned._variant(config), **arguments), partial(self._prepare, config, arguments))
        try:
            call.prepared()
        except KernelError as error:
            refusals[config] = error
        self.restored.update(written(self.named, self.originals))
        return None if config in refusals else call

    def _is_prepared(self, config: Config) -> bool:
        return bool(self.restored or self.tuned._resets.to_zero or config.pre_hook)

    def _prepare(self, config: Config, arguments: dict[str, Any]) -> None:
        restore(self.named, self.originals, self.restored)
        for name in self.tuned._resets.to_zero:
            self.named[name][...] = 0
        if config.pre_hook is not None:
            config.pre_hook(arguments)


def _seconds(result: Any) -> float:
    if isinstance(result, Real):
        return float(result)
    raise KernelTypeError(f"do_bench gives the seconds of a call, not {result!r}", help="let it return one number")


@public
def autotune(
    configs: Sequence[Config],
    key: Sequence[str] | None = None,
    *,
    prune_configs_by: Mapping[str, object] | None = None,
    reset_to_zero: Sequence[str] = (),
    restore_value: Sequence[str] = (),
    do_bench: Bench | None = None,
    cache_results: bool = False,
) -> Callable[[JitFunction], AutotunedFunction]:
    """Let a jit function run by the fastest of several configurations.

    It is measured anew when one of the arguments that `key` names changes (tensors by shape), or a dtype; without
    `key`, when any does. Measuring runs on copies of the arguments. Before each run, untimed, those that runs write and
    those in `restore_value` are restored, those in `reset_to_zero` zeroed, and hooks called. `prune_configs_by` is a
    dictionary: ``early_config_prune(configs, named_args)`` gives the configurations that make sense,
    ``perf_model(**arguments)`` estimates a time, of which the ``top_k`` best are measured (a number, or a fraction).
    `do_bench` takes a call, preparation included, and gives its seconds.
    With `cache_results` a choice is kept in ``MLIRTRI_TUNING_FILE``. Raises `KernelTypeError` for what is no jit
    function or no configuration, `UnknownNameError` for names that are no parameters.
    """
    is_list = isinstance(configs, Sequence) and len(configs) > 0
    if not is_list or not all(isinstance(config, Config) for config in configs):
        raise KernelTypeError("autotune takes a list of mlirtri.Config", help='write configs=[Config({"n": 4}), …]')
    pruning = as_pruning(prune_configs_by)
    resets = _Resets(tuple(reset_to_zero), tuple(restore_value))

    @public
    def decorate(function: JitFunction) -> AutotunedFunction:
        if not isinstance(function, JitFunction):
            raise KernelTypeError(
                f"autotune takes a jit function, not {function!r}", help="write @mlirtri.jit below @mlirtri.autotune"
            )
        return AutotunedFunction(function, configs, key, pruning, resets, do_bench, cache_results)

    return decorate


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
