"""`explain_fusion`: report for every tensor between two operations whether they are fused, and why or why not.

Stage `fused` reports on MLIR's fusion, stage `tir` on TVM's and on row fusion.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from rich.markup import escape
from rich.table import Table

from mlirtri.compiler.records import COMPILING, Compilation
from mlirtri.lowering.core.stage import Edge, without_repeats
from mlirtri.lowering.fusion import explain_operations

_STYLE = """<style>
.mlirtri-fusion path { fill: none; stroke-width: 2.5; }
.mlirtri-fusion path.fused { stroke: #1f9d4d; }
.mlirtri-fusion path.apart { stroke: #d0402b; stroke-dasharray: 5 4; }
.mlirtri-fusion svg text, .mlirtri-fusion circle { fill: currentColor; font: 12px sans-serif; }
</style>"""


@dataclass(frozen=True)
class FusionReport:
    """The fusion decisions on a kernel's edges."""

    kernel: str
    edges: tuple[Edge, ...]
    has_loops: bool = False
    """Whether it has loops of its own, which are compiled as they stand."""

    @property
    def fused(self) -> int:
        """Return the number of fused edges."""
        return sum(edge.is_fused for edge in self.edges)

    @property
    def why_empty(self) -> str:
        """Return a sentence on a kernel without edges."""
        if self.has_loops:
            reason = "its loops are compiled as they stand, and no array operation beside them reads another's result"
            return f"{self.kernel}: {reason}; `mlirtri emit --tasks` shows what its loops became"
        return f"{self.kernel}: no operation reads what another one computes, so there is nothing to fuse"

    def to_json(self) -> str:
        return json.dumps({"kernel": self.kernel, "edges": [asdict(edge) for edge in self.edges]}, indent=2)

    def __rich__(self) -> Table | str:
        if not self.edges:
            return escape(self.why_empty)
        table = Table(box=None, pad_edge=False)
        for heading in ("stage", "producer", "consumer", "line", "fused", "kind", "why"):
            table.add_column(heading, overflow="fold")
        for edge in without_repeats(self.edges):
            verdict = "yes" if edge.is_fused else "no"
            line = edge.line.rpartition("/")[2]
            entries = (edge.stage, edge.producer, edge.consumer, line, verdict, edge.kind, edge.reason)
            table.add_row(*map(escape, entries))
        return table

    def _repr_html_(self) -> str:
        if not self.edges:
            return f"<p>{self.why_empty}</p>"
        from mlirtri.trace.plots import edge_rows, fusion_graph

        stages = dict.fromkeys(edge.stage for edge in self.edges)
        graphs = [fusion_graph([edge for edge in self.edges if edge.stage == stage]) for stage in stages]
        rows = [
            [("yes" if cell is True else str(cell or "no")) for cell in row.values()] for row in edge_rows(self.edges)
        ]
        headings = ("stage", "producer", "consumer", "line", "fused", "kind", "why")
        return f"{_STYLE}<div class='mlirtri-fusion'>{''.join(graphs)}{_table_html(headings, rows)}</div>"

    def __str__(self) -> str:
        lines = [] if self.edges else [self.why_empty]
        for edge in without_repeats(self.edges):
            verdict = "fused" if edge.is_fused else "apart"
            lines.append(f"{edge.stage}: {edge.producer} -> {edge.consumer}: {verdict} ({edge.kind}): {edge.reason}")
        return "\n".join(lines)


def explain_fusion(kernel: str, compilation: Compilation) -> FusionReport:
    """Return the report on a compilation of this kernel; `compilation` does not change."""
    edges: list[Edge] = []
    context = replace(compilation.context, keep_passes=False, on_pass=None, passes={})
    records = compilation.records
    with COMPILING:
        if "linalg" in records and "fused" in records:
            edges += explain_operations.explain(records["linalg"].complete(), context)
        if "relax" in records and "tir" in records:
            from mlirtri.lowering.relax import explain_calls  # loads TVM

            edges += explain_calls.explain(records["relax"].ir, context)
    return FusionReport(kernel, tuple(edges), _has_loops(compilation))


def _has_loops(compilation: Compilation) -> bool:
    """Return whether the first text of MLIR has loops."""
    first = next((record.readable() for record in compilation.records.values() if record.stage.kind == "mlir"), "")
    return "scf.for " in first or "scf.while " in first or "tri.parallel" in first


def _table_html(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
