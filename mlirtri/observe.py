"""What happens between two stages besides compiling: verify, print, dump, take an edited file instead.

Made anew for each compile from arguments and ``MLIRTRI_*`` settings. A dump appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlirtri import settings
from mlirtri.compiler import StageRecord, Walk
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.pipelines import AKG_ALIASES, Pipeline
from mlirtri.lowering.stage import CompileContext, PassRecord, Stage
from mlirtri.printing import RESUMABLE, SUFFIXES, parse

BANNER = "// -----// IR Dump After {name} ({where}) //----- //"


class Observer:
    """The hook of one compile."""

    def __init__(self, kernel: str, pipeline: Pipeline, print_ir: bool | tuple[str, ...] | None = None):
        self.kernel = kernel
        self.pipeline = pipeline
        self.printed = _stages_to_print(print_ir, pipeline)
        self.dump_folder: Path | None = settings.get("MLIRTRI_DUMP_DIR")
        self.override_folder: Path | None = settings.get("MLIRTRI_OVERRIDE_DIR")
        self.verifies: bool = settings.get("MLIRTRI_VERIFY")

    @property
    def wants_passes(self) -> bool:
        return bool(self.printed) or self.dump_folder is not None

    def __call__(self, stage: Stage, ir: Any, context: CompileContext) -> Any:
        ir = self._overridden(stage, ir)
        if self.verifies:
            from mlirtri.verify import verify

            verify(stage, ir)
        if stage.name in self.printed and not context.passes.get(stage.name):
            self._show(stage.name, stage.name, StageRecord(stage, 0.0, ir).readable())
        return ir

    def on_pass(self, stage: str, record: PassRecord) -> None:
        """Print the IR after a pass that changed something."""
        if stage in self.printed and record.changed:
            self._show(record.name, stage, record.text)

    def replay(self, walked: Walk) -> None:
        """Print what a compile from the cache printed when it was made."""
        for name, record in walked.records.items():
            if name not in self.printed:
                continue
            passes = walked.context.passes.get(name)
            for each in passes or ():
                self.on_pass(name, each)
            if not passes:
                self._show(name, name, record.readable())

    def _show(self, name: str, where: str, text: str) -> None:
        print(BANNER.format(name=name, where=f"{self.kernel}: {where}"), text.rstrip("\n"), sep="\n", file=sys.stderr)

    # --- edited files ----------------------------------------------------------------------------------------------

    def _overridden(self, stage: Stage, ir: Any) -> Any:
        if self.override_folder is None or stage.kind not in RESUMABLE:
            return ir
        number, suffix = self.pipeline.names.index(stage.name), SUFFIXES[stage.kind]
        names = (f"{number:02}_{stage.name}.{suffix}", f"{stage.name}.{suffix}")
        for folder in (self.override_folder, *sorted(self.override_folder.glob(f"{self.kernel}*"))):
            for name in names:
                if (path := folder / name).is_file():
                    return parse(stage.kind, path.read_text(), str(path))
        return ir

    # --- dumps -----------------------------------------------------------------------------------------------------

    def dump(self, walked: Walk, digest: str, manifest: dict[str, Any]) -> None:
        """Write every stage and pass, and a manifest; moved into place at once when all is there."""
        if self.dump_folder is None:
            return
        self.dump_folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{self.kernel}-", dir=self.dump_folder))
        try:
            self._write(temporary, walked, manifest)
            final = self.dump_folder / f"{self.kernel}-{digest[:8]}"
            shutil.rmtree(final, ignore_errors=True)
            os.replace(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write(self, folder: Path, walked: Walk, manifest: dict[str, Any]) -> None:
        for number, (name, record) in enumerate(walked.records.items()):
            suffix = SUFFIXES[record.stage.kind]
            (folder / f"{number:02}_{name}.{suffix}").write_text(record.complete())
            passes = walked.context.passes.get(name, ())
            if passes:
                (folder / f"{number:02}_{name}").mkdir()
            for step, each in enumerate(passes):
                safe = "".join(c if c.isalnum() or c in "-_#" else "_" for c in each.name)[:80]
                (folder / f"{number:02}_{name}" / f"{step:03}_{safe}.{suffix}").write_text(each.text)
        facts = {"versions": versions(), "seconds": walked.seconds, **manifest}
        (folder / "manifest.json").write_text(json.dumps(facts, indent=2) + "\n")


def versions() -> dict[str, str]:
    """What decides the generated code besides the program."""
    return {name: version(name) for name in ("mlirtri", "apache-tvm", "apache-tvm-ffi", "torch-mlir")}


def _stages_to_print(argument: bool | tuple[str, ...] | None, pipeline: Pipeline) -> tuple[str, ...]:
    if argument is True:
        return pipeline.names
    asked = tuple(argument) if argument else settings.get("MLIRTRI_PRINT_IR")
    if "all" in asked or asked == ("1",):
        return pipeline.names
    known = {stage for name in asked for stage in AKG_ALIASES.get(name, (name,))}
    for name in asked:
        if name not in (*_ALL_STAGES, *pipeline.names, *AKG_ALIASES):
            raise UnknownOptionError(f"no pipeline has a stage {name!r}", help=f"stages are {', '.join(_ALL_STAGES)}")
    return tuple(name for name in pipeline.names if name in known)


_ALL_STAGES = (
    "ast", "tri", "linalg", "fused", "relax", "tir", "scheduled", "llvm", "asm", "cuda", "ptx", "bufferized", "llvmdialect",
)  # fmt: skip
