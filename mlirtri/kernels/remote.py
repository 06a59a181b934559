"""The stages after the front end in another process: what it is sent, what it does, and what it sends back.

Stage `tri` says everything about a kernel in its text, so that a worker needs this package and nothing of the user's:
neither the function nor what it reads. Code comes back as files, linked.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlirtri import settings
from mlirtri.compiler.observe import Observer
from mlirtri.compiler.printing import parse
from mlirtri.compiler.records import COMPILING, Compilation, StageRecord, StoredRecord
from mlirtri.compiler.stage_loop import run_stages
from mlirtri.compiler.versions import sources_digest, versions
from mlirtri.errors import CompileStoppedError, KernelTypeError, SkippedStep
from mlirtri.kernels.saved_files import packed, unpacked
from mlirtri.kernels.session import FRAMES_OF_REGIONS, Elaborated
from mlirtri.lowering.core.interface import Interface
from mlirtri.lowering.core.recursion import more_frames
from mlirtri.lowering.core.stage import Code, CompileContext, PassRecord
from mlirtri.lowering.core.target import Target, host_cpu_digest
from mlirtri.lowering.pipelines import LazyLowering, Pipeline

Facts = dict[str, str]


@dataclass(frozen=True)
class Task:
    """What a worker needs to run the later stages of a kernel."""

    kernel: str
    text: str
    """Of the last stage of the front end, in full."""
    kind: str
    """That stage's."""
    pipeline: Pipeline
    stages: Pipeline
    """The part of it that the worker runs."""
    target: Target
    schedule: str
    interface: Interface
    params: dict[str, Any]
    keep_passes: bool
    facts: Facts
    """What has to be the same in the worker."""


@dataclass(frozen=True)
class Answer:
    """What a worker has made of a task."""

    records: dict[str, tuple[float, str, str]]
    """By stage its seconds, its readable and its complete text."""
    passes: dict[str, list[PassRecord]]
    warnings: list[SkippedStep]
    params: dict[str, Any]
    """The tensors that the kernel is bound to since."""
    executable: tuple[dict[str, Any], bytes] | None
    """Its description and its files; None where the stages end before there is code."""


def remote_stages(elaborated: Elaborated) -> Pipeline:
    """Return the stages that a worker runs: all that are left, but for those that make code for CUDA.

    Such code is compiled by its device at the first call, and has no files.
    """
    names = elaborated.back.names
    count = names.index("cuda") if "cuda" in names else len(names)
    return Pipeline(elaborated.back.name, elaborated.back.stages[:count])


def task_of(elaborated: Elaborated) -> Task:
    """Return the task of a kernel's later stages; raises `KernelTypeError` for a stage that only this process has."""
    stages, context = remote_stages(elaborated), elaborated.front.context
    for stage in stages.stages:
        if not _can_travel(stage.run):
            raise KernelTypeError(
                f"the lowering of stage {stage.name!r}, {stage.run!r}, cannot be sent to another process",
                help="define it in a module that workers can import, and not inside of a function",
            )
    record = list(elaborated.front.records.values())[-1]
    others = {stage: replace(stage, run=LazyLowering("")) for stage in elaborated.pipeline.stages}
    whole = tuple(stage if stage in stages.stages else others[stage] for stage in elaborated.pipeline.stages)
    return Task(
        context.kernel, record.complete(), record.stage.kind, Pipeline(elaborated.pipeline.name, whole), stages,
        context.target, context.schedule, replace(context.interface, tree=None), context.params, context.keep_passes,
        facts_of(context.target),
    )  # fmt: skip


def _can_travel(function: Any) -> bool:
    if isinstance(function, LazyLowering):
        return True
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<locals>")
    return isinstance(module, str) and module != "__main__" and "<" not in name


def facts_of(target: Target) -> Facts:
    """Return what decides code in this process, beside what a task says."""
    facts = {**versions(), "sources of mlirtri": sources_digest(), "system": platform.system()}
    if not target.is_cuda:
        facts["CPU"] = host_cpu_digest()
    return {**facts, **{name: str(settings.get(name)) for name in settings.DECIDE_CODE}}


def prepare(modules: tuple[str, ...]) -> None:
    """Import the lowerings that a worker will need: what this takes is no part of any compilation's time."""
    for module in (*modules, "mlirtri.lowering.runtime.artifact"):
        import_module(module)


def compile_task(task: Task) -> Answer:
    """Run the later stages of a kernel; raises the `KernelError` of the one that refuses."""
    with COMPILING:
        here = facts_of(task.target)
        if different := [name for name in task.facts if here.get(name) != task.facts[name]]:
            name = different[0]
            raise CompileStoppedError(
                f"a worker has another {name}, {here.get(name)}, than the process that asks, {task.facts[name]}",
                help="let the workers be like the process that asks",
            )
        return _compiled(task)


def _compiled(task: Task) -> Answer:
    observer = Observer(task.kernel, task.pipeline)
    # The process that asks prints.
    observer.printed = ()
    context = CompileContext(
        task.kernel, task.target, task.schedule, interface=task.interface, params=dict(task.params),
        keep_passes=task.keep_passes,
    )  # fmt: skip
    with more_frames(FRAMES_OF_REGIONS):
        compilation = run_stages(parse(task.kind, task.text), task.stages, context, observer)
    records = {name: (stage.seconds, stage.readable(), stage.complete()) for name, stage in compilation.records.items()}
    params = {name: value for name, value in context.params.items() if name not in task.params}
    return Answer(records, context.passes, context.warnings, params, _files_of(compilation))


def _files_of(compilation: Compilation) -> tuple[dict[str, Any], bytes] | None:
    if compilation.executable is None:
        return None
    from mlirtri.lowering.runtime.artifact import write_artifact  # loads torch

    with TemporaryDirectory(prefix="mlirtri-") as name:
        description = write_artifact(compilation.executable, Path(name))
        return description, packed(Path(name))


def records_of(answer: Answer, stages: Pipeline) -> dict[str, StageRecord]:
    """Return the records of the stages that a worker has run."""
    return {name: StoredRecord(stages.find(name), *facts) for name, facts in answer.records.items()}


def code_of(answer: Answer) -> tuple[Code | None, Any]:
    """Return the code of an answer, and the folder that has its files and goes with the object; None for no code."""
    if answer.executable is None:
        return None, None
    from mlirtri.lowering.runtime.artifact import read_artifact  # loads torch

    description, files = answer.executable
    folder = unpacked(files)
    return Code("", read_artifact(Path(folder.name), description)), folder


def finish_context(context: CompileContext, answer: Answer) -> None:
    """Note in the context of a compilation what a worker did for it."""
    context.passes.update(answer.passes)
    context.params.update(answer.params)
    for step in answer.warnings:
        context.skip(step, RuntimeError(step.reason))
