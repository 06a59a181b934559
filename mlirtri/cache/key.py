"""The key of a kernel in the disk cache: everything that is known before the frontend runs and decides the code.

The facts are kept beside their digest, so that a miss can say which of them differs.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from types import FunctionType
from typing import Any

import numpy as np

from mlirtri import settings
from mlirtri.cache.digests import Description, NoDescription, describe, digest_of, source_of
from mlirtri.compiler.versions import sources_digest, versions
from mlirtri.lowering.core.cpu import cache_bytes, cpu_flags
from mlirtri.lowering.core.interface import ConstantParameter, ContainerParameter, Specialization
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.pipelines import INTERPRETER, LazyLowering, Pipeline


@dataclass(frozen=True)
class Key:
    """The facts that decide a kernel's code, except the values that it captures."""

    name: str
    """The kernel's qualified name, for people."""
    facts: dict[str, Description]

    @cached_property
    def digest(self) -> str:
        return digest_of(self.facts)


def key_of_function(
    function: FunctionType,
    specialization: Specialization,
    annotations: Mapping[str, object],
    pipeline: Pipeline,
    target: Target,
    schedule: str,
    language: Mapping[str, object],
) -> Key:
    """Return the key of a Python function compiled so; raises `NoDescription` where something has none.

    `annotations` are those of its parameters, evaluated, `language` the options of the frontend by name.
    """
    file, line, text = source_of(function)
    facts = {
        "kernel": function.__qualname__,
        "file": file,
        "line": line,
        "source": text,
        "annotations": {name: _described(f"the annotation of {name!r}", value) for name, value in annotations.items()},
        "arguments": [_parameter(parameter) for parameter in specialization.parameters],
        "semantics": specialization.semantics,
        **facts_of_options(pipeline, target, schedule),
        **{name: describe(value) for name, value in language.items()},
    }
    return Key(function.__qualname__, facts)


def facts_of_options(pipeline: Pipeline, target: Target, schedule: str) -> dict[str, Description]:
    """Return the facts that kernels and programs share; raises `NoDescription` for what is not kept on disk."""
    if schedule.startswith("meta"):
        raise NoDescription('schedule="meta" depends on its measurements, which the tuning file keeps')
    return {
        "pipeline": pipeline.name,
        "stages": described_stages(pipeline),
        "target": {field.name: getattr(target, field.name) for field in dataclasses.fields(target)},
        "cpu": [] if target.is_cuda else [platform.machine(), sorted(cpu_flags()), sorted(cache_bytes().items())],
        "schedule": schedule,
        "settings": {name: str(settings.get(name)) for name in settings.DECIDE_CODE},
        "versions": _versions(),
    }


def described_stages(pipeline: Pipeline) -> list[list[str]]:
    """Return name, kind and module of each stage; raises `NoDescription` for a user's stage, and the interpreter."""
    if pipeline.name == INTERPRETER:
        raise NoDescription("an interpreted kernel has no code")
    stages = []
    for stage in pipeline.stages:
        if not isinstance(stage.run, LazyLowering) or not stage.run.module.startswith("mlirtri."):
            raise NoDescription(f"stage {stage.name!r} is a function of yours, which may depend on anything")
        stages.append([stage.name, stage.kind, stage.run.module])
    return stages


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    python = ".".join(platform.python_version_tuple()[:2])
    libraries = {"numpy": np.__version__, "torch": version("torch"), "python": python}
    return {**versions(), **libraries, "sources of mlirtri": sources_digest()}


def _parameter(parameter: Any) -> Description:
    if isinstance(parameter, ContainerParameter):
        keys = _described(f"the argument {parameter.name!r}", (parameter.kind, parameter.keys))
        return [parameter.name, "container", keys, [_parameter(part) for part in parameter.parts]]
    if isinstance(parameter, ConstantParameter):
        value = _described(f"the argument {parameter.name!r}", parameter.value)
        return [parameter.name, "constant", value]
    return [parameter.name, "tensor", describe(parameter)]


def _described(what: str, value: Any) -> Description:
    try:
        return describe(value)
    except NoDescription as problem:
        raise NoDescription(f"{what}: {problem}") from None


def constants_of(specialization: Specialization) -> dict[str, Any]:
    """Return the compile-time arguments by name: paths to captured values may begin at one."""
    return {p.name: p.value for p in specialization.flat if isinstance(p, ConstantParameter)}
