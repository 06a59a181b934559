"""Find the first stage, then the first pass in it, whose output computes other numbers than the reference.

The text of each stage is compiled by another way than the one that is wrong, as far as there is one, and run on the
same arguments. A stage whose text is right, followed by one whose text is wrong, has a wrong lowering between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlirtri.compiler.observe import unobserved
from mlirtri.compiler.printing import RESUMABLE
from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options
from mlirtri.kernels.session import resume
from mlirtri.lowering.pipelines import WITHOUT_TVM, Pipeline
from mlirtri.measure.accuracy import accuracy
from mlirtri.measure.copies import copied, host_array
from mlirtri.measure.eager import leaves

Judge = Callable[[str, str], bool | None]
"""Says of a text and its stage whether it computes the expected numbers; None where it cannot be run."""


@dataclass(frozen=True)
class FirstDifference:
    """The first stage, and the first pass in it, whose text computes other numbers."""

    stage: str | None
    """The stage whose text is the first wrong one; None if all that can be run are right."""
    pass_name: str | None = None
    before: str | None = None
    """The last stage whose text is right."""

    def __str__(self) -> str:
        if self.stage is None:
            return f"every stage up to {self.before!r} is right: the numbers change when machine code is made of it"
        since = f", where stage {self.before!r} is right" if self.before else ", the first that can be run"
        in_pass = f", in pass {self.pass_name!r}" if self.pass_name else ""
        return f"the numbers change in stage {self.stage!r}{in_pass}{since}"


def bisected(
    contenders: Sequence[object], subject: object, expected: list[np.ndarray] | None, names: Sequence[str]
) -> list[str]:
    """Return a sentence for each contender with wrong elements."""
    if expected is None:
        return []
    notes = []
    for contender in contenders:
        if contender.kernel is None or contender.row.difference is None:
            continue
        judge = _judge(contender, subject, expected, names)
        notes.append(f"{contender.row.name}: {first_wrong(contender.kernel, judge)}")
    return notes or ["no row has an element that rounding does not explain: there is nothing to bisect"]


def first_wrong(kernel: Kernel, judge: Judge) -> FirstDifference:
    """Return the first stage, and the first pass in it, that the judge calls wrong."""
    right = None
    for name, record in kernel.compilation.records.items():
        if record.stage.kind not in RESUMABLE:
            continue
        verdict = judge(record.complete(), name)
        if verdict is False:
            return FirstDifference(name, _first_wrong_pass(kernel, name, right, judge), right)
        right = name if verdict else right
    return FirstDifference(None, before=right)


def _first_wrong_pass(kernel: Kernel, stage: str, before: str | None, judge: Judge) -> str | None:
    passes = kernel.passes[stage]
    for name in passes.changed:
        text = passes[name]
        # What a pass leaves is IR of its own stage, or still of the one before.
        verdicts = [judge(text, candidate) for candidate in (stage, before) if candidate is not None]
        verdict = next((candidate for candidate in verdicts if candidate is not None), None)
        if verdict is False:
            return name
    return None


def _judge(contender: Any, subject: Any, expected: list[np.ndarray], names: Sequence[str]) -> Judge:
    kernel, named = contender.kernel, subject.named
    pipeline = kernel.pipeline

    def judge(text: str, stage: str) -> bool | None:
        for other in _ways(pipeline, stage):
            try:
                with unobserved():  # a text holds the edited files of stages before it, and takes none of later ones
                    resumed = resume(f"<{stage}>", stage, other, text, params=kernel.params)
                values = copied(named)
                # By position: the readable text of a pass has no names.
                parameters = kernel.interface.parameters
                arguments = [values[parameter.name] for parameter in parameters[: len(resumed.interface.parameters)]]
                results = leaves(resumed(*arguments)) + [host_array(values[name]) for name in names]
            except (KernelError, KeyError):
                continue
            if [array.shape for array in results] == [array.shape for array in expected]:
                return accuracy(results, expected).difference is None
        return None

    return judge


def _ways(pipeline: Pipeline, stage: str) -> list[Options]:
    """Return how to compile the text of a stage, best first: by lowerings that the wrong pipeline does not have."""
    own = Options(target="cpu", pipeline=pipeline)
    has_tvm = pipeline.name not in WITHOUT_TVM
    mlir = Pipeline.named("mlir")
    # Without fusion, which both pipelines have.
    unfused = Options(target="cpu", pipeline=replace(mlir, stages=tuple(s for s in mlir.stages if s.name != "fused")))
    if stage == "tri":
        return [unfused if pipeline.name == "relax" else Options(target="cpu", pipeline="relax"), unfused, own]
    if stage == "linalg":
        return [unfused, own]
    if stage == "fused":
        return [Options(target="cpu", pipeline="mlir" if has_tvm else "linalg"), own]
    return [Options(target="cpu", pipeline=pipeline, schedule="none"), own] if has_tvm else [own]
