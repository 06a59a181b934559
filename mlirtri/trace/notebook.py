"""Texts and tables as HTML for cells of notebooks: folded, coloured, in the notebook's own light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mlirtri.trace.colours import coloured

_MOST_LINES = 2000
"""Lines of a text beyond which a cell shows the first of them only."""
_STYLE = """<style>
.mlirtri-texts pre { font-size: 12px; line-height: 1.4; overflow-x: auto; margin: .2rem 0 .6rem; }
.mlirtri-texts i { font-style: normal; }
.mlirtri-texts .k, .mlirtri-texts .kn, .mlirtri-texts .kd { color: #a626a4; }
.mlirtri-texts .kt { color: #0b7285; }
.mlirtri-texts .nv { color: #2b66c9; }
.mlirtri-texts .nf { color: #7a4fd0; }
.mlirtri-texts .nc, .mlirtri-texts .nb { color: #0a7d45; }
.mlirtri-texts .m, .mlirtri-texts .mi, .mlirtri-texts .mf, .mlirtri-texts .no { color: #b05c00; }
.mlirtri-texts .s, .mlirtri-texts .s1, .mlirtri-texts .s2 { color: #2b7a0b; }
.mlirtri-texts summary { cursor: pointer; font-family: monospace; }
</style>"""


def texts_html(texts: Iterable[tuple[str, str, str, str]]) -> str:
    """Return texts as folded sections; each is a name, a note, the kind of IR, and the text."""
    sections = []
    for name, note, kind, text in texts:
        lines = text.splitlines()
        rest = f"\n… {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else ""
        code = "\n".join(coloured(kind, line) for line in lines[:_MOST_LINES])
        sections.append(
            f"<details><summary>{escape(name)} <small>{escape(note)}</small></summary><pre>{code}{rest}</pre></details>"
        )
    return f'{_STYLE}<div class="mlirtri-texts">{"".join(sections)}</div>'


def table_html(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
