"""Say why the slowest row is slower than the fastest: what differs in their launches, memory, rules and machine code.

Each sentence ends with the option or the rewrite that changes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.stage import Edge
from mlirtri.lowering.pipelines import WITHOUT_TVM
from mlirtri.measure.machine_code import LoopCode, function_text, hottest_loop
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


def why_slower(contenders: Sequence[Any]) -> list[str]:
    """Return sentences on the slowest kernel against the fastest; none where fewer than two ran."""
    ran = [row for row in contenders if row.runs and row.kernel is not None and row.row.run_min]
    if len(ran) < 2:
        return ["--why needs two rows that ran"]
    # Other programs disturb the shortest round least.
    ran.sort(key=lambda each: each.row.run_min)
    fast, slow = ran[0], ran[-1]
    factor = slow.row.run_min / fast.row.run_min
    if factor < _SAME:
        return [f"all take the same time, within {100 * (_SAME - 1):.0f} %: there is nothing to explain"]
    title = f"why {slow.row.name} is {factor:.1f}× slower than {fast.row.name}:"
    reasons = [*_launches(slow, fast), *_memory(slow, fast), *_rules(slow, fast), *_code(slow, fast)]
    return [title, *(f"- {reason}" for reason in reasons or [_UNKNOWN])]


_UNKNOWN = (
    "its launches, bytes, rules and the machine code of its longest kernel are no worse; --profile has each kernel"
)
_SAME = 1.05


def _launches(slow: Any, fast: Any) -> Iterator[str]:
    if (slow.row.kernels or 0) <= (fast.row.kernels or 0):
        return
    yield f"it runs {slow.row.kernels} kernels, not {fast.row.kernels}"
    apart = Counter(_apart(edge, slow.kernel) for edge in _edges(slow.kernel) if not edge.is_fused)
    for sentence, times in list(apart.items())[:_SEVERAL]:
        yield sentence if times == 1 else f"{sentence} ({times} such pairs)"
    if more := sum(list(apart.values())[_SEVERAL:]):
        yield f"{more} more pairs are apart: `mlirtri emit --explain-fusion` lists them"


def _apart(edge: Edge, kernel: Kernel) -> str:
    remedy = _REMEDIES.get(edge.kind, _other_pipeline(kernel))
    where = edge.line.rpartition("/")[2]
    return f"{edge.producer} and {edge.consumer} ({where}) are two kernels: {edge.reason}. To change it: {remedy}"


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


def _memory(slow: Any, fast: Any) -> Iterator[str]:
    before, after = fast.row.bytes, slow.row.bytes
    if before and after and after > before:
        yield (
            f"it moves {after:,} bytes, not {before:,}: what lies between two kernels is written and read again. "
            "To change it: fewer kernels, as above"
        )
    copies = [launch for launch in slow.row.launches if _LAYOUT.search(launch.name)]
    known = {launch.line for launch in fast.row.launches if _LAYOUT.search(launch.name)}
    for launch in [launch for launch in copies if launch.line not in known][:_SEVERAL]:
        what, remedy = _PLAIN_COPY if launch.name.startswith("copy") else _LAYOUT_COPY
        yield f"{launch.name} ({launch.line}) {what} ({shown_seconds(launch.seconds)}). To change it: {remedy}"


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


def _code(slow: Any, fast: Any) -> Iterator[str]:
    pair = [(contender, _longest(contender.row.launches)) for contender in (slow, fast)]
    loops = [_loop(each.kernel, launch) for each, launch in pair]
    mine, other = loops
    if mine is None or other is None:
        return
    longest = pair[0][1]
    is_own = longest is not None and slow.kernel.pipeline.name not in WITHOUT_TVM
    name = f"the hot loop of {longest.name}" if longest and is_own else "its hot loop"
    if mine.is_scalar and not other.is_scalar:
        yield f"{name} has {mine}; {fast.row.name}'s has {other}. To change it: {_vectorise(slow.kernel)}"
    elif mine.packed and other.packed and mine.width < other.width:
        yield f"{name} has {mine}; {fast.row.name}'s has {other}. To change it: {_vectorise(slow.kernel)}"
    elif other.fused and not mine.fused:
        yield f"{name} has {mine}; {fast.row.name}'s has {other}. To change it: {_vectorise(slow.kernel)}"
    if mine.calls > other.calls:
        yield f"{name} calls functions ({mine.calls} calls); {fast.row.name}'s has {other.calls}"


def _vectorise(kernel: Kernel) -> str:
    if kernel.pipeline.name in WITHOUT_TVM:
        return 'pipeline="linalg", whose schedules vectorise'
    if kernel.compilation.context.schedule == "none":
        return 'schedule="default"'
    return 'schedule="meta" searches for another schedule; arrays as operations, not as loops over elements'


def _longest(launches: Sequence[LaunchCost]) -> LaunchCost | None:
    return max(launches, key=lambda launch: launch.seconds or 0.0, default=None)


def _loop(kernel: Kernel, launch: LaunchCost | None) -> LoopCode | None:
    if "asm" not in kernel.ir:
        return None
    text = kernel.ir["asm"]
    if launch is not None and kernel.pipeline.name not in WITHOUT_TVM:
        text = function_text(text, launch.name)
    return hottest_loop(text)
