"""Binding the arguments of a call of a Python function to its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from mlirtri.errors import KernelError, KernelTypeError, Span, did_you_mean


def bound_arguments(
    name: str,
    signature: inspect.Signature,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    error_class: type[KernelError] = KernelTypeError,
    span: Span | None = None,
) -> inspect.BoundArguments:
    """Return the arguments by parameter, without defaults; raises `error_class`, which names the parameters."""
    known = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    unknown = [keyword for keyword in keywords if keyword not in known and not takes_any]
    parameters = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
    if unknown:
        shown = " and ".join(map(repr, unknown))
        raise error_class(f"{name}() has no parameter {shown}", span, help=did_you_mean(unknown[0], known) + parameters)
    try:
        return signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise error_class(f"{name}(): {error}", span, help=parameters) from None
