"""The fusion graph, the times of stages and kernels, and the roofline as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from mlirtri.lowering.core.stage import Edge, without_repeats
from mlirtri.trace.data import TracedKernel

_ROW = 30
_LEFT = 260


def fusion_graph(edges: Sequence[Edge]) -> str:
    """Return the operations from top to bottom, with an arc per tensor between two: solid if they are fused."""
    nodes = list(dict.fromkeys(name for edge in edges for name in (edge.producer, edge.consumer)))
    if not nodes:
        return ""
    heights = {name: number * _ROW + 22 for number, name in enumerate(nodes)}
    parts = [
        f'<text x="{_LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(_label(name))}</text>'
        f'<circle cx="{_LEFT}" cy="{y}" r="4"/>'
        for name, y in heights.items()
    ]
    reach = max((abs(heights[edge.consumer] - heights[edge.producer]) for edge in edges), default=_ROW)
    for number, edge in enumerate(edges):
        start, end = heights[edge.producer], heights[edge.consumer]
        bend = _LEFT + 24 + 0.55 * abs(end - start)
        kind = "fused" if edge.is_fused else "apart"
        line = edge.line.rpartition("/")[2]
        title = f"{edge.producer} → {edge.consumer} ({line}): {kind}, {edge.kind}: {edge.reason}"
        parts.append(
            f'<path class="{kind}" data-edge="{number}" tabindex="0" d="M{_LEFT},{start} '
            f'C{bend:.0f},{start} {bend:.0f},{end} {_LEFT},{end}"><title>{escape(title)}</title></path>'
        )
    width, height = _LEFT + 60 + 0.55 * reach, len(nodes) * _ROW + 20
    return f'<svg class="graph" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">{"".join(parts)}</svg>'


def _label(node: str) -> str:
    """Return ``sum (mean)`` for a sum that is called mean; the operation alone where its name says no more."""
    operation, _, name = node.partition(" ")
    return f"{operation} ({name})" if name and name != operation and not name.startswith("generic") else operation


def times(kernel: TracedKernel) -> str:
    """Return the stages one behind the other in the time that they took, and below them the launched kernels."""
    stages = [(text.stage, text.seconds) for text in kernel.texts if text.pass_name is None and text.seconds]
    rows = [("compile", stages)] if stages else []
    launches = [(launch.name, launch.seconds) for launch in kernel.launches if launch.seconds]
    rows += [("run", launches)] if launches else []
    parts = []
    for number, (label, bars) in enumerate(rows):
        parts.append(_strip(label, bars, 10 + 64 * number))
    return f'<svg class="times" viewBox="0 0 900 {64 * len(rows) + 10}">{"".join(parts)}</svg>' if rows else ""


def _strip(label: str, bars: Sequence[tuple[str, float]], top: int) -> str:
    total = sum(seconds for _, seconds in bars)
    parts = [f'<text x="0" y="{top + 20}">{label} {shown(total)}</text>']
    left = 130.0
    for number, (name, seconds) in enumerate(bars):
        width = 760 * seconds / total
        title = f"{name}: {shown(seconds)}, {100 * seconds / total:.0f} %"
        parts.append(
            f'<rect class="bar b{number % 6}" x="{left:.1f}" y="{top}" width="{max(width, 0.5):.1f}" height="32">'
            f"<title>{escape(title)}</title></rect>"
        )
        if width > 7 * len(name) + 6:
            parts.append(f'<text class="in" x="{left + 5:.1f}" y="{top + 20}">{escape(name)}</text>')
        left += width
    return "".join(parts)


def shown(seconds: float) -> str:
    """Return a time with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def roofline(kernels: Sequence[TracedKernel], limits: tuple[float, float] | None) -> str:
    """Return launched kernels by operations per byte and operations per second, under the machine's two limits."""
    points = [
        (number, launch, launch.flops / launch.bytes, launch.flops / launch.seconds)
        for number, kernel in enumerate(kernels)
        for launch in kernel.launches
        if launch.flops and launch.bytes and launch.seconds
    ]
    if limits is None or not points:
        return ""
    peak, bandwidth = limits
    low = 10 ** math.floor(math.log10(min(min(point[2] for point in points), peak / bandwidth) / 2))
    high = 10 ** math.ceil(math.log10(max(max(point[2] for point in points), peak / bandwidth) * 2))
    least = 10 ** math.floor(math.log10(min(point[3] for point in points) / 2))
    most = 10 ** math.ceil(math.log10(max(peak, *(point[3] for point in points))))
    frame = _Frame(low, high, least, most)
    ridge = peak / bandwidth
    roof = [(low, low * bandwidth), (ridge, peak), (high, peak)]
    line = " ".join(f"{frame.x(x):.1f},{frame.y(max(y, least)):.1f}" for x, y in roof)
    parts = [frame.axes(), f'<polyline class="roof" points="{line}"/>']
    for number, launch, intensity, rate in points:
        share = f", {100 * launch.roofline:.0f} % of the roofline" if launch.roofline else ""
        title = f"{kernels[number].pipeline}: {launch.name}: {rate / 1e9:.3g} Gflop/s{share}"
        parts.append(
            f'<circle class="point b{number % 6}" cx="{frame.x(intensity):.1f}" cy="{frame.y(rate):.1f}" r="6">'
            f"<title>{escape(title)}</title></circle>"
        )
    return f'<svg class="roofline" viewBox="0 0 620 360" width="620">{"".join(parts)}</svg>'


class _Frame:
    """Logarithmic axes."""

    def __init__(self, low: float, high: float, least: float, most: float):
        self.low, self.high, self.least, self.most = low, high, least, most

    def x(self, value: float) -> float:
        return 70 + 530 * math.log(value / self.low) / math.log(self.high / self.low)

    def y(self, value: float) -> float:
        return 310 - 290 * math.log(value / self.least) / math.log(self.most / self.least)

    def axes(self) -> str:
        parts = ['<path class="axis" d="M70,20 V310 H600"/>']
        for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1):
            x = self.x(10.0**power)
            parts.append(f'<text x="{x:.0f}" y="328" text-anchor="middle">{10.0**power:g}</text>')
        powers = range(round(math.log10(self.least)), round(math.log10(self.most)) + 1)
        parts += [
            f'<text x="62" y="{self.y(10.0**power) + 4:.0f}" text-anchor="end">{10.0 ** (power - 9):g}</text>'
            for power in powers
        ]
        parts.append('<text x="335" y="350" text-anchor="middle">operations per byte</text>')
        parts.append('<text x="70" y="14">Gflop/s</text>')
        return "".join(parts)


def edge_rows(edges: Sequence[Edge]) -> list[dict[str, Any]]:
    """Return the edges as rows of a table, equal ones as one."""
    return [
        {
            "stage": edge.stage, "producer": edge.producer, "consumer": edge.consumer,
            "line": edge.line.rpartition("/")[2], "fused": edge.is_fused, "kind": edge.kind, "reason": edge.reason,
        }
        for edge in without_repeats(edges)
    ]  # fmt: skip
