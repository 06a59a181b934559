"""Say why a function was compiled again: which part of its key changed, and which annotation would avoid it.

The facts of a compilation are what its kernel depends on: sizes, dtypes and constants of arguments that are decided at
compile time, options, and values from outside of the function.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any
from zlib import crc32

from mlirtri import settings
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.kernels.kernel import Kernel
from mlirtri.language.arguments import annotated
from mlirtri.language.dimensions import names_in
from mlirtri.language.signature import Signature
from mlirtri.lowering.core.interface import Capture, ConstantParameter, Specialization, TensorParameter

RECOMPILES = "recompiles"
"""The name in ``MLIRTRI_LOG``."""
KEPT = 1000
"""Compilations of a function that `explain` remembers."""
OPTION, CLASS, RANK = "option", "class", "rank"
_DECIDES = {CLASS: "", RANK: "size"}
"""A fact that decides others of its parameter, and with what those begin: they are not named beside it."""
_MISSING = "nothing"
_SIZE_NAMES = tuple("nmkpqrst")
"""What advice calls the sizes of axes."""


class SpecializationWarning(UserWarning):
    """A function was compiled for so many combinations of arguments that kernels are dropped."""


@dataclass(frozen=True)
class Fact:
    """One thing that a kernel depends on, with its value as text."""

    parameter: str
    """The parameter's name, or the name outside of the function."""
    what: str
    """``size of axis 0``, ``rank``, ``dtype``, ``value``, ``class``, ``captured value``, or an option."""
    value: str
    advice: str = ""
    """What to write so that another value needs no other kernel."""
    tensor: TensorParameter | None = None
    """The parameter that has the size; `axis` is which."""
    axis: int = 0
    is_element: bool = False
    """Whether the parameter is an element of a container, which has no annotation."""

    @property
    def field(self) -> tuple[str, str]:
        return self.parameter, self.what


@dataclass(frozen=True)
class Change:
    """A fact that differs from an earlier compilation's."""

    parameter: str
    what: str
    old: str
    new: str
    advice: str

    def __str__(self) -> str:
        advice = f"\n    help: {self.advice}" if self.advice else ""
        what = f"the option {self.parameter!r}" if self.what == OPTION else f"the {self.what} of {self.parameter!r}"
        return f"{what} changed from {self.old} to {self.new}{advice}"


@dataclass(frozen=True)
class Explanation:
    """Why one kernel was made. `changes` are to the most similar earlier one; the first of a function has none."""

    function: str
    number: int
    """The count of the function's kernels, with this one."""
    changes: tuple[Change, ...]
    is_compiled: bool
    """False for a kernel that was in a cache."""

    def __str__(self) -> str:
        origin = "compiled" if self.is_compiled else "found in a cache"
        head = f"{self.function}: kernel {self.number} was {origin}"
        if self.number == 1:
            return f"{head}: it is the first one"
        if not self.changes:
            return f"{head}: the same arguments and options as before"
        return "\n".join([f"{head}:", *(f"  {change}" for change in self.changes)])


class History:
    """The compilations of one function. Used under the lock of compilations."""

    def __init__(self, function: str):
        self.function = function
        self.explanations: list[Explanation] = []
        self._facts: list[tuple[Fact, ...]] = []
        self._count = 0
        self._has_warned = False

    def add(self, facts: Sequence[Fact], is_compiled: bool) -> Explanation | None:
        """Return why there is a kernel of these facts; prints it with ``MLIRTRI_LOG=recompiles``.

        None if nothing was compiled and the function has had such a kernel.
        """
        if not is_compiled and tuple(facts) in self._facts:
            return None
        self._count += 1
        explanation = Explanation(self.function, self._count, self._changes(facts), is_compiled)
        self._facts = [*self._facts[1 - KEPT :], tuple(facts)]
        self.explanations = [*self.explanations[1 - KEPT :], explanation]
        if RECOMPILES in settings.get("MLIRTRI_LOG"):
            print(explanation, file=sys.stderr)
        return explanation

    def _changes(self, facts: Sequence[Fact]) -> tuple[Change, ...]:
        if not self._facts:
            return ()
        new = {fact.field: fact for fact in facts}
        # Of equally similar ones, the last.
        candidates = [_differences(_by_field(old), new) for old in reversed(self._facts)]
        return _changes(_deciding(min(candidates, key=len)), facts)

    def warn(self, limit: int) -> None:
        """Warn once that there are more kernels than are kept, with the fact of most values."""
        if self._has_warned:
            return
        self._has_warned = True
        values: dict[tuple[str, str], dict[str, Fact]] = {}
        for fact in (fact for facts in self._facts for fact in facts):
            values.setdefault(fact.field, {})[fact.value] = fact
        (parameter, what), causes = max(values.items(), key=lambda item: len(item[1]))
        shown = ", ".join([*causes][:4]) + (", …" if len(causes) > 4 else "")
        advice = next((fact.advice for fact in causes.values() if fact.advice), "")
        warnings.warn(
            f"{self.function} has more than {limit} kernels (MLIRTRI_MAX_KERNELS) and drops the least recently used: "
            f"the {what} of {parameter!r} had {len(causes)} values ({shown}); {advice or 'use fewer of them'}",
            SpecializationWarning,
            stacklevel=settings.users_stacklevel(),
        )


def _by_field(facts: Iterable[Fact]) -> dict[tuple[str, str], Fact]:
    return {fact.field: fact for fact in facts}


Difference = tuple[Fact | None, Fact | None]
"""A fact of an earlier compilation and of this one; None where there was none."""


def _differences(old: Mapping[Any, Fact], new: Mapping[Any, Fact]) -> list[Difference]:
    pairs = [(old.get(field), new.get(field)) for field in {**old, **new}]
    return [
        (before, after) for before, after in pairs if before is None or after is None or before.value != after.value
    ]


def _deciding(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences without those that follow from another class or rank."""
    facts = [after or before for before, after in differences]
    decided = {(fact.parameter, _DECIDES[fact.what]) for fact in facts if fact is not None and fact.what in _DECIDES}

    def follows(fact: Fact | None) -> bool:
        if fact is None or fact.what == CLASS:
            return False
        return (fact.parameter, "") in decided or ((fact.parameter, "size") in decided and fact.what.startswith("size"))

    return [pair for pair, fact in zip(differences, facts, strict=True) if not follows(fact)]


def _changes(differences: Sequence[Difference], facts: Sequence[Fact]) -> tuple[Change, ...]:
    annotations = _annotations(differences, facts)
    changes: list[Change] = []
    for before, after in reversed(differences):
        fact = after or before
        assert fact is not None
        old, new = (_MISSING if side is None else side.value for side in (before, after))
        # One annotation is advised for all sizes of a parameter.
        advice = fact.advice
        if fact.tensor is not None:
            advice = annotations.pop(fact.parameter, "")
            advice = _of_element(advice) if fact.is_element else advice
        changes.append(Change(fact.parameter, fact.what, old, new, advice))
    return tuple(reversed(changes))


def _annotations(differences: Sequence[Difference], facts: Sequence[Fact]) -> dict[str, str]:
    """Return the annotation of each parameter of other sizes; what changed alike on one axis has one name."""
    taken = {name for fact in facts if fact.tensor for size in fact.tensor.type.shape for name in names_in(size)}
    free = (name for name in _SIZE_NAMES if name not in taken)
    names: dict[Any, str] = {}
    sizes: dict[str, dict[int, str]] = {}
    tensors: dict[str, TensorParameter] = {}
    for before, after in differences:
        if after is None or after.tensor is None or before is None:
            continue
        alike = (after.axis, before.value, after.value)
        names[alike] = names.get(alike) or next(free, f"n{len(names)}")
        sizes.setdefault(after.parameter, {})[after.axis] = names[alike]
        tensors[after.parameter] = after.tensor
    return {name: annotated(tensors[name], named) for name, named in sizes.items()}


def facts_of(
    signature: Signature, specialization: Specialization, kernel: Kernel, captures: Iterable[Capture]
) -> list[Fact]:
    """Return what a kernel depends on."""
    facts: list[Fact] = []
    for parameter in specialization.flat:
        if isinstance(parameter, ConstantParameter):
            found = _constant_facts(parameter, signature.annotations.get(parameter.name))
        else:
            found = _tensor_facts(parameter)
        if parameter.name not in signature.parameters:
            found = [replace(fact, is_element=True, advice=_of_element(fact.advice)) for fact in found]
        facts += found
    semantics = "jit(semantics=…) decides it for all calls"
    facts.append(Fact("semantics", OPTION, specialization.semantics, semantics))
    facts += [Fact("target", OPTION, str(kernel.target)), Fact("pipeline", OPTION, kernel.pipeline.name)]
    outside = "pass it as an argument: a float, or an integer annotated with mt.int64, is no part of the kernel"
    for capture in captures:
        is_number = type(capture.value) in (int, float, complex)
        advice = outside if is_number else "a function or module that is replaced is compiled anew"
        facts.append(Fact(capture.name, "captured value", _shown(capture.value), advice))
    return facts


def _of_element(advice: str) -> str:
    return f"make it a parameter of its own, and {advice}" if advice.startswith("annotate") else advice


def _constant_facts(parameter: ConstantParameter, annotation: Any) -> list[Fact]:
    value = parameter.value
    advice = ""
    if type(value) is bool:
        advice = f"annotate {parameter.name}: mt.bool to decide it at run time"
    elif type(value) is int:
        dtype = "int32" if -(1 << 31) <= value < 1 << 31 else "int64"
        advice = f"annotate {parameter.name}: mt.{dtype} to decide it at run time"
    elif type(value) in (float, complex) and annotation in (float, complex):
        advice = f"leave the annotation of {parameter.name} out: a {annotation.__name__} is decided at run time"
    elif callable(value):
        advice = "pass the same function each time: a new one is compiled anew"
    return [Fact(parameter.name, CLASS, type(value).__name__), Fact(parameter.name, "value", _shown(value), advice)]


def _tensor_facts(parameter: TensorParameter) -> list[Fact]:
    name, type_ = parameter.name, parameter.type
    facts = [Fact(name, CLASS, "a number" if parameter.number else "a tensor")]
    facts.append(Fact(name, "dtype", type_.dtype.name, f"convert {name} to one dtype before the call"))
    if parameter.number or parameter.is_memory:
        return facts
    facts.append(Fact(name, RANK, str(type_.rank)))
    for axis, size in enumerate(type_.shape):
        if not is_dynamic(size):
            advice = annotated(parameter, {axis: "n"})
            facts.append(Fact(name, f"size of axis {axis}", str(size), advice, parameter, axis))
    return facts


def _shown(value: Any) -> str:
    code = getattr(value, "__code__", value)
    if isinstance(code, CodeType):
        return f"{code.co_name} (code {crc32(code.co_code + repr(code.co_consts).encode()):08x})"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return name
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


class Recompiles(Sequence[Explanation]):
    """Why each kernel of a function was made, in order; its text has them all."""

    def __init__(self, function: str, explanations: Sequence[Explanation]):
        self._function, self._explanations = function, tuple(explanations)

    def __getitem__(self, position: Any) -> Any:
        return self._explanations[position]

    def __len__(self) -> int:
        return len(self._explanations)

    def __str__(self) -> str:
        return "\n".join(map(str, self._explanations)) or f"{self._function} has no kernel yet"

    __repr__ = __str__
