"""The only importer of the MLIR bindings. Everything else says ``from mlirtri.dialect.bindings.mlir import ir``.

The bindings are those inside the `torch-mlir` wheel: complete upstream MLIR, no torch imported.
Loaded on the first compile, not on ``import mlirtri``.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from torch_mlir import execution_engine, ir, passmanager
from torch_mlir.dialects import arith, bufferization, complex, ext, func, math, memref, quant, scf, tensor, vector

from mlirtri.dialect.bindings.loading import without_definitions

if TYPE_CHECKING:
    import torch

with without_definitions():
    from torch_mlir.dialects import linalg

__all__ = [
    "arith", "bufferization", "complex", "execution_engine", "ext", "func", "ir", "linalg", "linalg_copy",
    "linalg_fill", "math", "memref", "passmanager", "quant", "scf", "tensor", "vector",
]  # fmt: skip

PREFIX = "mlirtri."
_GROUPS = ("arg_attrs", "res_attrs")
"""Attributes that hold the attributes of a function's arguments and results."""


def find_dialects_in(package: str) -> None:
    """Let the bindings look for Python modules of dialects in `package` too."""
    from torch_mlir._mlir_libs import _mlir

    _mlir.globals.append_dialect_search_prefix(package)


Result: TypeAlias = Any
"""The value of an operation on a tensor; None for one on memory, which has no results."""


def linalg_fill(value: ir.Value | ir.OpView, out: ir.Value | ir.OpView) -> Result:
    """Return `linalg.fill`: every element of a tensor, or of memory, is this scalar. Memory gives no result."""
    return _elementwise(linalg.FillOp, value, out)


def linalg_copy(source: ir.Value | ir.OpView, out: ir.Value | ir.OpView) -> Result:
    """Return `linalg.copy`: every element is that of `source`. Memory gives no result."""
    return _elementwise(linalg.CopyOp, source, out, cast=ir.Attribute.parse("#linalg.type_fn<cast_signed>"))


def _elementwise(kind: type, source: Any, out: Any, **attributes: ir.Attribute) -> Any:
    target = out if isinstance(out, ir.Value) else out.result
    results = [target.type] if isinstance(target.type, ir.RankedTensorType) else []
    operation = kind(results, [source], [target], **attributes)
    linalg.fill_builtin_region(operation.operation)
    return operation.result if results else None


def print_module(module: ir.Module, is_verified: bool = False) -> str:
    """Return the text for reading: SSA values named after the user's variables, without locations.

    A module that a pass manager has just verified needs not be verified before it is printed.
    """
    return module.operation.get_asm(use_name_loc_as_prefix=True, assume_verified=is_verified)


def print_complete(module: ir.Module) -> str:
    """Return the text for dumps, with locations, so that resuming from it loses nothing."""
    return module.operation.get_asm(enable_debug_info=True)


def bytes_of_object(attribute: ir.Attribute) -> bytes:
    """Return the binary in a `#gpu.object`."""
    from torch_mlir.dialects import gpu  # needed here only

    return gpu.ObjectAttr(attribute).object


def to_llvm_ir(module: ir.Module) -> str:
    """Translate a module in the LLVM dialect to LLVM IR text."""
    from torch_mlir.dialects import llvm  # a large module of generated classes, needed here only

    return llvm.translate_module_to_llvmir(module.operation)


def apply_transform(module: ir.Module, text: str) -> None:
    """Apply the transform-dialect program `text` to `module`, in place; raises `ir.MLIRError`."""
    from torch_mlir.dialects.transform import interpreter  # generated classes of many dialects, needed here only

    program = ir.Module.parse(text, module.context)
    interpreter.apply_named_sequence(module.operation, program.body.operations[0], program)


def load_irdl(path: str, context: ir.Context) -> None:
    """Define the dialects of an IRDL file in `context`; raises `ir.MLIRError` for one that does not parse."""
    from torch_mlir.dialects import irdl

    irdl.load_dialects(ir.Module.parseFile(path, context))


def define_dialects(source: str | bytes, context: ir.Context) -> None:
    """Define the dialects of IRDL in `context`: of its text or its bytecode."""
    from torch_mlir.dialects import irdl

    with context, ir.Location.unknown():
        irdl.load_dialects(ir.Module.parse(source, context))


def irdl_bytecode(text: str) -> bytes:
    """Return the bytecode of an IRDL text."""
    with ir.Context() as context:
        stream = BytesIO()
        ir.Module.parse(text, context).operation.write_bytecode(stream)
    return stream.getvalue()


def load_torch(context: ir.Context) -> None:
    """Register torch-mlir's dialects (``torch``, ``tm_tensor``…) and passes; cheap and idempotent."""
    from torch_mlir._mlir_libs import _torchMlir

    _torchMlir.register_dialect(context)
    # Nothing registers tm_tensor itself: it is loaded as a dependent dialect of this pass.
    _load_dialects_of("func.func(convert-torch-to-tmtensor)", context)


def load_stablehlo(context: ir.Context) -> None:
    """Register StableHLO's dialects (``stablehlo``, ``chlo``, ``vhlo``) and passes; idempotent."""
    from torch_mlir._mlir_libs import _stablehlo, _torchMlir  # noqa: F401 - registers the first of the passes below

    _stablehlo.register_dialect(context)
    _stablehlo.register_stablehlo_passes()
    # Nothing registers `chlo` and `vhlo` themselves either.
    _load_dialects_of("func.func(convert-torch-to-stablehlo),stablehlo-legalize-to-vhlo", context)


def read_stablehlo_artifact(data: bytes, context: ir.Context) -> ir.Module:
    """Read StableHLO's portable bytecode, after `load_stablehlo`; raises `ValueError`."""
    from torch_mlir._mlir_libs import _stablehlo

    return _stablehlo.deserialize_portable_artifact(context, data)


def onnx_importer() -> ModuleType:
    """Return torch-mlir's importer module for ONNX graphs; raises `ImportError` without the onnx package."""
    from torch_mlir.extras import onnx_importer

    return onnx_importer


def dimension_numbers(kind: Literal["Scatter", "Gather", "Conv"], attribute: ir.Attribute) -> ir.Attribute:
    """Return the dimension numbers of a StableHLO operation, with its lists of dimensions as fields."""
    from torch_mlir._mlir_libs import _stablehlo

    return getattr(_stablehlo, f"{kind}DimensionNumbers")(attribute)


def _load_dialects_of(passes: str, context: ir.Context) -> None:
    with context, ir.Location.unknown():
        passmanager.PassManager.parse(f"builtin.module({passes})").run(ir.Module.create().operation)


def torch_importer() -> tuple[Any, Any, Any]:
    """Return torch-mlir's importers of torch.fx modules and of graph nodes, and its cache of types and locations."""
    import torch
    from torch_mlir.extras import fx_importer
    from torch_mlir.extras.fx_importer import ContextCache, FxImporter, GraphNodeImporter

    # Its tables lack what its dialect has.
    for dtype, number in ((torch.uint16, 27), (torch.uint64, 29)):
        fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM[dtype] = f"ui{dtype.itemsize * 8}"
        fx_importer.TORCH_DTYPE_TO_INT[dtype] = number
    return FxImporter, GraphNodeImporter, ContextCache


def without_as_strided(graph: torch.fx.Graph) -> None:
    """Rewrite ``as_strided`` in a torch.fx graph with operators that torch-mlir has; raises `NotImplementedError`."""
    from torch_mlir.extras.fx_as_strided import rewrite_as_strided

    rewrite_as_strided(graph)


def torch_decompositions() -> dict[torch._ops.OpOverload, Callable[..., object]]:
    """Return torch-mlir's decomposition table, for torch.export."""
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    return get_decomposition_table()


def public_functions(module: ir.Module) -> list[ir.OpView]:
    """Return the public functions (`func.func` or `llvm.func`) that have a body: the kernels."""
    functions = [view for view in module.body.operations if view.operation.name in ("func.func", "llvm.func")]
    return [function for function in functions if len(function.regions[0].blocks) and _is_public(function)]


def _is_public(function: ir.OpView) -> bool:
    attributes = function.attributes
    # Without the attribute a function is public.
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def operations_named(module: ir.Module, *names: str) -> list[ir.Operation]:
    """Return the operations of these names, or all of a dialect (``linalg.*``), at any depth, in order."""
    dialects = tuple(name[:-1] for name in names if name.endswith(".*"))
    operations = all_operations(module)
    return [found for found in operations if (name := found.name) in names or name.startswith(dialects)]


def all_operations(module: ir.Module) -> list[ir.Operation]:
    """Return the operations of a module at any depth, the module itself first."""
    return all_operations_in(module.operation)


def all_operations_in(root: ir.Operation) -> list[ir.Operation]:
    """Return `root` and the operations inside it, at any depth, in pre-order."""
    operations: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        operations.append(operation)
        return ir.WalkResult.ADVANCE

    _walk(root, visit)
    return operations


def _walk(root: ir.Operation, visit: Callable[[ir.OpView], ir.WalkResult]) -> None:
    """Call `visit` on `root` and the operations inside it, in pre-order; raises `KeyboardInterrupt` as itself."""
    try:
        root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    except RuntimeError as error:
        # The bindings raise what the callback raised as a RuntimeError with its traceback as text.
        if str(error).rstrip(": \n").endswith("\nKeyboardInterrupt"):
            raise KeyboardInterrupt from None
        raise


def operations_of_dialect(name: str) -> list[str]:
    """Return the sorted names of a dialect's operations; an empty list for a dialect without bindings."""
    from importlib import import_module

    try:
        generated = import_module(f"torch_mlir.dialects._{name}_ops_gen")
    except ImportError:
        return []
    return sorted({view.OPERATION_NAME for view in vars(generated).values() if hasattr(view, "OPERATION_NAME")})


def without_own_attributes(module: ir.Module) -> None:
    """Remove the attributes whose names start with `PREFIX` from a module of any MLIR stage, in place."""
    with module.context:
        _walk(module.operation, _strip)


def _strip(operation: ir.OpView) -> ir.WalkResult:
    attributes = operation.operation.attributes
    for name in [name for name in attributes if name.startswith(PREFIX)]:
        del attributes[name]
    for name in [name for name in _GROUPS if name in attributes]:
        groups = [_foreign(ir.DictAttr(group)) for group in ir.ArrayAttr(attributes[name])]
        if any(groups):
            attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(group) for group in groups])
        else:
            del attributes[name]
    return ir.WalkResult.ADVANCE


def _foreign(group: ir.DictAttr) -> dict[str, ir.Attribute]:
    named = (group[index] for index in range(len(group)))
    return {entry.name: entry.attr for entry in named if not entry.name.startswith(PREFIX)}
