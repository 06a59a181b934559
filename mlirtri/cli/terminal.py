"""Print tables to the terminal, or into a file, and show that a command is at work."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import RenderableType
    from rich.table import Table


def table(*headings: str) -> Table:
    """Return an empty table without lines, whose long cells wrap."""
    from rich.table import Table

    empty = Table(box=None, pad_edge=False)
    for heading in headings:
        empty.add_column(heading, overflow="fold")
    return empty


def show(renderable: RenderableType, stderr: bool = False) -> None:
    """Print a table to stdout or stderr, where stdout is no terminal with lines that are as long as they have to be."""
    from rich.console import Console

    is_free = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=10_000 if is_free else None, highlight=False)
    # Printed by us: rich would end the process where a reader leaves early.
    with console.capture() as text:
        console.print(renderable)
    print(text.get(), end="", file=sys.stderr if stderr else sys.stdout)


def waiting(activity: str) -> AbstractContextManager[object]:
    """Return a context in which stderr, where it is a terminal, shows what the command does."""
    from rich.console import Console

    return Console(stderr=True).status(activity)
