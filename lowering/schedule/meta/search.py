"""Draw, build, check and time schedules of a PrimFunc: the worker process that `process.py` starts.

Requests are dicts: function, default schedule, target, budget, seed. Answers are dicts: ``default`` (seconds of our own
schedule), ``trial`` (a number, and seconds or null), ``found`` (a trace that computes what the default does, faster
than those before), ``done``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import torch

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.lowering.codegen.build_pipeline import BUILD_PIPELINE
from mlirtri.lowering.codegen.lowered_functions import cuda_module, host_module
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.runtime.torch_threads import use_threads
from mlirtri.lowering.schedule.meta.rule import MAIN
from mlirtri.lowering.toolchain.tvm_names import Buffer, IRModule, PrimFunc, ir, meta_schedule, tune_context, tvm
from mlirtri.lowering.toolchain.tvm_passes import short_message
from mlirtri.lowering.toolchain.worker_process import message_pipes

BATCH = 8
"""Schedules drawn at a time; what was measured of one batch breeds the next."""
POPULATION = 64
GENERATIONS = 2
DRAWN_UNMEASURED = 16
Report = Callable[[dict[str, Any]], None]


def serve() -> None:
    """Answer requests until there are no more."""
    requests, report = message_pipes()
    report({"ready": True})
    for request in requests:
        target = Target(*request["target"])
        use_threads(target.threads)
        function = ir.load_json(request["function"])
        try:
            with tvm_target(target):
                if request["trials"]:
                    _search(function, target, request, report)
                else:
                    _draw(function, target, request, report)
        except Exception as error:
            # The compiling process reports it as the failure of the rule "MetaSchedule".
            report({"failed": short_message(error).splitlines()[0]})


def _search(function: PrimFunc, target: Target, request: dict[str, Any], report: Report) -> None:
    deadline = time.monotonic() + request["seconds"]
    trials = Trials(function, target)
    default = trials.build(ir.load_json(request["default"]))
    expected = default.results()
    seconds = default.seconds()
    report({"default": seconds})
    context = _context(function, target, request["seed"])
    best, winner, trial = seconds, None, 0
    for candidates in _batches(context, request["trials"]):
        results = []
        for candidate in candidates:
            built, elapsed = _tried(trials, candidate.sch, expected, best)
            results.append(_runner_result(elapsed))
            trial += 1
            if elapsed is not None and elapsed < best:
                best, winner = elapsed, built
                report({"found": _trace(candidate.sch), "seconds": elapsed})
            report({"trial": trial, "seconds": elapsed})
            if time.monotonic() > deadline:
                break
        if time.monotonic() > deadline:
            break
        context.notify_runner_results(candidates, results)
    report(_conclusion(default, winner, trial))


def _conclusion(default: Built, winner: Built | None, trials: int) -> dict[str, Any]:
    """Time both schedules once more, alternately: the best of many measurements is biased by luck."""
    if winner is None:
        return {"done": trials}
    pairs = [(default.seconds(), winner.seconds()) for _ in range(3)]
    return {"done": trials, "default": min(pair[0] for pair in pairs), "best": min(pair[1] for pair in pairs)}


def _tried(trials: Trials, schedule: Any, expected: list, best: float) -> tuple[Built | None, float | None]:
    """Return a compiled schedule and its time; None if TVM cannot build it, or its results differ."""
    try:
        built = trials.build(schedule.mod[MAIN])
        if not agree(built.results(), expected):
            return None, None
        return built, built.seconds(best)
    except Exception:  # TVM draws schedules that it cannot build or run: those are the losers of the search
        return None, None


def _draw(function: PrimFunc, target: Target, request: dict[str, Any], report: Report) -> None:
    """Report the first of the drawn schedules that can be compiled, unmeasured."""
    for candidates in _batches(_context(function, target, request["seed"], measured=False), BATCH):
        for candidate in candidates:
            try:
                _compile(candidate.sch.mod[MAIN], target)
            except Exception:  # as above
                continue
            report({"found": _trace(candidate.sch), "seconds": None})
            report({"done": 0})
            return
    report({"done": 0})


def _compile(function: PrimFunc, target: Target) -> None:
    from mlirtri.lowering.schedule.cuda.cuda_rules import check_launch

    if target.is_cuda:
        check_launch(function)
    else:
        Trials(function, target).build(function)


def _context(function: PrimFunc, target: Target, seed: int, measured: bool = True) -> Any:
    """Return TVM's state of a search in the space that its own rules span for this kind of target."""
    names = meta_schedule()
    kind = "cuda" if target.is_cuda else "llvm"
    space = names.SpaceGenerator.create("post-order-apply", sch_rules=kind, postprocs=kind, mutator_probs=kind)
    strategy = names.SearchStrategy.create("replay-trace", max_fail_count=100)
    if measured:
        strategy = names.SearchStrategy.create(
            "evolutionary", population_size=POPULATION, init_min_unmeasured=DRAWN_UNMEASURED,
            genetic_num_iters=GENERATIONS,
        )  # fmt: skip
    module = IRModule({MAIN: function.with_attrs({"global_symbol": MAIN})})
    return tune_context(module, tvm_target(target), space, strategy, seed, threads=1)


def _batches(context: Any, trials: int) -> Iterator[Any]:
    names = meta_schedule()
    spaces = context.generate_design_space()
    database = names.database.MemoryDatabase()
    context.pre_tuning(trials, BATCH, spaces, database, names.cost_model.RandomModel())
    while candidates := context.generate_measure_candidates():
        yield candidates
    context.post_tuning()


def _runner_result(seconds: float | None) -> Any:
    runner = meta_schedule().runner
    return runner.RunnerResult(None, "failed") if seconds is None else runner.RunnerResult([seconds], None)


def _trace(schedule: Any) -> str:
    """Return the steps from the function to the schedule, as JSON."""
    return ir.save_json(schedule.trace.as_json())


_SLOW = 4
"""How many times slower than the best a schedule may be and still be timed with care."""
_REPEATS, _MILLISECONDS = 3, 10
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far floats may be from those of the default schedule: sums in another order are no mistake, other terms are."""


class Trials:
    """The data that all schedules of one function run on."""

    def __init__(self, function: PrimFunc, target: Target):
        self.target = target
        self.device = tvm.cuda(0) if target.is_cuda else tvm.cpu(0)
        generator = torch.Generator().manual_seed(0)
        self.inputs = [_data(parameter, generator) for parameter in function.params]

    def build(self, function: PrimFunc) -> Built:
        """Return the compiled function, as the later stages would compile it."""
        as_module = cuda_module if self.target.is_cuda else host_module
        module = as_module([("kernel", function)])
        return Built(self, tvm.tirx.build(module, target=tvm_target(self.target), pipeline=BUILD_PIPELINE))


class Built:
    """A schedule of the search, compiled to a function that can be timed."""

    def __init__(self, trials: Trials, library: Any):
        self.library = library
        self.device = trials.device
        self.arguments = [tvm.runtime.from_dlpack(tensor.clone()) for tensor in trials.inputs]
        if trials.target.is_cuda:
            self.arguments = [argument.copyto(trials.device) for argument in self.arguments]

    def results(self) -> list[torch.Tensor]:
        """Return all arguments after one run: those that the function writes are among them."""
        self.library["kernel"](*self.arguments)
        self.device.sync()
        return [torch.from_dlpack(argument.copyto(tvm.cpu(0))) for argument in self.arguments]

    def seconds(self, best: float = inf) -> float:
        """Return the time of a run: the median of a few rounds, or one round where that is far from the best."""
        once = self._timed(1, 0)[0]
        return once if once > _SLOW * best else sorted(self._timed(_REPEATS, _MILLISECONDS))[_REPEATS // 2]

    def _timed(self, repeat: int, milliseconds: int) -> list[float]:
        evaluate: Callable[..., Any] = self.library.time_evaluator(
            "kernel", self.device, number=1, repeat=repeat, min_repeat_ms=milliseconds
        )
        return [float(seconds) for seconds in evaluate(*self.arguments).results]


def agree(results: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Return whether two schedules compute the same, up to the order of sums."""
    for result, reference in zip(results, expected, strict=True):
        if reference.dtype not in TOLERANCE:
            if not torch.equal(result, reference):
                return False
            continue
        finite = reference[reference.isfinite()].abs().double()
        tolerance = TOLERANCE[reference.dtype]
        scale = tolerance * float(finite.mean()) if finite.numel() else 0.0
        if not torch.allclose(result.double(), reference.double(), rtol=tolerance, atol=scale, equal_nan=True):
            return False
    return True


def _data(buffer: Buffer, generator: torch.Generator) -> torch.Tensor:
    """Return an argument: positive floats, so that sums do not cancel; zeros where integers may be positions."""
    shape, dtype = [int(extent) for extent in buffer.shape], DTYPES[str(buffer.dtype)].torch
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float32) + 0.5).to(dtype)
