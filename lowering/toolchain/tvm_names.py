"""The only importer of TVM's compiler: modules, node classes and helpers whose names move between TVM's releases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar

from mlirtri.lowering.toolchain.tvm_loading import loading_compiler
from mlirtri.lowering.toolchain.tvm_runtime import PINNED, check_versions

with loading_compiler():
    import tvm
    import tvm_ffi
    from tvm import ir, relax, s_tir, target, tirx
    from tvm.relax import BlockBuilder
    from tvm.s_tir import SBlock, SBlockRealize, dlight
    from tvm.script import from_source
    from tvm.script import ir as script_ir
    from tvm.script import relax as script_relax
    from tvm.script import tirx as script_tirx
    from tvm_ffi import WalkResult, structural, structural_equal, structural_hash

Analyzer = tvm.sym.Analyzer
IRModule = ir.IRModule
GlobalVar = ir.GlobalVar
Range = ir.Range
TensorLoad = ir.TensorLoad
"""A load from a buffer: `.source` and `.indices`; `tirx.BufferLoad` is the function that makes one."""
PrimFunc = tirx.PrimFunc
Expr: TypeAlias = Any
"""An expression of TIR. TVM's classes get their fields at run time, so a checker can know none of them."""
Stmt: TypeAlias = Any
Node: TypeAlias = Any
"""An expression or a statement of TIR."""
Buffer: TypeAlias = Any
"""A buffer of TIR, which is a `Var` whose type is a buffer type."""
Var: TypeAlias = Any
Binding: TypeAlias = Any
"""A binding of a Relax block: its variable and its value."""
BindingBlock: TypeAlias = Any
Loop: TypeAlias = Any
"""A loop of a `Schedule`."""
RuntimeModule: TypeAlias = Any
"""A module of compiled functions, which are looked up by name."""
Extent: TypeAlias = "int | Expr"
"""A size, or a number of iterations: a Python int where it is static."""
TensorType = relax.TensorType
Sequential = tvm.transform.Sequential


class Schedule(s_tir.Schedule):
    """TVM's schedule with steps that take their arguments as they are.

    TVM's compare each argument with its annotation first, a tenth of a millisecond per step.
    """


for _name, _step in vars(s_tir.Schedule).items():
    if hasattr(_step, "__wrapped__"):
        setattr(Schedule, _name, _step.__wrapped__)
SCHEDULE_ERRORS = (s_tir.ScheduleError, tvm.error.InternalError)
"""What a step of a `Schedule` raises where TVM cannot do it: a condition of the step's, or a failed check inside it."""
Target = target.Target
buffer_data = tirx.buffer.buffer_data
buffer_data_pointer_type = tirx.buffer.buffer_data_pointer_type
read_write_region = s_tir.analysis.get_sblock_read_write_region

# Control-C in a function of Python that TVM calls comes back as what it is, and not as a RuntimeError without a text.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)


class _ScriptNamespace:
    """A namespace of TVMScript for parsing text, whose decorator of functions only names the dialect.

    TVM's decorators also list the whole Python stack with its source files, to look for names that a Python function
    captures. That takes longer than to parse the function, and a text captures nothing.
    """

    def __init__(self, namespace: Any, decorator: str) -> None:
        def decorate(**options: Any) -> Any:
            return decorate

        decorate.dispatch_token = getattr(namespace, decorator).dispatch_token
        self._namespace = namespace
        setattr(self, decorator, decorate)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._namespace, name)

    @staticmethod
    def int128(value: int) -> Any:
        """Return a constant of 128 bits, which TVM prints as `T.int128` and has no such function for."""
        return tirx.IntImm("int128", value)


SCRIPT_NAMES = {
    "tvm": tvm, "I": script_ir, "R": _ScriptNamespace(script_relax, "function"),
    "T": _ScriptNamespace(script_tirx, "prim_func"), "float": float, "TypeVar": TypeVar,
}  # fmt: skip
"""What a TVMScript text may name, under the names that TVM's printer uses."""


Callbacks: TypeAlias = "tuple[Any, Callable[..., Any]] | list[tuple[Any, Callable[..., Any]]]"
"""(class, function), or a list of them; in place of the class there may be a tuple of classes."""
_walk, _map = tvm_ffi.get_global_func("ffi.StructuralWalk"), tvm_ffi.get_global_func("ffi.StructuralMap")
_POST = structural.WalkOrder.POSTORDER.value
_ORDERS = {"pre": structural.WalkOrder.PREORDER.value, "post": _POST}


def structural_walk(root: Node, callbacks: Callbacks, *, order: str = "post") -> Any:
    """Call the first callback of a value's class for each value in `root`, as `tvm_ffi.structural_walk` does.

    That one looks at its arguments for 4 microseconds per call, which is longer than it takes to visit an expression.
    """
    return _walk(root, _entries(callbacks), (), _ORDERS[order])


def structural_map(
    root: Node, callbacks: Callbacks, with_def_region_kind: Callbacks | None = None, *, order: str = "post"
) -> Any:
    """Replace each value in `root` by what the first callback of its class returns, as `tvm_ffi.structural_map` does.

    Callbacks in `with_def_region_kind` also receive the definition-region kind, as an integer. Avoids the same overhead
    as `structural_walk`.
    """
    kinds = () if with_def_region_kind is None else _entries(with_def_region_kind)
    return _map(root, _entries(callbacks), kinds, _ORDERS[order])


def script_of(node: IRModule | PrimFunc, show_meta: bool = False) -> str:
    """Return TVMScript, the same text for every version of Python.

    From Python 3.12 on, TVM writes run-time sizes as type parameters (PEP 695: `def f[n](…)`), which older ones refuse.
    """
    return node.script(show_meta=show_meta, extra_config={"script.use_pep695": False})


def address_of(node: Any) -> int:
    """Return the address of a node of TVM's, which tells it from others for as long as it is kept.

    Comparing variables, or looking one up in a dict, builds an expression of their equality, in 5 microseconds.
    """
    return node.__chandle__()


def with_values(root: Node, values: Mapping[Any, Any]) -> Any:
    """Return `root` with expressions, or other variables, in place of variables."""
    by_address = {address_of(variable): value for variable, value in values.items()}

    def replaced(variable: Any) -> Any:
        return by_address.get(variable.__chandle__(), variable)

    return _map(root, _entries((tirx.Var, replaced)), (), _POST)


def _entries(callbacks: Callbacks) -> list[tuple[int, Callable[..., Any]]]:
    entries = callbacks if isinstance(callbacks, list) else [callbacks]
    return [(index, function) for classes, function in entries for index in _type_indices(classes)]


@cache
def _type_indices(classes: Any) -> tuple[int, ...]:
    """Return TVM's numbers of one class or of several."""
    each = classes if isinstance(classes, tuple) else (classes,)
    schema = tvm_ffi.core.TypeSchema.from_annotation
    return tuple(schema(Any if kind is object else kind).origin_type_index for kind in each)


def register_pure_operator(name: str, meaning: str) -> ir.Op:
    """Register an operator of TIR without effects that TVM may vectorise; its user has to expand it again."""
    ir.op._ffi_api.RegisterOp(name, meaning)
    operator = ir.Op.get(name)
    operator.set_attr("TCallEffectKind", _PURE)
    operator.set_attr("TVectorizable", True)
    # Passes of TVM print expressions that they cannot prove something of, and warn of operators without this name.
    operator.set_attr("TScriptPrinterName", name.removeprefix("tirx."))
    return operator


def meta_schedule() -> Any:
    """Return TVM's MetaSchedule, which takes a second to load."""
    from tvm.s_tir import meta_schedule as module

    return module


def tune_context(mod: IRModule, target: Target, space: Any, strategy: Any, seed: int, threads: int) -> Any:
    """Return a `TuneContext` of MetaSchedule, whose constructor loads the tensor instructions of all targets: 17 s."""
    kind = meta_schedule().TuneContext
    context = kind.__new__(kind)
    calls = sys.modules[kind.__module__]._ffi_api
    context.__init_handle_by_constructor__(calls.TuneContext, mod, target, space, strategy, "main", threads, seed, None)
    calls.TuneContextInitialize(context)
    return context


def apply_trace(schedule: Schedule, trace: Any) -> None:
    """Apply the steps of a trace, as `Trace.as_json` gives them."""
    s_tir.schedule.Trace.apply_json_to_schedule(trace, schedule)


_PURE = 1
"""TVM's number for calls whose value depends on their operands alone."""

# Attributes and annotations of Relax and TIR that one package writes and another one reads. Those of MLIR operations
# are in `lowering/mlir_common`, most in `attributes.py`; those of both in `lowering/core/stage.py`. One that a single
# package writes and reads is in that package.
LOCATION = "mlirtri.loc"
"""Annotation of an SBlock or a loop: ``"/abs/file.py:line:column"`` of the user's expression that it computes."""
BINDING_LOCATIONS = "mlirtri.locations"
"""Attribute of the Relax function: name of a binding to its ``"/abs/file.py:line:column"``."""
KERNEL_LOCATIONS = "mlirtri.lines"
"""Annotation of an SBlock that computes several expressions: the locations of all, its own last. As an attribute of a
scheduled PrimFunc: the locations of all its blocks, those that a schedule inlined away included."""
IMPERATIVE = "mlirtri.imperative"
"""Attribute of a PrimFunc that is statements, not a loop nest around one block."""
INDEPENDENT = "mlirtri.independent"
"""Annotation of a loop of an imperative PrimFunc whose iterations are independent."""
EXACT_BUFFERS = "mlirtri.exact_buffers"
"""Attribute of a PrimFunc whose buffers have the sizes that its rule gave them, which no pass can shrink; to find that
out takes TVM seconds."""
SCHEDULE_RULE = "mlirtri.schedule"
"""Attribute of a scheduled PrimFunc: the name of the rule that scheduled it."""
SCHEDULE_FAILURES = "mlirtri.schedule_failures"
"""Attribute of a PrimFunc: what the rules said that failed on it."""
VIEW = "mlirtri.view"
"""Attribute of a PrimFunc whose result is its input, reshaped: a launch plan makes a view instead of a launch."""
ONCE = "mlirtri.once"
"""Attribute of a PrimFunc that computes what depends on bound tensors alone: it runs when they are bound."""
IS_SCHEDULED = "tirx.is_scheduled"
"""Attribute of a PrimFunc that no rule may schedule again; TVM's own passes read it, too."""

__all__ = [
    "BINDING_LOCATIONS", "EXACT_BUFFERS", "IMPERATIVE", "INDEPENDENT", "IS_SCHEDULED", "KERNEL_LOCATIONS", "LOCATION",
    "ONCE", "PINNED", "SCHEDULE_ERRORS", "SCHEDULE_FAILURES", "SCHEDULE_RULE", "SCRIPT_NAMES", "VIEW",
    "Analyzer", "BlockBuilder", "Buffer", "Expr", "GlobalVar", "IRModule", "Node", "PrimFunc", "Range", "SBlock",
    "SBlockRealize", "Schedule", "Sequential", "Stmt", "Target", "TensorLoad", "TensorType", "Var", "WalkResult",
    "apply_trace", "check_versions", "dlight", "from_source", "ir", "meta_schedule", "read_write_region",
    "register_pure_operator", "relax", "s_tir", "structural_equal", "structural_hash", "structural_map",
    "structural_walk", "tirx", "tune_context", "tvm", "tvm_ffi",
]  # fmt: skip
