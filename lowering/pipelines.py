"""The pipelines as tuples of stages. A lowering is imported when it first runs.

    linalg  ast tri linalg fused relax tir scheduled llvm asm     MLIR fuses, TVM schedules and makes code
    relax   ast tri relax tir scheduled llvm asm                  no linalg: what TVM does alone
    mlir    ast tri linalg fused bufferized llvmdialect asm       no TVM: upstream MLIR down to machine code
    poly    the same with a stage more, `poly`, before llvmdialect: upstream's polyhedral passes, to look at

For CUDA the last two stages are ``cuda`` and, where nvcc is on PATH, ``ptx``. For target `spirv` pipeline `mlir` ends
in ``gpu`` and ``spirv``. One more, ``ast tri interpreted``, runs stage `tri` on NumPy: for debugging, and what the
tests compare the others with.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

from mlirtri.errors import KernelTypeError, UnknownOptionError, did_you_mean
from mlirtri.lowering.core.stage import CompileContext, Stage, StageIR
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.core.tracebacks import public_class
from mlirtri.lowering.external.objects import Device


@dataclass(frozen=True)
class LazyLowering:
    """The function ``lower`` of a module, imported on its first run: TVM takes seconds and `mlir` must not need it."""

    module: str
    """The full dotted path, so that a search for a module finds its stage."""

    def load(self) -> ModuleType:
        """Import and return the module."""
        return import_module(self.module)

    def __call__(self, ir: StageIR, context: CompileContext) -> StageIR:
        return self.load().lower(ir, context)


AST = Stage("ast", "python", LazyLowering("mlirtri.lowering.frontend.python_to_ast"))
TRI = Stage("tri", "mlir", LazyLowering("mlirtri.lowering.frontend.ast_to_tri"))
GRAPH = Stage("graph", "listing", LazyLowering("mlirtri.lowering.frontend.graph.kernel_graph"))
TRI_FROM_GRAPH = Stage("tri", "mlir", LazyLowering("mlirtri.lowering.frontend.graph.graph_to_tri"))
LINALG = Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.linalg.tri_to_linalg"))
FUSED = Stage("fused", "mlir", LazyLowering("mlirtri.lowering.fusion.linalg_to_fused"))
RELAX_FROM_FUSED = Stage("relax", "tvmscript", LazyLowering("mlirtri.lowering.bridge.fused_to_relax"))
RELAX_FROM_TRI = Stage("relax", "tvmscript", LazyLowering("mlirtri.lowering.bridge.tri_to_relax"))
TIR = Stage("tir", "tvmscript", LazyLowering("mlirtri.lowering.relax.relax_to_tir"))
SCHEDULED = Stage("scheduled", "tvmscript", LazyLowering("mlirtri.lowering.schedule.tir_to_scheduled"))
LLVM = Stage("llvm", "llvm", LazyLowering("mlirtri.lowering.codegen.scheduled_to_llvm"))
ASM = Stage("asm", "asm", LazyLowering("mlirtri.lowering.codegen.llvm_to_asm"))
CUDA = Stage("cuda", "cuda", LazyLowering("mlirtri.lowering.codegen.scheduled_to_cuda"))
PTX = Stage("ptx", "ptx", LazyLowering("mlirtri.lowering.codegen.cuda_to_ptx"))
BUFFERIZED = Stage("bufferized", "mlir", LazyLowering("mlirtri.lowering.mlir_backend.bufferize.fused_to_bufferized"))
POLY = Stage("poly", "mlir", LazyLowering("mlirtri.lowering.mlir_backend.llvm.bufferized_to_poly"))
LLVM_DIALECT = Stage(
    "llvmdialect", "mlir", LazyLowering("mlirtri.lowering.mlir_backend.llvm.bufferized_to_llvmdialect")
)
FUSED_BY_UPSTREAM = Stage("fused", "mlir", LazyLowering("mlirtri.lowering.fusion.linalg_to_fused_upstream"))
BUFFERIZED_BY_UPSTREAM = Stage(
    "bufferized", "mlir", LazyLowering("mlirtri.lowering.mlir_backend.bufferize.fused_to_bufferized_upstream")
)
LLVM_DIALECT_BY_UPSTREAM = Stage(
    "llvmdialect", "mlir", LazyLowering("mlirtri.lowering.mlir_backend.llvm.bufferized_to_llvmdialect_upstream")
)
ASM_FROM_MLIR = Stage("asm", "asm", LazyLowering("mlirtri.lowering.mlir_backend.llvm.llvmdialect_to_asm"))
GPU = Stage("gpu", "mlir", LazyLowering("mlirtri.lowering.spirv.bufferized_to_gpu"))
SPIRV = Stage("spirv", "spirv", LazyLowering("mlirtri.lowering.spirv.gpu_to_spirv"))
INTERPRETED = Stage("interpreted", "listing", LazyLowering("mlirtri.lowering.interpreter.tri_to_interpreted"))

FRONTEND_STAGES = (AST, TRI)
GRAPH_STAGES = (GRAPH, TRI_FROM_GRAPH)
"""The first stages of a graph of kernels, in place of those of one function."""
TIR_STAGES = (TIR, SCHEDULED)
IMPORT_STAGES = {
    "mlir": (Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.importers.normalize.mlir_to_linalg")),),
    "torch": (
        Stage("torch", "mlir", LazyLowering("mlirtri.lowering.importers.from_torch.graph_to_torch")),
        Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.importers.from_torch.torch_to_linalg")),
    ),
    "stablehlo": (
        Stage("stablehlo", "mlir", LazyLowering("mlirtri.lowering.importers.from_stablehlo.chlo_to_stablehlo")),
        Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.importers.from_stablehlo.stablehlo_to_linalg")),
    ),
    "tosa": (Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.importers.tosa_to_linalg")),),
    "relax": (
        Stage("relax", "tvmscript", LazyLowering("mlirtri.lowering.importers.from_relax.normalize_relax")),
        Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.importers.from_relax.relax_to_linalg")),
    ),
    "onnx": (
        Stage("torch", "mlir", LazyLowering("mlirtri.lowering.importers.from_onnx.onnx_to_torch")),
        Stage("linalg", "mlir", LazyLowering("mlirtri.lowering.importers.from_torch.torch_to_linalg")),
    ),
}
"""Source language of a program to its stages up to the first one that a pipeline of kernels has, too."""
INTERPRETER = "interpreter"
"""The name of the pipeline that compiles nothing. It is none of `PIPELINE_STAGES`, which `compare` chooses from."""
SPIRV_STAGES = (GPU, SPIRV)
"""The last stages of pipeline `mlir` for Vulkan."""
TARGET_STAGES = {"cpu": (LLVM, ASM), "cuda": (CUDA, PTX)}
"""The last stages of a pipeline that schedules with TVM, by the kind of its target."""
PIPELINE_STAGES = {
    "linalg": (*FRONTEND_STAGES, LINALG, FUSED, RELAX_FROM_FUSED, *TIR_STAGES),
    "relax": (*FRONTEND_STAGES, RELAX_FROM_TRI, *TIR_STAGES),
    "mlir": (*FRONTEND_STAGES, LINALG, FUSED, BUFFERIZED, LLVM_DIALECT, ASM_FROM_MLIR),
    "poly": (*FRONTEND_STAGES, LINALG, FUSED, BUFFERIZED, POLY, LLVM_DIALECT, ASM_FROM_MLIR),
    "upstream": (
        *FRONTEND_STAGES,
        LINALG,
        FUSED_BY_UPSTREAM,
        BUFFERIZED_BY_UPSTREAM,
        LLVM_DIALECT_BY_UPSTREAM,
        ASM_FROM_MLIR,
    ),
}

WITHOUT_TVM = ("mlir", "poly", "upstream")
"""The pipelines in which TVM has no part, and no schedule."""
COMPARED_PIPELINES = ("linalg", "relax", "mlir")
"""The pipelines that a comparison has unless others are asked for."""

AKG_ALIASES = {
    "Begin": ("tri",), "Tuning": ("linalg",), "Poly": ("fused",), "BeforeFlattern": ("tir", "bufferized"),
    "Flattern": ("scheduled", "llvmdialect"), "BeforeLowerFunc": ("llvm", "cuda"), "End": ("asm", "ptx"),
}  # fmt: skip
"""AKG's stage names, with that system's spelling (and the corrected one), for their counterparts here."""
AKG_ALIASES |= {name.replace("Flattern", "Flatten"): stages for name, stages in AKG_ALIASES.items()}


@public_class("named", "find", "insert_before", "insert_after", "replace", "until", "after")
@dataclass(frozen=True)
class Pipeline:
    """A named tuple of stages. Editing gives a new pipeline, which ``pipeline=`` of `jit` and `compile` takes."""

    name: str
    stages: tuple[Stage, ...]
    left_out: tuple[str, ...] = ()
    """The stages that `until` took away: those before them are to be what they are in the whole pipeline."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        for stage in self.stages:
            if not isinstance(stage, Stage):
                raise KernelTypeError(
                    f"pipeline {self.name!r} has {stage!r} among its stages",
                    help='write mlirtri.Stage("name", "mlir", function)',
                )

    @classmethod
    def named(cls, name: str, target: str | Target = "cpu") -> Pipeline:
        """Return the pipeline of that name, ``linalg``, ``relax``, ``mlir``, ``poly`` or ``upstream``.

        Raises `UnknownOptionError` for others.
        """
        return pipeline_for(name, as_target(target))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.stages)

    @property
    def signless(self) -> bool:
        """Whether integers lose their sign on the way (all of linalg and beyond), so that callers pass bit views."""
        return any(stage.name in ("linalg", "fused") for stage in self.stages)

    def find(self, name: str) -> Stage:
        """Return the stage of that name or AKG alias; raises `UnknownOptionError` with the names there are."""
        wanted = (name, *AKG_ALIASES.get(name, ()))
        for stage in self.stages:
            if stage.name in wanted:
                return stage
        listed = f"its stages are {', '.join(self.names)}"
        if name == PTX.name and CUDA in self.stages and shutil.which("nvcc") is None:
            listed = f"NVIDIA's compiler nvcc makes it, and is not on PATH; {listed}"
        raise UnknownOptionError(
            f"pipeline {self.name!r} has no stage {name!r}", help=f"{did_you_mean(name, self.names)}{listed}"
        )

    def insert_before(self, name: str, stage: Stage) -> Pipeline:
        return self._insert(self.stages.index(self.find(name)), stage)

    def insert_after(self, name: str, stage: Stage) -> Pipeline:
        return self._insert(self.stages.index(self.find(name)) + 1, stage)

    def _insert(self, position: int, stage: Stage) -> Pipeline:
        if isinstance(stage, Stage) and stage.name in self.names:
            raise UnknownOptionError(f"pipeline {self.name!r} has a stage {stage.name!r} already", help="use replace")
        return replace(self, stages=(*self.stages[:position], stage, *self.stages[position:]))

    def replace(self, name: str, stage: Stage) -> Pipeline:
        """Return the pipeline with another stage instead of `name`."""
        old = self.find(name)
        return replace(self, stages=tuple(stage if present is old else present for present in self.stages))

    def until(self, name: str) -> Pipeline:
        """Return the pipeline up to this stage. Its kernels are read, and called where the stage makes code."""
        last = self.stages.index(self.find(name))
        return replace(self, stages=self.stages[: last + 1], left_out=(*self.names[last + 1 :], *self.left_out))

    def after(self, name: str) -> Pipeline:
        """Return the stages that come after this one."""
        return replace(self, stages=self.stages[self.stages.index(self.find(name)) + 1 :])


def pipeline_of_import(source: str, pipeline: Pipeline) -> Pipeline:
    """Return `pipeline` for an imported program: stages of its own language replace those of Python.

    In ``relax`` such a program goes from `linalg` to Relax without MLIR's fusion. One that is Relax itself stays it
    there; in the others it goes to `linalg`, and where it comes back to Relax its first stage is ``imported``.
    """
    front = IMPORT_STAGES[source]
    if pipeline.name == INTERPRETER:
        help = "name another pipeline, or unset MLIRTRI_INTERPRET"
        raise UnknownOptionError("only Python functions are interpreted", help=help)
    if source == "relax" and "relax" in pipeline.names:
        if "linalg" not in pipeline.names:
            return replace(pipeline, stages=(front[0], *pipeline.after("relax").stages))
        # Two stages of one name would be one record.
        front = (replace(front[0], name="imported"), *front[1:])
    if pipeline.name == "relax":
        relax = replace(RELAX_FROM_TRI, run=LazyLowering("mlirtri.lowering.bridge.fused_to_relax"))
        return replace(pipeline, stages=(*front, relax, *pipeline.after("relax").stages))
    return replace(pipeline, stages=(*front, *pipeline.after("linalg").stages))


def pipeline_of_graph(pipeline: Pipeline) -> Pipeline:
    """Return `pipeline` for a graph of kernels: its first stages replace those of one function."""
    if pipeline.stages[:1] == GRAPH_STAGES[:1]:
        return pipeline
    return replace(pipeline, stages=(*GRAPH_STAGES, *pipeline.after("tri").stages))


def normal_form_stage(pipeline: Pipeline) -> str:
    """Return the stage of an imported program's pipeline whose IR is in the normal form of `importers/normalize`.

    Its functions say how to call the program.
    """
    return "linalg" if "linalg" in pipeline.names else "relax"


def pipeline_for(pipeline: str | Pipeline, target: Target) -> Pipeline:
    """Return the pipeline of that name for a target; raises `UnknownOptionError`."""
    if isinstance(pipeline, Pipeline):
        return pipeline
    if pipeline == INTERPRETER:
        if target.is_cuda:
            raise UnknownOptionError("the interpreter runs on the CPU only", help='use target="cpu" while debugging')
        return Pipeline(pipeline, (*FRONTEND_STAGES, INTERPRETED))
    if not isinstance(pipeline, str) or pipeline not in PIPELINE_STAGES:
        names = (*PIPELINE_STAGES, INTERPRETER)
        help = f"{did_you_mean(pipeline, names)}the pipelines are {', '.join(names)}"
        raise UnknownOptionError(f"unknown pipeline {pipeline!r}", help=help)
    if target.kind == "spirv":
        if pipeline != "mlir":
            raise UnknownOptionError(f"pipeline {pipeline!r} makes no SPIR-V", help='use pipeline="mlir"')
        return Pipeline(pipeline, (*FRONTEND_STAGES, LINALG, FUSED, BUFFERIZED, *SPIRV_STAGES))
    if pipeline in WITHOUT_TVM:
        if target.is_cuda:
            raise UnknownOptionError(
                f"pipeline {pipeline!r} makes CPU code only", help='use pipeline="linalg" or "relax" for CUDA'
            )
        return Pipeline(pipeline, PIPELINE_STAGES[pipeline])
    back = TARGET_STAGES[target.kind]
    if target.is_emulated or (target.is_cuda and shutil.which("nvcc") is None):
        back = (CUDA,)
    return Pipeline(pipeline, (*PIPELINE_STAGES[pipeline], *back))


TWO_DEVICE_STAGES = (CUDA, replace(LLVM, run=LazyLowering("mlirtri.lowering.codegen.cuda_to_llvm")), ASM)
"""The last stages of a kernel whose regions run on both kinds of devices: CUDA source first, then the host's code."""


def for_devices(pipeline: Pipeline, target: Target, kind: str, ir: StageIR) -> Pipeline:
    """Return `pipeline`, ending in `TWO_DEVICE_STAGES` where the IR names devices of another kind than the target's.

    `kind` is the stage kind of `ir`: ``"mlir"``, ``"tvmscript"``, or one that names no devices.
    """
    names = pipeline.names
    if SCHEDULED.name not in names or names[-1] == SCHEDULED.name or not _device_kinds(kind, ir) - {target.kind}:
        return pipeline
    return replace(pipeline, stages=(*pipeline.stages[: names.index(SCHEDULED.name) + 1], *TWO_DEVICE_STAGES))


def _device_kinds(kind: str, ir: Any) -> set[str]:
    """Return the kinds of devices, ``"cpu"`` and ``"cuda"``, that the IR names."""
    if kind == "mlir":
        from mlirtri.lowering.external.calls import KIND, calls_in, values_of  # loads MLIR

        regions = [values_of(call) for _, call in calls_in(ir) if call.attributes[KIND].value == "device"]
        return {Device.named(values["device"]).kind for values in regions}
    if kind == "tvmscript":
        from mlirtri.lowering.external.vdevices import kind_of, vdevices_in  # loads TVM

        return {kind_of(vdevice) for vdevice in vdevices_in(ir)}
    return set()
