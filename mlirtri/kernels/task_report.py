"""`kernel.tasks`: the parallel loops of a kernel and the serial parts between them, as stage `fused` has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlirtri.compiler.records import COMPILING, Compilation
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.definition import new_context
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.external.calls import calls_in
from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.lowering.linalg import tri_to_linalg
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized
from mlirtri.lowering.mlir_backend.loops.bufferized_to_loops import to_loops
from mlirtri.lowering.mlir_backend.loops.tasks import Task, tasks_of


@dataclass(frozen=True)
class TaskReport:
    """The tasks of a kernel, in order; printed as one line for each."""

    kernel: str
    tasks: tuple[Task, ...]

    def __iter__(self):
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, number: int) -> Task:
        return self.tasks[number]

    def __str__(self) -> str:
        lines = [f"// tasks of {self.kernel}"]
        return "\n".join(lines + [_line(number, task) for number, task in enumerate(self.tasks)])


def _line(number: int, task: Task) -> str:
    parts = [f"{'  ' * task.depth}{number}: {task.kind}"]
    if task.bounds:
        parts.append(", ".join(task.bounds))
    if task.block:
        parts.append(f"block {task.block}")
    for title, names in (("reads", task.reads), ("writes", task.writes), ("reduces", task.reduces)):
        if names:
            parts.append(f"{title} {', '.join(names)}")
    line = "" if task.line is None else f"  // {task.line.file.rpartition('/')[2]}:{task.line.line}"
    return "; ".join(parts) + line


def tasks(kernel: str, compilation: Compilation) -> TaskReport:
    """Return the tasks of a compiled kernel; raises `UnknownOptionError` for one whose MLIR is not kept."""
    context = replace(compilation.context, keep_passes=False, on_pass=None, passes={})
    records = compilation.records
    stage = next((name for name in ("fused", "linalg", "tri") if name in records), None)
    if stage is None:
        raise UnknownOptionError(f"{kernel} has no stage `tri`, `linalg` or `fused`", help=compilation.why_no_text)
    with COMPILING, new_context(), ir.Location.unknown():
        module = ir.Module.parse(records[stage].complete())
        if stage == "tri":
            module = tri_to_linalg.lower(module, context)
        if stage != "fused":
            module = linalg_to_fused.lower(module, context) or module
        if calls_in(module):
            from mlirtri.lowering.bridge.fused_to_relax import inline_external  # loads TVM, late

            inline_external(module, context)
        module = fused_to_bufferized.lower(module, context) or module
        return TaskReport(kernel, tasks_of(to_loops(module, context), context.target.threads, context.target.is_cuda))
