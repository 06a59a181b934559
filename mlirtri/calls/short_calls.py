"""The short call of a kernel: one Python function, written for the classes of arguments that it was called with.

The first call with arguments of other classes (arrays, tensors, a number, `out`) adds a branch for them to the
function. What the guards of all branches refuse takes the general call, which copies, converts or says what is wrong.
For two tensors, a launch and a result::

    def call(a0=missing, a1=missing, /, *rest, out=None, **keywords):
        try:
            if rest or keywords:
                pass
            elif out is None and type(a0) is v0_class_Tensor and type(a1) is v0_class_Tensor:
                if v0_guards(a0, a1) or v0_are_plain(a0, a1):
                    r0 = v0_empty(v0_r0_shape, v0_r0_strides, v0_r0_dtype)
                    v0_launch0(a0, a1, r0)
                    return r0
        except Exception:
            pass
        given = [argument for argument in (a0, a1,) if argument is not missing]
        …
        return general(*given, *rest, out=out, **keywords)

Launches check the rest and raise, and the general call raises it again in the user's terms. A kernel that writes an
argument cannot be run twice: its branches check everything first, and launch outside of `try`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlirtri import settings
from mlirtri.calls.call_source import Variant
from mlirtri.calls.callee import Callee, Impossible
from mlirtri.errors import KernelError, KernelMemoryError
from mlirtri.lowering.core.forks import renewed

Call = Callable[..., Any]
"""A kernel's call: ``call(*arguments, out=None, **named)``."""
MAX_VARIANTS = 8
"""Combinations of classes of arguments that one kernel has branches for."""
_LEARNING = renewed(threading.RLock())


def keep_frames(_error: KernelError) -> None:
    """Leave an error as it is."""


def short_call(
    callee: Callee, general: Call, install: Callable[[Call], None], hide: Callable[[KernelError], None] = keep_frames
) -> Call:
    """Return `general` made faster for plain arguments; `general` itself where nothing is faster.

    `install` gets the function each time that it gains a branch; `hide` removes our frames from an error.
    """
    try:
        _ = callee.launches
    except Impossible:
        return general
    return general if settings.get("MLIRTRI_RED_ZONES") else ShortCalls(callee, general, install, hide)


class ShortCalls:
    """The written call of one kernel. Thread-safe."""

    def __init__(
        self, callee: Callee, general: Call, install: Callable[[Call], None], hide: Callable[[KernelError], None]
    ):
        self._callee, self._general, self._install, self._hide = callee, general, install, hide
        self._variants: dict[tuple[tuple[type, ...], Any], Variant] = {}
        self._refused: set[Any] = set()
        self._strided: frozenset[int] = frozenset()
        self._call: Call = general

    def __call__(self, /, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Call with arguments that no branch took, after adding one for them."""
        try:
            is_flat = not keywords and len(arguments) == len(self._callee.interface.parameters)
            if is_flat and self._learn(arguments, out):
                return self._call(*arguments, out=out)
            result = self._general(*arguments, out=out, **keywords)
            if is_flat:
                self._learn_strided(arguments)
            return result
        except KernelError as error:
            self._hide(error)
            raise

    def _learn(self, arguments: Sequence[Any], out: Any) -> bool:
        """Return whether there is a new branch for such arguments."""
        kinds = tuple(map(type, arguments))
        if self._callee.device != "cpu" and any(not self._callee.is_there(argument) for argument in arguments):
            return False
        key = kinds, tuple(map(type, out)) if type(out) is tuple else None if out is None else type(out)
        if key in self._variants or key in self._refused:
            return False
        if out is not None and any(parameter.name == "out" for parameter in self._callee.interface.parameters):
            return False  # the parameter, which the general call takes
        with _LEARNING:
            if key in self._variants:
                return False
            try:
                if len(self._variants) >= MAX_VARIANTS:
                    raise Impossible
                variant = Variant(self._callee, *key, self._strided, len(self._variants))
            except (Impossible, BufferError):
                # Constants that were read from a file may be read-only, which NumPy does not export.
                self._refused.add(key)
                return False
            self._variants = {**self._variants, key: variant}
            self._write()
        return True

    def _learn_strided(self, arguments: Sequence[Any]) -> None:
        """Copy from now on what the general call, which has warned of it, has copied."""
        strided = {number for number, argument in enumerate(arguments) if _is_strided(argument)} - self._strided
        # Those whose order in memory matters are checked by the general call.
        strided -= {*self._callee.interface.ordered}
        if not strided or not self._variants:
            return
        with _LEARNING:
            self._strided |= strided
            self._variants = {
                key: Variant(self._callee, *key, self._strided, number) for number, key in enumerate(self._variants)
            }
            self._write()

    def _write(self) -> None:
        """Install the function with a branch for each variant."""
        variants = [*self._variants.values()]
        names = {name: value for variant in variants for name, value in variant.names.items()}
        names |= {"general": self, "missing": object(), "KernelError": KernelError, "hide": self._hide}
        names["no_memory"] = KernelMemoryError(f"{self._callee.name}(): no memory for a temporary of the kernel")
        count = len(self._callee.interface.parameters)
        lines = (_guarded if self._callee.updates else _repeatable)(variants, [f"a{number}" for number in range(count)])
        # Use this file's name: a warning's stacklevel skips frames of this package.
        exec(compile("\n".join(lines), __file__, "exec"), names)
        self._call = names["call"]
        self._install(self._call)


def _is_strided(argument: Any) -> bool:
    if type(argument) is np.ndarray:
        return not argument.flags.c_contiguous
    is_contiguous = getattr(argument, "is_contiguous", None)
    return is_contiguous is not None and not is_contiguous()


def _head(names: Sequence[str]) -> list[str]:
    defaults = "".join(f"{name}=missing, " for name in names)
    return [f"def call({defaults}{'/, ' if names else ''}*rest, out=None, **keywords):"]


def _tail(names: Sequence[str]) -> list[str]:
    given = "".join(f"{name}, " for name in names)
    return [
        f"    given = [argument for argument in ({given}) if argument is not missing]",
        "    try:",
        "        return general(*given, *rest, out=out, **keywords)",
        "    except KernelError as error:",
        "        hide(error)",
        "        raise",
    ]


def _repeatable(variants: Sequence[Variant], names: Sequence[str]) -> list[str]:
    """Return the function of a kernel that writes none of its arguments."""
    lines = [*_head(names), "    try:", "        if rest or keywords:", "            pass"]
    for variant in variants:
        lines.append(f"        elif {' and '.join(variant.conditions)}:")
        lines += _indented(variant.preparation, 12)
        lines.append(f"            if {' and '.join(variant.guards) or 'True'}:")
        lines += _indented(variant.body, 16)
    # The general path raises it again, in the user's terms.
    return [*lines, "    except Exception:", "        pass", *_tail(names)]


def _guarded(variants: Sequence[Variant], names: Sequence[str]) -> list[str]:
    """Return the function of a kernel that writes arguments: after a launch there is no way back."""
    lines = [*_head(names), "    branch = -1", "    try:", "        if rest or keywords:", "            pass"]
    for number, variant in enumerate(variants):
        lines.append(f"        elif {' and '.join(variant.conditions)}:")
        lines += _indented(variant.preparation, 12)
        lines.append(f"            if {' and '.join(variant.guards) or 'True'}:")
        lines.append(f"                branch = {number}")
    lines += ["    except Exception:", "        branch = -1", "    try:"]
    for number, variant in enumerate(variants):
        lines += [f"        if branch == {number}:", *_indented(variant.body, 12)]
    lines += ["    except KernelError as error:", "        hide(error)", "        raise"]
    lines += ["    except MemoryError:", "        raise no_memory from None"]
    return [*lines, *_tail(names)]


def _indented(lines: Sequence[str], width: int) -> list[str]:
    return [" " * width + line for line in lines]
