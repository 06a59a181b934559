"""Three networks with random weights, compiled by mlirtri and compared with torch's eager mode.

    python examples/models/demo.py [--pipeline linalg|relax|mlir] [--small]

For each: seconds to export and compile, milliseconds of a call beside those of eager, and the largest difference as
a part of the largest number, with the weights that it was compiled with and with others that were loaded into it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from gpt2 import GPT2
from mobilenet import MobileNet
from resnet import ResNet18
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from weights import randomise

import mlirtri as mt

STEPS = ("make", "export", "compile", "run", "load weights")


def networks(small: bool) -> dict[str, Callable[[], tuple[torch.nn.Module, torch.Tensor]]]:
    """Name to a function that makes the network and an input for it."""
    side = 32 if small else 224
    gpt2 = {"vocabulary": 100, "context": 16, "width": 32, "heads": 4, "blocks": 2} if small else {}
    length = 8 if small else 64
    return {
        "ResNet-18": lambda: (ResNet18(8 if small else 64), torch.randn(1, 3, side, side)),
        "MobileNet": lambda: (MobileNet(0.25 if small else 1.0), torch.randn(1, 3, side, side)),
        "GPT-2": lambda: (GPT2(**gpt2), torch.randint(0, gpt2.get("vocabulary", 50257), (1, length))),
    }


def measured(
    make: Callable[[], tuple[torch.nn.Module, torch.Tensor]], pipeline: str, step: Callable[[str], Any]
) -> tuple[str, ...]:
    """Compile and run one network: the columns of its row."""
    step("make")
    module, x = make()
    randomise(module)
    step("export")
    started = time.perf_counter()
    program = mt.from_torch(module, (x,))
    step("compile")
    kernel = program.compile(pipeline=pipeline)
    seconds = time.perf_counter() - started
    step("run")
    with torch.no_grad():
        difference = relative(kernel(x), module(x))
        ours, eager = milliseconds(lambda: kernel(x)), milliseconds(lambda: module(x))
        step("load weights")
        other, _ = make()
        randomise(other)
        program.load_state_dict(other.state_dict())
        loaded = relative(kernel(x), other(x))
    return f"{seconds:.1f}", f"{ours:.1f}", f"{eager:.1f}", f"{difference:.1e}", f"{loaded:.1e}"


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a part of the largest number."""
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def milliseconds(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The shortest of several calls."""
    times: list[float] = []
    while sum(times) < seconds and len(times) < 20:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipeline", default="linalg", choices=("linalg", "relax", "mlir"))
    parser.add_argument("--small", action="store_true", help="narrow networks and small inputs")
    options = parser.parse_args()
    torch.manual_seed(0)
    table = Table("network", "compile s", "call ms", "eager ms", "largest difference", "with other weights")
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console()
    with Progress(*columns, console=console) as progress:
        every = networks(options.small)
        bar = progress.add_task("", total=len(every) * len(STEPS))
        for name, make in every.items():

            def step(what: str, name: str = name) -> None:
                progress.update(bar, description=f"{name}: {what}", advance=1)

            table.add_row(name, *measured(make, options.pipeline, step))
    console.print(table)


if __name__ == "__main__":
    main()
