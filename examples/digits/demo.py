"""`make demo`: train a digit classifier with torch, then run it through kernels compiled by all three pipelines.

Prints the stages of one kernel, the table of `mlirtri.compare`, and the accuracy of each pipeline beside
torch's. Ends with status 1 when a pipeline classifies any image otherwise than torch does.
"""

from __future__ import annotations

import re
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
LANGUAGES = {"ast": "python", "relax": "python", "tir": "python", "scheduled": "python", "asm": "gas", "cuda": "cuda"}
"""How rich colours a stage's text; the other stages are MLIR or LLVM IR."""
STARTS = {
    "linalg": r" *func\.func", "fused": r" *func\.func", "relax": r" *@R\.function", "tir": r" *@T\.prim_func",
    "scheduled": r" *@T\.prim_func", "llvm": r"define internal.*compute_", "asm": r"\w+:",
    "cuda": r"extern \"C\" __global__.*\{$",
}  # fmt: skip
"""The first line worth seeing of a long text: what stands above is the same for every kernel."""

# A pipe has no width to fit into; a terminal's own is taken.
out = Console(width=None if sys.stdout.isatty() else 140)
progress = Console(stderr=True)


def show_stages(lines: int) -> None:
    """Print the text of each stage of the feed-forward kernel for four tokens, up to `lines` lines of each."""
    shapes = ((4, 32), (64, 32), (64,), (32, 64), (32,))
    abstract = [mt.Tensor(shape, mt.float32) for shape in shapes]
    with progress.status("compiling the feed-forward kernel for the CPU and for CUDA"):
        kernel = feed_forward.compile(*abstract)
        cuda = feed_forward.compile(*abstract, target="cuda:sm_80")
    for name, text in (*kernel.ir.items(), ("cuda", cuda.ir["cuda"])):
        show(name, text.splitlines(), lines)


def show(name: str, text: list[str], lines: int) -> None:
    """Print `lines` lines of a stage's text from the first that is worth seeing."""
    first = next((at for at, line in enumerate(text) if re.match(STARTS.get(name, ""), line)), 0)
    shown = text[first : first + lines]
    out.print(Rule(f"[bold]{name}[/], lines {first + 1} to {first + len(shown)} of {len(text)}", align="left"))
    out.print(Syntax("\n".join(shown), LANGUAGES.get(name, "llvm"), background_color="default"))


def compare_accuracy(arguments: list[torch.Tensor], expected: torch.Tensor, labels: torch.Tensor) -> bool:
    """Print one row for torch and one per pipeline; True when every prediction is torch's."""
    table = Table(title=f"{len(labels)} test images", title_justify="left")
    for heading in ("", "accuracy", "predictions like torch's", "largest error in a logit", "kernels", "compiled in"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("torch", f"{accuracy(expected, labels):.2%}", *[""] * 4)
    all_equal = True
    for pipeline in PIPELINES:
        with progress.status(f"compiling for pipeline {pipeline}"):
            kernel = classify_digits.compile(*arguments, pipeline=pipeline)
        logits = kernel(*arguments)
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


@click.command(help=__doc__)
@click.option("--lines", default=24, show_default=True, help="Lines to show of each stage.")
@click.option("--repeat", type=click.IntRange(1), help="Rounds of timing; by default as many as fit half a second.")
def main(lines: int, repeat: int | None) -> None:
    digits = load()
    model = train(digits)
    with torch.no_grad():
        expected = model(digits.test_images)
    arguments = [digits.test_images, *weights_of(model)]

    out.print(Rule("The stages of one kernel", characters="═"))
    show_stages(lines)
    out.print(Rule("The pipelines side by side", characters="═"))
    with progress.status("compiling and timing the pipelines"):
        comparison = mt.compare(classify_digits, *arguments, pipelines=PIPELINES, repeat=repeat)
    out.print(comparison)
    out.print(Rule("Accuracy", characters="═"))
    if not compare_accuracy(arguments, expected, digits.test_labels):
        out.print("a pipeline disagrees with torch", style="bold red")
        sys.exit(1)


if __name__ == "__main__":
    main()
