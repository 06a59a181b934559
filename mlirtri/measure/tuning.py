"""Compare a kernel's default schedule with one found by a search: times, rules, IR and code."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest
from typing import Any

from rich.table import Table

from mlirtri.errors import DeviceError, KernelTypeError
from mlirtri.kernels.argument_text import data_for, device_for
from mlirtri.kernels.jit import JitFunction
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options
from mlirtri.lowering.core.tracebacks import public
from mlirtri.lowering.core.tuning import Budget
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.lowering.toolchain.tvm_names import SCHEDULE_RULE
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs
from mlirtri.measure.copies import copied, restore
from mlirtri.measure.tables import text_of
from mlirtri.measure.timing import Timed, samples, wait_for

_COLUMN = 96
"""Characters of a line that each side shows."""
_DIRECTIVE = re.compile(r"\s*(\.(?!LBB)|#|$)")
"""What is no instruction in assembly, and no label of one."""


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`. Times are medians, in seconds per call of the whole kernel."""

    default: Kernel
    tuned: Kernel
    rules: tuple[tuple[str, str, str], ...]
    """Each compiled function with the rules that scheduled it, by default and after the search."""
    default_seconds: float | None
    tuned_seconds: float | None

    @property
    def speedup(self) -> float | None:
        """How many times faster the tuned kernel is."""
        return self.default_seconds / self.tuned_seconds if self.default_seconds and self.tuned_seconds else None

    def side_by_side(self, stage: str = "scheduled", width: int = _COLUMN) -> str:
        """Return the text of a stage in two columns, default and tuned; ``|`` marks lines that differ.

        Of assembly these are the instructions and the labels that they jump to.
        """
        sides = [_lines(kernel, stage) for kernel in (self.default, self.tuned)]
        lines = [f"{'default':<{width}}   tuned", f"{'-' * width}   {'-' * width}"]
        for tag, start, stop, other_start, other_stop in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
            mark = " " if tag == "equal" else "|"
            pairs = zip_longest(sides[0][start:stop], sides[1][other_start:other_stop], fillvalue="")
            lines += [f"{_cut(left, width):<{width}} {mark} {_cut(right, width)}".rstrip() for left, right in pairs]
        return "\n".join(lines)

    def __rich__(self) -> Table:
        table = Table("function", "default", "tuned", title=f"{self.tuned.name} for {self.tuned.target}")
        for rule in self.rules:
            table.add_row(*rule)
        table.add_section()
        table.add_row("time of a call", _shown(self.default_seconds), _shown(self.tuned_seconds))
        return table

    def __str__(self) -> str:
        return text_of(self)

    def to_json(self) -> str:
        """Return names, rules and times."""
        names = ("function", "default", "tuned")
        facts = {
            "kernel": self.tuned.name,
            "target": str(self.tuned.target),
            "functions": [dict(zip(names, rule, strict=True)) for rule in self.rules],
            "default_seconds": self.default_seconds,
            "tuned_seconds": self.tuned_seconds,
        }
        return json.dumps(facts, indent=2)


@public
def tune(
    f: JitFunction,
    *arguments: object,
    trials: int = Budget.trials,
    seconds: float = Budget.seconds,
    target: str | None = None,
    pipeline: str | Pipeline | None = None,
    **keywords: object,
) -> Tuning:
    """Search for schedules of `f` for these arguments, and put what was found beside the default.

    `trials` schedules of each compiled function are measured, in `seconds` altogether; with 0 trials one is taken
    unmeasured, which needs no device. What is found is kept in ``MLIRTRI_TUNING_FILE``, from where
    ``schedule="meta"`` takes it. Raises `KernelTypeError` for what is no jit function, `DeviceError` where there is
    nothing to measure on, `UnknownOptionError` for a pipeline in which TVM schedules nothing.
    """
    if not isinstance(f, JitFunction):
        raise KernelTypeError(f"tune takes a jit function, not {f!r}", help="decorate it with @mlirtri.jit")
    default, tuned = (
        f.compile_with(arguments, keywords, Options(target, pipeline, schedule))
        for schedule in ("default", f"meta:trials={trials},seconds={seconds}")
    )
    rules_of = _rules(default), _rules(tuned)
    rules = tuple((name, rule, rules_of[1].get(name, "")) for name, rule in rules_of[0].items())
    return Tuning(default, tuned, rules, *_times(f.signature.bind(arguments, keywords, abstract=True), default, tuned))


def _rules(kernel: Kernel) -> dict[str, str]:
    functions = prim_funcs(kernel.compilation.records["scheduled"].ir)
    return {name: str((function.attrs or {}).get(SCHEDULE_RULE, "none")) for name, function in functions}


def _times(named: Mapping[str, Any], *kernels: Kernel) -> list[float | None]:
    device = device_for(kernels[0].target)
    originals = {
        parameter.name: data_for(parameter.name, parameter.type, named.get(parameter.name), device)
        for parameter in kernels[0].interface.parameters
    }
    values, names = copied(originals), kernels[0].writes
    prepare = partial(restore, values, originals, names) if names else None
    try:
        rounds = samples(
            [Timed(partial(kernel, *values.values()), prepare) for kernel in kernels], wait=wait_for(device)
        )
        return [statistics.median(seconds) for seconds in rounds]
    except DeviceError:
        return [None for _ in kernels]


def _lines(kernel: Kernel, stage: str) -> list[str]:
    lines = kernel.ir[stage].expandtabs(4).splitlines()
    is_assembly = kernel.pipeline.find(stage).kind == "asm"
    return [line for line in lines if not _DIRECTIVE.match(line)] if is_assembly else lines


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _shown(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{seconds * 1e6:.1f} µs"
