"""One way to compile a kernel: what `autotune` chooses from, and what `par_compile` takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from mlirtri.errors import KernelTypeError
from mlirtri.kernels.options import Options, language_options, resolved
from mlirtri.lowering.core.tracebacks import public
from mlirtri.lowering.pipelines import Pipeline

RESERVED = ("pipeline", "target", "schedule")
"""Options of `compile` that stand among its arguments."""


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
        pipeline: str | Pipeline | None = None,
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


def arguments_of(config: object, parameters: Collection[str] = ()) -> tuple[tuple[Any, ...], dict[str, Any], Options]:
    """Return positional arguments, keyword arguments and options of one configuration of `par_compile`.

    `parameters` are those of the function: a name of an option that one of them has is no option.
    It is a dictionary, a `Config`, or a tuple of positional arguments, the last of which may be one of the two.
    Raises `KernelTypeError` for others.
    """
    positional: tuple[Any, ...] = ()
    if isinstance(config, (tuple, list)):
        named = config[-1] if config and isinstance(config[-1], (Mapping, Config)) else None
        positional = tuple(config if named is None else config[:-1])
        config = {} if named is None else named
    if isinstance(config, Config):
        return positional, dict(config.kwargs), config.options
    if not isinstance(config, Mapping):
        raise KernelTypeError(
            f"a configuration is a dictionary, a tuple of arguments or a mlirtri.Config, not {config!r}",
            help='write {"a": mlirtri.Tensor((4, 4), mlirtri.float32), "n": 4, "pipeline": "mlir"}',
        )
    return positional, *options_in(config, parameters)


def options_in(keywords: Mapping[str, Any], parameters: Collection[str]) -> tuple[dict[str, Any], Options]:
    """Return the keyword arguments of a function with these `parameters`, and the options of `compile` among them.

    A name that is both is the parameter's: the option is then the decorator's to give.
    """
    names = [name for name in RESERVED if name in keywords and name not in parameters]
    options = Options(**{name: keywords[name] for name in names})
    return {name: value for name, value in keywords.items() if name not in names}, options
