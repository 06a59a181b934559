"""Which real architectures compile, and whether they compute what eager torch does: the table of `docs/models.md`.

    python -m benchmarks.models [--only NAME …] [--pipelines linalg relax mlir] [--write]

Each model is made from a configuration of `transformers`, `timm` or `torchvision` (extra `models`), tiny and with
random weights, in a process of its own with a time limit. Results go into ``build/models.json`` as they come, and
models that it has are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import mlirtri
from benchmarks.model_list import Model, models
from benchmarks.processes import import_everything, in_own_process
from mlirtri.errors import KernelError, UnsupportedOperationError
from mlirtri.programs.torch_programs.caches import register_caches

FILE = Path("build/models.json")
PAGE = Path(__file__).parent.parent / "docs" / "models.md"
LIMIT = 120
"""Seconds of CPU for a model and a pipeline; six times as many may pass."""
TOLERANCE = 2e-3
"""The largest difference, as a part of the largest number, that is no wrong result: half the digits of fp32."""

BEYOND = "## Beyond the list"
"""The heading of the page's last part, which is written by hand and kept."""
HEAD = """# Models

Architectures from their libraries' configurations, tiny and with random weights, through `mt.from_torch` on a CPU.
`python -m benchmarks.models` runs them, and `--write` writes this page. A number is the largest difference to eager
torch, as a part of the largest number of the results. What is refused or late has its reason below. What
`torch.export` refuses is not counted. Models of `benchmarks/model_list.py` that the page lacks were not run yet. Rows
stay until their models are run again, so kernels and seconds (of CPU time) may be those of an earlier version. Rows
below 1e-9 show little: batch norms had the statistics that they begin with, which makes results nearly constant.

"""


def measured(model: Model, pipeline: str) -> dict[str, Any]:
    """Compile and run one model: seconds, launches, the difference to eager, or who refused it and why."""
    # Seconds of a compilation, not of a look into the disk cache.
    os.environ["MLIRTRI_CACHE"] = "0"
    torch.manual_seed(0)
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    module, arguments = model.make()
    module = _with_values(module.eval(), arguments)
    # Else eager's results are without the tensors of caches, which are results of an exported program.
    register_caches()
    parameters = sum(parameter.numel() for parameter in module.parameters())
    # Some models draw random numbers in their forward: the same ones from the same seed.
    torch.manual_seed(0)
    with torch.no_grad():
        wanted = [leaf.clone() for leaf in _tensors(module(**arguments))]
    started = time.process_time()
    try:
        program = mlirtri.from_torch(module, (), arguments)
    except UnsupportedOperationError as error:
        return {"refused by": "torch" if "torch." in error.message[:30] else "mlirtri", "why": _line(error)}
    exported = time.process_time()
    try:
        kernel = program.compile(pipeline=pipeline)
        seconds = time.process_time() - exported
        torch.manual_seed(0)
        with torch.no_grad():
            found = _tensors(kernel(**arguments))
    except KernelError as error:
        return {"refused by": "mlirtri", "why": _line(error)}
    return {
        "difference": max(map(_difference, found, wanted)) if found else 0.0,
        "export": exported - started,
        "compile": seconds,
        "kernels": kernel.stats["kernels"],
        "parameters": parameters,
    }


def _with_values(module: torch.nn.Module, arguments: Mapping[str, Any]) -> torch.nn.Module:
    """Give a module values that show differences.

    Matrices that are all zeros, as routers begin with, get small random numbers. Batch norms get a variance that fits
    these arguments: with the one that they begin with, results of deep networks are 0 or the last bias.
    """
    norms = [norm for norm in module.modules() if isinstance(norm, torch.nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1 and not parameter.any():
                parameter.normal_(std=0.02)
        hooks = [norm.register_forward_pre_hook(_take_scale) for norm in norms]
        if hooks:
            module(**arguments)
    for hook in hooks:
        hook.remove()
    return module


def _take_scale(norm: Any, inputs: tuple[torch.Tensor]) -> None:
    # One variance for all channels: those of single channels with few pixels would magnify roundings.
    if norm.running_var is not None:
        norm.running_var.fill_(inputs[0].square().mean() + 1e-12)


def _tensors(results: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(dict(results) if isinstance(results, Mapping) else results)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _difference(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest difference as a part of the largest number; infinite for other shapes, dtypes or NaN."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if not wanted.numel():
        return 0.0
    found, wanted = found.double(), wanted.double()
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    difference = torch.where(same, 0.0, (found - wanted).abs())
    largest = torch.where(wanted.isfinite(), wanted.abs(), 0.0).max().item()
    result = (difference / max(largest, 1e-6)).max().item()
    return result if result == result else float("inf")


def _line(error: Exception) -> str:
    """Return the first line of the message, with files of libraries named from their packages."""
    return re.sub(r"\S*site-packages/", "", str(error).strip().splitlines()[0])[:200]


def run(names: list[str], pipelines: list[str]) -> dict[str, Any]:
    """Run what is not in the file yet, and return all that it then has."""
    import_everything()
    FILE.parent.mkdir(exist_ok=True)
    for model in models():
        if names and model.name not in names:
            continue
        for pipeline in pipelines:
            key = f"{model.name} {pipeline}"
            if key in _outcomes() and not names:
                continue
            work: Callable[[], dict[str, Any]] = lambda model=model, pipeline=pipeline: measured(model, pipeline)  # noqa: E731
            outcome = in_own_process(work, 6 * LIMIT)
            print(key, outcome, flush=True)
            # Another process may have written the file meanwhile, for another pipeline.
            FILE.write_text(json.dumps({**_outcomes(), key: outcome}, indent=1, sort_keys=True))
    return _outcomes()


def _outcomes() -> dict[str, Any]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these models, again")
    parser.add_argument("--pipelines", nargs="+", default=["linalg"], choices=("linalg", "relax", "mlir"))
    parser.add_argument("--write", action="store_true", help="write docs/models.md of what build/models.json has")
    options = parser.parse_args()
    if options.write:
        _, heading, kept = PAGE.read_text().partition(BEYOND)
        PAGE.write_text(page(json.loads(FILE.read_text())) + (f"\n{heading}{kept}" if heading else ""))
        return
    run(options.only, options.pipelines)


def page(outcomes: dict[str, Any]) -> str:
    """Return the page of these outcomes."""
    pipelines = sorted({key.rpartition(" ")[2] for key in outcomes}, key=("linalg", "relax", "mlir").index)
    names = sorted({key.rpartition(" ")[0] for key in outcomes})
    lines = [HEAD.rstrip() + "\n", _summary(outcomes, pipelines), ""]
    lines += [f"| model | {' | '.join(pipelines)} | kernels | compile s |", "|---" * (3 + len(pipelines)) + "|"]
    reasons = []
    for name in names:
        found = {pipeline: outcomes[key] for pipeline in pipelines if (key := f"{name} {pipeline}") in outcomes}
        if any(outcome.get("refused by") == "torch" for outcome in found.values()):
            continue
        first = next(iter(found.values()))
        seconds = f"{first['compile']:.1f}" if "compile" in first else ""
        cells = [_cell(found.get(pipeline)) for pipeline in pipelines]
        lines.append(f"| {name} | {' | '.join(cells)} | {first.get('kernels', '')} | {seconds} |")
        reasons += [f"- {name}, {pipeline}: {_why(each)}" for pipeline, each in found.items() if _why(each)]
    return "\n".join([*lines, "", "## What is refused, and why", "", *(reasons or ["Nothing."]), ""])


def _summary(outcomes: dict[str, Any], pipelines: list[str]) -> str:
    sentences = []
    for pipeline in pipelines:
        mine = [outcome for key, outcome in outcomes.items() if key.endswith(f" {pipeline}")]
        taken = [outcome for outcome in mine if outcome.get("refused by") != "torch"]
        right = sum(_is_right(outcome) for outcome in taken)
        wrong = sum("difference" in outcome and not _is_right(outcome) for outcome in taken)
        others = len(taken) - right - wrong
        sentences.append(
            f"`{pipeline}`: of {len(taken)} models {right} right, {wrong} wrong, {others} refused or late."
        )
    return " ".join(sentences)


def _is_right(outcome: dict[str, Any]) -> bool:
    return "difference" in outcome and outcome["difference"] <= TOLERANCE


def _cell(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return ""
    if "difference" in outcome:
        return f"{outcome['difference']:.0e}" if _is_right(outcome) else f"wrong: {outcome['difference']:.0e}"
    return (
        "refused"
        if "why" in outcome
        else "late"
        if any(words in outcome["error"] for words in ("no result", "SIGXCPU"))
        else "failed"
    )


def _why(outcome: dict[str, Any]) -> str:
    return outcome.get("why") or outcome.get("error") or ""


if __name__ == "__main__":
    main()
