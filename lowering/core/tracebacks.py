"""Public functions whose errors show the user's frames and none of ours."""

from __future__ import annotations

import functools
import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from mlirtri import settings
from mlirtri.errors import KernelError, Span

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
Class = TypeVar("Class", bound=type)


def hide_frames(error: Exception) -> None:
    """Remove our frames and the cause from `error`; a bare `raise` after it adds none, so that the user's call is last.

    Every public function raises so. ``MLIRTRI_DEBUG=1`` keeps the frames.
    """
    if settings.get("MLIRTRI_DEBUG"):
        return
    error.__cause__ = None
    error.__suppress_context__ = True
    error.__traceback__ = None
    if sys.version_info < (3, 11):
        # There a bare `raise` restores the traceback.
        raise error


def public(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Return a function whose errors show no frames of ours."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
        try:
            return function(*arguments, **keywords)
        except KernelError as error:
            hide_frames(error)
            raise
        except TypeError as error:
            # Arguments that do not fit the function: the last frame is this one.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                hide_frames(error)
            raise

    return call


def located(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Return a `public` function whose errors show the user's expression that called it: it stands in annotations."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
        try:
            return function(*arguments, **keywords)
        except KernelError as error:
            caller = sys._getframe(1)
            hide_frames(error.at(span_of(caller)) if settings.is_users(caller.f_code.co_filename) else error)
            raise

    return call


def span_of(frame: FrameType) -> Span:
    """Return the position of the expression that a frame runs; its line's start where Python does not tell columns."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    positions: Callable[..., Any] | None = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return Span(file, line, 1)
    start, end, column, end_column = list(positions())[frame.f_lasti // 2]
    if start != line or column is None or end_column is None:
        return Span(file, line, 1)
    characters = len(linecache.getline(file, line).encode()[:column].decode(errors="ignore"))
    return Span(file, line, characters + 1, end, end_column - column + characters + 1)


def public_class(*names: str) -> Callable[[Class], Class]:
    """Return a class decorator that makes the initializer and the methods of these names `public`."""

    def decorate(decorated: Class) -> Class:
        for name in ("__init__", *names):
            method: Any = decorated.__dict__[name]
            is_class_method = isinstance(method, classmethod)
            wrapped = classmethod(public(method.__func__)) if is_class_method else public(method)
            setattr(decorated, name, wrapped)
        return decorated

    return decorate
