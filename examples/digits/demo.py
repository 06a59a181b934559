"""`make demo`: train a digit classifier with torch, then run it through kernels compiled by all three pipelines.

Prints the accuracy of each beside torch's, one kernel's walk through its stages, and the table of `mlirtri.compare`.
Ends with status 1 when a pipeline classifies any image otherwise than torch does.
"""

from __future__ import annotations

import sys

import click
import torch
from kernels import classify_digits, feed_forward, weights_of
from model import accuracy, load, train
from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir")
LANGUAGES = {"ast": "python", "relax": "python", "tir": "python", "scheduled": "python", "asm": "gas"}
"""How rich colours a stage's text; the other stages are MLIR or LLVM IR."""

out, progress = Console(), Console(stderr=True)


def classify_with(pipeline: str, arguments: list[torch.Tensor]) -> tuple[mt.Kernel, torch.Tensor]:
    """Compile for `pipeline` and run on the CPU."""
    with progress.status(f"compiling for pipeline {pipeline}"):
        kernel = classify_digits.compile(*arguments, pipeline=pipeline)
    return kernel, kernel(*arguments)


def compare_accuracy(arguments: list[torch.Tensor], expected: torch.Tensor, labels: torch.Tensor) -> bool:
    """Print one row for torch and one per pipeline; True when every prediction is torch's."""
    table = Table(title=f"{len(labels)} test images", title_justify="left")
    for heading in ("", "accuracy", "predictions like torch's", "largest error in a logit", "kernels", "compiled in"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("torch", f"{accuracy(expected, labels):.2%}", *[""] * 4)
    all_equal = True
    for pipeline in PIPELINES:
        kernel, logits = classify_with(pipeline, arguments)
        equal = (logits.argmax(1) == expected.argmax(1)).sum().item()
        all_equal &= equal == len(labels)
        error = (logits - expected).abs().max().item()
        seconds = sum(kernel.stats["compile_seconds"].values())
        table.add_row(
            pipeline, f"{accuracy(logits, labels):.2%}", f"{equal} of {len(labels)}", f"{error:.1e}",
            str(kernel.stats["kernels"]), f"{seconds:.2f} s",
        )  # fmt: skip
    out.print(table)
    return all_equal


def walk(lines: int) -> None:
    """Print the text of each stage of the feed-forward kernel for four tokens, up to `lines` lines of each."""
    shapes = ((4, 32), (64, 32), (64,), (32, 64), (32,))
    with progress.status("compiling the feed-forward kernel"):
        kernel = feed_forward.compile(*(mt.Tensor(shape, mt.float32) for shape in shapes))
    for name, text in kernel.ir.items():
        shown = text.splitlines()
        out.print(Rule(f"[bold]{name}[/], {len(shown)} lines", align="left"))
        out.print(Syntax("\n".join(shown[:lines]), LANGUAGES.get(name, "llvm"), background_color="default"))
        if len(shown) > lines:
            out.print(f"… {len(shown) - lines} more lines (--lines {len(shown)} shows them)", style="dim")


@click.command(help=__doc__)
@click.option("--lines", default=24, show_default=True, help="Lines to show of each stage.")
def main(lines: int) -> None:
    digits = load()
    model = train(digits)
    with torch.no_grad():
        expected = model(digits.test_images)
    arguments = [digits.test_images, *weights_of(model)]

    out.print(Rule("The walk of one kernel", characters="═"))
    walk(lines)
    out.print(Rule("The pipelines side by side", characters="═"))
    with progress.status("timing the pipelines"):
        comparison = mt.compare(classify_digits, *arguments, pipelines=PIPELINES)
    out.print(comparison)
    out.print(Rule("Accuracy", characters="═"))
    if not compare_accuracy(arguments, expected, digits.test_labels):
        out.print("a pipeline disagrees with torch", style="bold red")
        sys.exit(1)


if __name__ == "__main__":
    main()
