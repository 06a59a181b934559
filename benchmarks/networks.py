"""Whole networks in all pipelines beside eager torch, ``torch.compile``, ONNX Runtime and OpenVINO: one row each.

    python -m benchmarks.networks [--rows NAME …] [--threads N …] [--pipelines …] [--peers …] [--cpu]

Candidates that are not installed are left out. Each row runs in a process of its own: seconds to export, compile and
call first, the median time of a call of each candidate, and the largest difference to eager as a part of the largest
number. All candidates are called in turn. `--cpu` takes CPU time, for one thread on a machine that others use, too.
The networks are plain torch (`examples/models`, `examples/generate`). A row is printed when it is done, and the table
of all rows at the end. A candidate that fails, or that takes longer than `--limit` to compile, has its reason below its
row; the others of the row go on.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import mlirtri
from benchmarks.processes import import_everything, in_own_process

sys.path[:0] = [str(Path(__file__).parent.parent / "examples" / folder) for folder in ("models", "generate")]

PIPELINES = ("linalg", "relax", "mlir")
PEERS = ("eager", "compile", "onnxruntime", "openvino")
ROUNDS, SECONDS = 5, 1.0
LIMIT = 120.0
"""Seconds that a candidate may take to export, compile and call first."""
Call = Callable[[], Any]
Clock = Callable[[], float]
Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def _encoder(width: int, heads: int, layers: int, length: int) -> Made:
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), (torch.randn(1, length, width),)


def _gpt2(blocks: int, length: int) -> Made:
    from gpt2 import GPT2

    return GPT2(vocabulary=5000, blocks=blocks), (torch.randint(0, 5000, (1, length)),)


def _resnet() -> Made:
    from resnet import ResNet18

    return ResNet18(64), (torch.randn(1, 3, 224, 224),)


def _mobilenet() -> Made:
    from mobilenet import MobileNet

    return MobileNet(1.0), (torch.randn(1, 3, 224, 224),)


def _decoder(name: str) -> Made:
    from decoders import Sizes, decoder

    module = decoder(name, Sizes(5000, 512, 8, 2 if name == "llama" else 8, layers=4, length=256))
    return module, (torch.tensor([7]), torch.tensor(100), *module.empty_caches())


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(128, 256, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[0]


ROWS: dict[str, Callable[[], Made]] = {
    "BERT-base, 2 of 12 layers, 1x128": lambda: _encoder(768, 12, 2, 128),
    "encoder of width 512, 4 layers, 8 tokens": lambda: _encoder(512, 8, 4, 8),
    "GPT-2, 2 of 12 blocks, 1x64": lambda: _gpt2(2, 64),
    "GPT-2 shaped step, 4 blocks of 512": lambda: _decoder("gpt2"),
    "Llama shaped step, 4 blocks of 512": lambda: _decoder("llama"),
    "ResNet-18, 224²": _resnet,
    "MobileNet, 224²": _mobilenet,
    "LSTM, 2 layers of 256, 64 steps": lambda: (_Recurrent(), (torch.randn(1, 64, 128),)),
}


class OutOfTimeError(BaseException):
    """A candidate has used its seconds; no `Exception`, which the compilers catch in many places."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` in the body, which runs in the main thread, after so many seconds."""

    def stop(*_: Any) -> None:
        raise OutOfTimeError(f"not compiled and called after {seconds:g} s")

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def measured(
    make: Callable[[], Made],
    threads: int,
    pipelines: list[str],
    peers: list[str],
    limit: float,
    clock: Clock = time.perf_counter,
) -> dict[str, Any]:
    """Return seconds to compile, seconds of a call by candidate, differences, and why others have none."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    module, arguments = make()
    module = module.eval()
    calls: dict[str, Call] = {"eager": lambda: module(*arguments)}
    compiling: dict[str, float] = {}
    stats: dict[str, Any] = {}
    why: dict[str, str] = {}
    makers: dict[str, Callable[[], Call]] = {
        **{name: lambda name=name: _ours(module, arguments, name, stats) for name in pipelines},
        "compile": lambda: _by_inductor(module, arguments),
        "onnxruntime": lambda: _by_onnxruntime(module, arguments, threads),
        "openvino": lambda: _by_openvino(module, arguments, threads),
    }
    with torch.no_grad():
        for name, maker in makers.items():
            if name not in pipelines and name not in peers:
                continue
            started = clock()
            try:
                with limited(limit):
                    calls[name] = maker()
                    calls[name]()
            except (Exception, OutOfTimeError) as error:
                calls.pop(name, None)
                why[name] = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
            else:
                compiling[name] = clock() - started
        differences = {name: _difference(call(), calls["eager"]()) for name, call in calls.items()}
        return {
            "seconds": _timed(calls, clock),
            "compile": compiling,
            "differences": differences,
            "stats": stats,
            "why": why,
        }


def _timed(calls: dict[str, Call], clock: Clock) -> dict[str, float]:
    """Return the median time of a call, of rounds in which each candidate is called in turn."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            end = time.perf_counter() + SECONDS / ROUNDS
            while True:
                started = clock()
                call()
                samples[name].append(clock() - started)
                if samples[name][-1] + time.perf_counter() > end:
                    break
    return {name: statistics.median(times) for name, times in samples.items()}


def _ours(module: nn.Module, arguments: tuple[torch.Tensor, ...], pipeline: str, stats: dict[str, Any]) -> Call:
    kernel = mlirtri.from_torch(module, arguments).compile(pipeline=pipeline)
    stats[pipeline] = {name: kernel.stats[name] for name in ("kernels", "peak_bytes")}
    return lambda: kernel(*arguments)


def _by_inductor(module: nn.Module, arguments: tuple[torch.Tensor, ...]) -> Call:
    compiled = torch.compile(module)
    return lambda: compiled(*arguments)


def _by_onnxruntime(module: nn.Module, arguments: tuple[torch.Tensor, ...], threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(_onnx(module, arguments), options, providers=["CPUExecutionProvider"])
    feeds = {each.name: value.numpy() for each, value in zip(session.get_inputs(), arguments, strict=True)}
    return lambda: torch.from_numpy(session.run(None, feeds)[0])


def _by_openvino(module: nn.Module, arguments: tuple[torch.Tensor, ...], threads: int) -> Call:
    import openvino

    model = openvino.convert_model(module, example_input=arguments)
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.compile_model(model, "CPU", options)
    values = [value.numpy() for value in arguments]
    return lambda: torch.from_numpy(compiled(values)[0])


def _onnx(module: nn.Module, arguments: tuple[torch.Tensor, ...]) -> bytes:
    file = io.BytesIO()
    torch.onnx.export(module, arguments, file, dynamo=importlib.util.find_spec("onnxscript") is not None)
    return file.getvalue()


def _difference(found: Any, wanted: Any) -> float:
    found, wanted = (value[0] if isinstance(value, (tuple, list)) else value for value in (found, wanted))
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def shown(outcomes: dict[str, dict[str, Any]], pipelines: list[str], peers: list[str]) -> Table:
    """Return the table: milliseconds, the best peer's time divided by that of the first pipeline, and what it took."""
    table = Table("network", *pipelines, *peers, "ratio", "compile s", "kernels", "peak bytes", "difference")
    for name, outcome in outcomes.items():
        if "error" in outcome:
            table.add_row(name, outcome["error"])
            continue
        seconds, first = outcome["seconds"], pipelines[0]
        cells = [f"{seconds[each] * 1000:.2f}" if each in seconds else "-" for each in (*pipelines, *peers)]
        best = min((seconds[peer] for peer in peers if peer in seconds), default=0.0)
        ratio = f"{best / seconds[first]:.2f}" if first in seconds else "-"
        stats = outcome["stats"].get(first, {})
        largest = max((outcome["differences"][each] for each in pipelines if each in seconds), default=float("nan"))
        rest = [
            f"{outcome['compile'].get(first, float('nan')):.1f}",
            str(stats.get("kernels")),
            str(stats.get("peak_bytes")),
        ]
        table.add_row(name, *cells, ratio, *rest, f"{largest:.0e}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), metavar="NAME", help="beginnings of names")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--pipelines", nargs="+", default=list(PIPELINES), choices=PIPELINES)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a candidate to compile")
    parser.add_argument("--cpu", action="store_true", help="CPU time, where others use the machine, too")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    import_everything()
    console = Console(width=200)
    longest = (len(options.pipelines) + len(options.peers) + 1) * options.limit
    for threads in options.threads:
        outcomes = {}
        for name, make in ROWS.items():
            if not name.startswith(tuple(options.rows)):
                continue
            outcomes[name] = in_own_process(
                lambda make=make, threads=threads: measured(
                    make, threads, options.pipelines, options.peers, options.limit, clock
                ),
                longest,
            )
            console.print(shown({name: outcomes[name]}, options.pipelines, options.peers))
            for candidate, reason in outcomes[name].get("why", {}).items():
                print(f"{name}: no {candidate}: {reason}", flush=True)
        console.print(f"{threads} threads, milliseconds of a call")
        console.print(shown(outcomes, options.pipelines, options.peers))


if __name__ == "__main__":
    main()
