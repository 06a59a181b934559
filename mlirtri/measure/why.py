"""Say why the slowest row is slower than the fastest, what explains most of the time first.

The time between the two rows is what is spent between kernels, the copies that only the slow one has, and its other
kernels. Of these, ``log(work ratio) / log(time ratio)`` is work (bytes, operations), and the rest is machine code: a
ratio of times is the product of both. Each sentence ends with the option or the rewrite that changes it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.stage import Edge
from mlirtri.lowering.core.target import host_threads
from mlirtri.lowering.pipelines import INTERPRETER, WITHOUT_TVM
from mlirtri.measure.machine_code import LoopCode, function_text, hottest_loop
from mlirtri.measure.machine_limits import limits
from mlirtri.measure.rows import LaunchCost
from mlirtri.measure.tables import shown_seconds

_LAYOUT = re.compile(r"transpose|layout|copy|pad|concat", re.IGNORECASE)
_REMEDIES = {
    "uses": "compute the value again in each of its consumers, or accept the second kernel",
    "output": "do not return the intermediate value",
    "reduction": 'pipelines "linalg" and "relax" fuse rows that are reduced: shapes with the reduced axis last help',
    "extern": "the operation is compiled elsewhere: write it as a kernel",
    "memory": "views of written memory stay apart: return new arrays instead of writing in place",
}
"""What changes that two operations are apart, by the kind of the reason."""
_SEVERAL = 3
"""Sentences of one kind are not repeated more often."""


@dataclass(frozen=True)
class Reason:
    """A sentence, and the seconds per call that it explains; None where launches have no times."""

    text: str
    seconds: float | None = None
    details: tuple[str, ...] = ()

    def lines(self, gap: float) -> list[str]:
        share = "" if self.seconds is None else f"{shown_seconds(self.seconds)} of {shown_seconds(gap)}: "
        return [f"- {share}{self.text}", *(f"  - {detail}" for detail in self.details)]


def why_slower(contenders: Sequence[object]) -> list[str]:
    """Return sentences on the slowest kernel against the fastest; none where fewer than two ran."""
    ran = [row for row in contenders if row.runs and row.kernel is not None and row.row.rounds]
    # It compiles nothing, so that there is nothing to change.
    ran = [row for row in ran if row.kernel.pipeline.name != INTERPRETER]
    if len(ran) < 2:
        return ["--why needs two compiled rows that ran"]
    ran.sort(key=lambda each: each.row.run_seconds)
    fast, slow = ran[0], ran[-1]
    factor = paired_ratio(slow.row.rounds, fast.row.rounds)
    if factor < _SAME:
        names = " and ".join(each.row.name for each in ran) if len(ran) == 2 else f"all {len(ran)} compiled rows"
        return [f"{names} take the same time, within {100 * (_SAME - 1):.0f} %: there is nothing to explain"]
    rounds = len(fast.row.rounds)
    title = f"why {slow.row.name} is {factor:.1f}× slower than {fast.row.name} (median of {rounds} paired rounds):"
    gap = (factor - 1) * fast.row.run_seconds
    found = list(_reasons(slow, fast, gap))
    # Sorting is stable: a cause stands before its effect of the same size.
    found.sort(key=lambda reason: -math.inf if reason.seconds is None else -reason.seconds)
    told = [reason for reason in found if reason.seconds is None or reason.seconds > _LEAST * gap]
    return [title, *(line for reason in told or [Reason(_UNKNOWN)] for line in reason.lines(gap))]


def paired_ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return the median over rounds of the ratio of two rows: what disturbs a round disturbs both."""
    return statistics.median(more / less for more, less in zip(slow, fast, strict=True))


_UNKNOWN = "its launches, bytes, rules and machine code are no worse; --profile has each kernel"
_SAME = 1.05
_LEAST = 0.05
"""A reason that explains a smaller part of the time is not said."""


def _reasons(slow: Any, fast: Any, gap: float) -> Iterator[Reason]:
    if not _is_timed(slow) or not _is_timed(fast):
        yield from _work(slow, fast, None)
        yield from (Reason(text) for text in (*_rules(slow, fast), *_code(slow, fast, None)))
        return
    between = _between(slow) - _between(fast)
    if between > 0:
        yield Reason(_outside(slow, fast), min(between, gap))
    copies = _own_copies(slow, fast)
    yield from _copies(copies)
    rest = [launch for launch in slow.row.launches if launch not in copies]
    work, code = _parts(rest, fast.row.launches)
    whole = min(gap, work + code) / (work + code) if work + code else 0.0
    unseen = gap - max(0.0, between) - _seconds(copies) - work - code
    if unseen > _UNSEEN * gap:
        yield Reason(_UNSEEN_TEXT, unseen)
    yield from _work(slow, fast, work * whole)
    for text in (*_rules(slow, fast), *_code(slow, fast, _slowest(rest, fast.row.launches))):
        yield Reason(text, code * whole)


def _outside(slow: Any, fast: Any) -> str:
    remedy = "To change it: larger arrays, or several calls in one kernel"
    if (slow.row.kernels or 0) > (fast.row.kernels or 0):
        return f"passes between its {slow.row.kernels} kernels ({fast.row.name} has {fast.row.kernels}). {remedy}"
    if any(launch.threads != 1 for launch in slow.row.launches) and slow.row.run_min * _WAITS < slow.row.run_seconds:
        return f"passes outside of its kernels, and not in every round: its threads wait for each other. {_QUIET}"
    return f"passes in the call itself, before and after its kernels. {remedy}"


_WAITS = 1.5
"""The fastest round of a row whose threads had to wait is shorter than its median by this factor."""
_QUIET = "To change it: measure again on a quiet machine, and with MLIRTRI_NUM_THREADS=1"


_UNSEEN = 0.3
_UNSEEN_TEXT = (
    f"does not show where kernels are timed one by one: threads wait for each other, or other programs run. {_QUIET}"
)


def _is_timed(contender: Any) -> bool:
    return bool(contender.row.launches) and all(launch.seconds is not None for launch in contender.row.launches)


def _between(contender: Any) -> float:
    """Return the seconds of a call that none of its kernels takes.

    Clocks lengthen the calls in which launches are timed, and other programs disturb one measurement or the other.
    """
    row = contender.row
    return max(0.0, min(row.run_seconds - _seconds(row.launches), row.between_seconds or 0.0))


def _seconds(launches: Sequence[LaunchCost]) -> float:
    return sum(launch.seconds or 0.0 for launch in launches)


def _least(launches: Sequence[LaunchCost]) -> float:
    return sum(limits().least_seconds(launch.flops, launch.bytes) for launch in launches)


def _parts(slow: Sequence[LaunchCost], fast: Sequence[LaunchCost]) -> tuple[float, float]:
    """Return the seconds that these launches take longer: for more work, and for machine code that does it slower."""
    longer = _seconds(slow) - _seconds(fast)
    if longer <= 0 or not _seconds(fast):
        return 0.0, max(0.0, longer)
    if not (_least(slow) and _least(fast)):
        return 0.0, longer
    ratio = _seconds(slow) / _seconds(fast)
    share = math.log(_least(slow) / _least(fast)) / math.log(ratio)
    work = longer * min(1.0, max(0.0, share))
    return work, longer - work


def _slowest(slow: Sequence[LaunchCost], fast: Sequence[LaunchCost]) -> LaunchCost | None:
    """Return the launch that takes most longer than its work would at the pace of the other row."""
    pace = _seconds(fast) / _least(fast) if _least(fast) else 0.0
    return max(slow, key=lambda launch: (launch.seconds or 0.0) - pace * _least([launch]), default=None)


def _work(slow: Any, fast: Any, seconds: float | None) -> Iterator[Reason]:
    """Yield one reason on more kernels, bytes and operations, if there are, with the pairs that are apart."""
    facts = []
    if (slow.row.kernels or 0) > (fast.row.kernels or 0):
        facts.append(f"runs {slow.row.kernels} kernels, not {fast.row.kernels}")
    if slow.row.bytes and fast.row.bytes and slow.row.bytes > fast.row.bytes:
        facts.append(f"moves {slow.row.bytes:,} bytes, not {fast.row.bytes:,}")
    flops = [sum(launch.flops or 0 for launch in each.row.launches) for each in (slow, fast)]
    if flops[0] > _MORE * flops[1]:
        facts.append(f"computes {flops[0]:,} operations, not {flops[1]:,}")
    if facts:
        apart = _pairs(slow) if (slow.row.kernels or 0) > (fast.row.kernels or 0) else []
        remedy = "" if apart else f". To change it: {_other_rows(slow, fast)}"
        yield Reason(f"it {' and '.join(facts)}{remedy}", seconds, tuple(apart))


def _other_rows(slow: Any, fast: Any) -> str:
    pipelines = slow.kernel.pipeline.name, fast.kernel.pipeline.name
    if pipelines[0] != pipelines[1]:
        return f'pipeline="{pipelines[1]}"'
    return "`mlirtri emit --diff` shows which pass makes it so"


_MORE = 1.1


def _pairs(slow: Any) -> list[str]:
    apart = Counter(_apart(edge, slow.kernel) for edge in _edges(slow.kernel) if not edge.is_fused)
    shown = [
        sentence if times == 1 else f"{sentence} ({times} such pairs)"
        for sentence, times in list(apart.items())[:_SEVERAL]
    ]
    if more := sum(list(apart.values())[_SEVERAL:]):
        what = "1 more pair is" if more == 1 else f"{more} more pairs are"
        shown.append(f"{what} apart: `mlirtri emit --explain-fusion` lists them")
    return shown


def _apart(edge: Edge, kernel: Kernel) -> str:
    remedy = _REMEDIES.get(edge.kind, _other_pipeline(kernel))
    where = edge.line.rpartition("/")[2]
    fact = f"{edge.producer} and {edge.consumer} ({where}) are two kernels: {edge.reason}"
    # Some reasons name the setting themselves.
    return fact if "overrides it" in edge.reason else f"{fact}. To change it: {remedy}"


def _edges(kernel: Kernel) -> Sequence[Edge]:
    """Return the edges as the last stage that fuses leaves them."""
    try:
        edges = kernel.fusion.edges
    except KernelError:
        return ()
    last = edges[-1].stage if edges else ""
    return [edge for edge in edges if edge.stage == last]


def _other_pipeline(kernel: Kernel) -> str:
    if kernel.pipeline.name in WITHOUT_TVM:
        return 'pipeline="linalg", where TVM and our row fusion go on'
    return "write both in one expression"


def _own_copies(slow: Any, fast: Any) -> list[LaunchCost]:
    """Return the launches of the slow row that only copy, where the fast one has none for the line."""
    known = {launch.line for launch in fast.row.launches if _LAYOUT.search(launch.name)}
    return [launch for launch in slow.row.launches if _LAYOUT.search(launch.name) and launch.line not in known]


def _copies(copies: Sequence[LaunchCost]) -> Iterator[Reason]:
    """Yield a reason for all copies of one kind from one line."""
    groups: dict[tuple[str, str], list[LaunchCost]] = {}
    for launch in copies:
        groups.setdefault((launch.name, launch.line), []).append(launch)
    for (name, line), launches in groups.items():
        what, remedy = _PLAIN_COPY if name.startswith("copy") else _LAYOUT_COPY
        often = f" {len(launches)} times" if len(launches) > 1 else ""
        yield Reason(f"{name} ({line}) {what}{often}. To change it: {remedy}", _seconds(launches))


_PLAIN_COPY = (
    "copies an array as it is",
    "return new arrays instead of writing into a copy, or take an array to write as an argument",
)
_LAYOUT_COPY = (
    "copies into another layout",
    "give the argument in the layout that it is read in, or make it contiguous once",
)


def _rules(slow: Any, fast: Any) -> Iterator[str]:
    for step in slow.kernel.warnings[:_SEVERAL]:
        yield f'a rule fell back: {step}. To change it: report it; schedule="meta" searches without the rule'
    schedules = [_schedule(contender.kernel) for contender in (slow, fast)]
    if schedules[0] == "none" and schedules[1] != "none":
        yield 'its loops have no schedule. To change it: schedule="default"'


def _schedule(kernel: Kernel) -> str | None:
    return None if kernel.pipeline.name in WITHOUT_TVM else kernel.compilation.context.schedule


def _code(slow: Any, fast: Any, launch: LaunchCost | None) -> Iterator[str]:
    """Yield one sentence on the machine code of the launch that loses most, or of the longest."""
    launch = launch or _longest(slow.row.launches)
    other_launch = _counterpart(launch, fast.row.launches)
    mine, other = _loop(slow, launch), _loop(fast, other_launch)
    name = f"{launch.name}" + (f" ({launch.line})" if launch.line else "") if launch else "its hot loop"
    facts = [fact for _, fact in sorted(_facts(launch, other_launch, mine, other, fast.row.name), key=_by_factor)]
    if facts:
        yield f"{name} {'; '.join(facts)}. To change it: {_remedy(slow, fast, facts)}"
    elif launch and launch.roofline is not None and other_launch and other_launch.roofline is not None:
        yield (
            f"{name} reaches {100 * launch.roofline:.0f} % of the roofline, and {fast.row.name}'s {other_launch.name} "
            f"{100 * other_launch.roofline:.0f} %, by loops in another order or of other tiles. "
            f"To change it: {_vectorise(slow.kernel, fast.kernel)}"
        )


def _facts(
    launch: LaunchCost | None, other_launch: LaunchCost | None, mine: LoopCode | None, other: LoopCode | None, fast: str
) -> Iterator[tuple[float, str]]:
    """Yield what a launch and its hot loop have worse than the other row's, and by what factor each may cost time."""
    if launch and other_launch and launch.threads == 1 and other_launch.threads != 1 and host_threads() > 1:
        threads = other_launch.threads or host_threads()
        yield threads, f"{_ONE_THREAD}, not in {threads}"
    if mine is not None and other is not None:
        yield from _differences(mine, other, fast)


_ONE_THREAD = "runs in one thread"


def _by_factor(fact: tuple[float, str]) -> float:
    return -fact[0]


def _differences(mine: LoopCode, other: LoopCode, fast: str) -> Iterator[tuple[float, str]]:
    if mine.calls > other.calls:
        yield math.inf, f"calls functions for each element ({mine.calls} in the loop, {other.calls} in {fast}'s)"
    if mine.is_double and not other.is_double:
        yield 2, f"computes in 64 bits where {fast} computes in 32"
    is_narrower = mine.packed and other.packed and mine.width < other.width
    if (mine.is_scalar and not other.is_scalar) or is_narrower or (other.fused and not mine.fused):
        lanes = other.width / (mine.width if mine.packed else _SCALAR) if other.packed else 1
        yield lanes * (1.5 if other.fused and not mine.fused else 1), f"has {mine} in its hot loop, and {fast} {other}"
    if mine.gathers > other.gathers:
        # One load for each element in place of one for a vector.
        text = f"gathers elements that lie apart ({mine.gathers} such loads in the loop, {other.gathers} in {fast}'s)"
        yield max(other.width, mine.width) / _SCALAR, text


_SCALAR = 32
"""Bits of an element, to say how many a vector has."""


def _remedy(slow: Any, fast: Any, facts: Sequence[str]) -> str:
    rows = [(each.kernel.pipeline.name, _schedule(each.kernel)) for each in (slow, fast)]
    if facts[0].startswith(_ONE_THREAD) and rows[0] == rows[1]:
        return "MLIRTRI_NUM_THREADS is what the rows differ in; larger loops are divided among threads"
    if facts[0].startswith("gathers"):
        other = f"{_vectorise(slow.kernel, fast.kernel)}; or " if slow.kernel.pipeline.name in WITHOUT_TVM else ""
        return f"{other}let the last axis of the array be the one that the loop runs along"
    return _vectorise(slow.kernel, fast.kernel)


def _vectorise(kernel: Kernel, fast: Kernel) -> str:
    if kernel.pipeline.name in WITHOUT_TVM:
        return f'pipeline="{fast.pipeline.name}"'
    if kernel.compilation.context.schedule == "none":
        return 'schedule="default"'
    return 'schedule="meta" searches for another schedule; arrays as operations, not as loops over elements'


def _longest(launches: Sequence[LaunchCost]) -> LaunchCost | None:
    return max(launches, key=lambda launch: launch.seconds or 0.0, default=None)


def _counterpart(launch: LaunchCost | None, others: Sequence[LaunchCost]) -> LaunchCost | None:
    """Return the longest launch from the same line, else the longest."""
    same = [other for other in others if launch is not None and launch.line and other.line == launch.line]
    return _longest(same or others)


def _loop(contender: Any, launch: LaunchCost | None) -> LoopCode | None:
    """Return the hot loop of a launch; MLIR's nests are one function, in which the source line tells them apart."""
    kernel = contender.kernel
    if "asm" not in kernel.ir:
        return None
    text = kernel.ir["asm"]
    if launch is not None and kernel.pipeline.name not in WITHOUT_TVM:
        return hottest_loop(function_text(text, launch.name))
    line = launch.line if launch else ""
    same = [other for other in contender.row.launches if other.line == line]
    return hottest_loop(text, line) if _longest(same) in (launch, None) else None
