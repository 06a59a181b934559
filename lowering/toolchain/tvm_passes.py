"""Run TVM's passes one by one, with text after each, and convert TVM's exceptions into errors on the user's line.

A pass that fails becomes a `PassFailedError` without C++ frames, at the ``mlirtri.loc`` annotation of the function, or
the name of the binding, on which the pass fails alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from types import FunctionType
from typing import Any

from mlirtri.errors import KernelError, PassFailedError, Span
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.toolchain.tvm_names import (
    BINDING_LOCATIONS,
    KERNEL_LOCATIONS,
    LOCATION,
    SCHEDULE_ERRORS,
    BlockBuilder,
    Expr,
    GlobalVar,
    IRModule,
    PrimFunc,
    SBlock,
    ir,
    relax,
    s_tir,
    script_of,
    structural_map,
    structural_walk,
    tirx,
)

CALLS = frozenset({
    "relax.call_tir", "relax.call_tir_inplace", "relax.call_packed", "relax.call_pure_packed", "relax.call_dps_packed",
    "relax.to_vdevice",
})  # fmt: skip
"""All that a Relax function may do from `tir` on: call what is compiled, and copy to other devices."""
_MESSAGE_LINES = 6


@dataclass(frozen=True)
class Pass:
    """A pass on a module: its name, what runs it, and why it runs."""

    name: str
    run: Callable[[IRModule], IRModule]
    why: str = ""

    @property
    def is_ours(self) -> bool:
        """Return whether it is a function of ours: TVM's passes are objects of its own."""
        return isinstance(self.run, FunctionType | partial)


def module_text(mod: IRModule) -> str:
    """Return TVMScript to read: without location tables, metadata, and the folders of source files."""
    shown = {}
    for callee, function in mod.functions_items():
        is_located = isinstance(function, relax.Function) and BINDING_LOCATIONS in (function.attrs or {})
        shown[callee] = function.without_attr(BINDING_LOCATIONS) if is_located else function
    script = respelled(script_of(IRModule(shown, attrs=mod.attrs, global_infos=mod.global_infos)))
    return _LOCATIONS.sub(lambda match: _FOLDER.sub('"', match[0]), script)


_LOCATIONS = re.compile(rf'"(?:{re.escape(LOCATION)}": "[^"]*"|{re.escape(KERNEL_LOCATIONS)}": \[[^\]]*\])')
_FOLDER = re.compile(r'"/[^"]*/')


def respelled(script: str) -> str:
    """Return TVMScript with numbers as TVM's own parser takes them.

    It prints infinities and NaN as strings, and refuses strings; and a float64 literal is read as a float32 first.
    """
    script = re.sub(r'R\.const\("(-?(?:inf|nan))", ', r'R.const(float("\1"), ', script)
    return _BEYOND_FLOAT32.sub(lambda match: f'T.FloatImm("float64", {float(match[1])!r})', script)


_BEYOND_FLOAT32 = re.compile(r"T\.float64\((-?(?:\d{39,}(?:\.\d*)?|\d[\d.]*e\+?\d{2,}))\)")


def run_passes(mod: IRModule, passes: tuple[Pass, ...], context: CompileContext) -> IRModule:
    """Return `mod` after every pass in order, each recorded; raises `PassFailedError` on the user's line."""
    before = module_text(mod) if context.keep_passes else ""
    for step in passes:
        mod, old = run_pass(mod, step), mod
        if not context.keep_passes:
            continue
        after = before if _is_unchanged(old, mod) else module_text(mod)
        context.record(step.name, after, before, step.is_ours)
        before = after
    return mod


def _is_unchanged(mod: IRModule, result: IRModule) -> bool:
    """Return whether two modules have the same objects: most passes copy the module that they do not change."""
    old, new = dict(mod.functions_items()), dict(result.functions_items())
    if len(old) != len(new) or mod.attrs != result.attrs or not mod.global_infos == result.global_infos:
        return False
    return all(callee in old and old[callee].same_as(function) for callee, function in new.items())


def run_pass(mod: IRModule, step: Pass) -> IRModule:
    """Return `mod` after one pass; raises `PassFailedError` on the user's line."""
    try:
        return with_devices_of(mod, step.run(mod))
    except KernelError as error:
        raise error.at(_failing_span(mod, step)) from None
    except Exception as error:
        raise PassFailedError(
            f"TVM's pass {step.name} failed: {short_message(error)}", _failing_span(mod, step)
        ) from None


def with_devices_of(mod: IRModule, result: IRModule) -> IRModule:
    """Return `result` with the device declarations of `mod`, which many passes drop."""
    if not mod.global_infos or result.global_infos:
        return result
    return IRModule(dict(result.functions_items()), attrs=result.attrs, global_infos=mod.global_infos)


def short_message(error: BaseException) -> str:
    """Return TVM's message without stack frames and without the IR that schedule errors quote in full."""
    # Addresses differ from run to run, and texts that hold this message must not.
    lines = [re.sub(r"0x[0-9a-f]{6,}", "0x…", line.rstrip()) for line in str(error).splitlines()]
    message = [line for line in lines if line and not line.startswith(("  File", "  [bt]", "Traceback", "# from"))]
    shown = takewhile(lambda line: not line.startswith(("The IR with diagnostic", "@I.")), message[:_MESSAGE_LINES])
    return "\n".join(shown) or type(error).__name__


def span_of(location: str | None) -> Span | None:
    """Return the span that a location string names, or None."""
    if location and (match := re.fullmatch(r"(.+):(\d+):(\d+)", str(location), re.DOTALL)):
        return Span(match.group(1), int(match.group(2)), int(match.group(3)))
    return None


def locations_of(function: PrimFunc) -> tuple[str, ...]:
    """Return the distinct source locations of a PrimFunc's blocks, in program order."""
    if KERNEL_LOCATIONS in (function.attrs or {}):
        return tuple(str(location) for location in function.attrs[KERNEL_LOCATIONS])
    locations: dict[str, None] = {}

    def note(block):
        own = [block.annotations[LOCATION]] if LOCATION in block.annotations else []
        locations.update(dict.fromkeys(map(str, block.annotations.get(KERNEL_LOCATIONS, own))))

    structural_walk(function.body, (SBlock, note), order="pre")
    return tuple(locations)


def source_span(function: PrimFunc) -> Span | None:
    """Return the span of the last of a PrimFunc's lines, which computes its result."""
    locations = locations_of(function)
    return span_of(locations[-1]) if locations else None


def prim_funcs(mod: IRModule) -> list[tuple[str, PrimFunc]]:
    """Return name and function of every PrimFunc, sorted by name."""
    return _functions_of(mod, PrimFunc)


def with_functions(mod: IRModule, changed: Mapping[GlobalVar, PrimFunc]) -> IRModule:
    """Return `mod` with these functions, in place of those that it has by their variables; itself if there are none."""
    functions = {**dict(mod.functions_items()), **changed}
    return IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos) if changed else mod


def relax_functions(mod: IRModule) -> list[tuple[str, relax.Function]]:
    """Return name and function of every Relax function, sorted by name."""
    return _functions_of(mod, relax.Function)


def _functions_of(mod: IRModule, kind: type) -> list[tuple[str, Any]]:
    functions = [(gv.name_hint, function) for gv, function in mod.functions_items() if isinstance(function, kind)]
    return sorted(functions, key=lambda pair: pair[0])


def operator_of(binding: relax.Binding) -> str | None:
    """Return the name of the Relax operator that a binding calls; None where it calls none."""
    value = getattr(binding, "value", None)
    if not isinstance(value, relax.Call) or not isinstance(value.op, ir.Op):
        return None
    name = str(value.op.name)
    return name if name.startswith("relax.") else None


def takes_tensors(binding: relax.Binding) -> bool:
    """Return whether a binding calls a PrimFunc, with operands that are known one by one."""
    return operator_of(binding) == "relax.call_tir" and isinstance(binding.value.args[1], relax.Tuple)


def with_arguments(call: relax.Call, arguments: Sequence[Expr]) -> relax.Call:
    """Return `call` on other arguments."""
    return relax.Call(call.op, arguments, call.attrs, call.ty_args, call.span)


def bindings_of(function: relax.Function) -> Iterator[relax.Binding]:
    """Yield all bindings of the function's body in order, those inside the branches of an `if` included."""
    yield from _bindings(function.body)


def _bindings(body) -> Iterator[relax.Binding]:
    for block in getattr(body, "blocks", ()):
        for binding in block.bindings:
            yield binding
            if isinstance(getattr(binding, "value", None), relax.If):
                yield from _bindings(binding.value.true_branch)
                yield from _bindings(binding.value.false_branch)


def _failing_span(mod: IRModule, step: Pass) -> Span | None:
    """Run the failed pass again on each part of the module alone; return the source span of the first that fails."""
    if span := first_failing(prim_funcs(mod), lambda parts: step.run(IRModule(dict(parts)))):
        return span
    for _, function in relax_functions(mod):
        locations = (function.attrs or {}).get(BINDING_LOCATIONS, {})
        for binding in bindings_of(function):
            span = span_of(locations.get(binding.var.name))
            if span and (part := _alone(mod, binding)) and _fails(step.run, part):
                return span
    return None


def first_failing(
    functions: Iterable[tuple[str, PrimFunc]], attempt: Callable[[list[tuple[str, PrimFunc]]], object]
) -> Span | None:
    """Return the span of the first of these functions on which `attempt`, given a list of it alone, fails."""
    for name, function in functions:
        if (span := source_span(function)) and _fails(attempt, [(name, function)]):
            return span
    return None


def _fails(attempt: Callable[[Any], object], part: Any) -> bool:
    try:
        attempt(part)
    except Exception:  # the caller, who has seen the whole fail, raises that error, on the line that is found here
        return True
    return False


def _alone(mod: IRModule, binding: relax.Binding) -> IRModule | None:
    if isinstance(getattr(binding, "value", None), relax.If):
        return None
    builder = BlockBuilder(IRModule({gv: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc)}))
    with builder.function("alone", list(relax.analysis.free_vars(binding.value))):
        builder.emit_func_output(builder.emit(binding.value))
    return builder.get()


def estimated_flops(function: PrimFunc) -> int | None:
    """Return the arithmetic of a PrimFunc on floating-point elements, functions such as `exp` left out.

    None where TVM's estimate cannot tell, as for loops whose length is known at run time only.
    """
    rules = [
        # TVM's estimate has no rule for `Let`, and adds up the arguments of any call.
        (tirx.Let, lambda let: _call(let.body.ty, let.value, let.body)),
        (tirx.Add, _as_subtraction),
        ((tirx.Sub, tirx.Mul), _wide_as_call),
        (_COMPARISONS, _comparison_as_difference),
    ]
    body = structural_map(function.body, rules, order="post")
    try:
        return int(s_tir.analysis.estimate_tir_flops(IRModule({"main": function.with_body(body)})))
    except (ValueError, TypeError, RuntimeError, *SCHEDULE_ERRORS):
        return None


_COMPARISONS = (tirx.GT, tirx.GE, tirx.LT, tirx.LE, tirx.EQ, tirx.NE)


def _call(kind: Any, *operands: Any) -> Any:
    return ir.Call(ir.Op.get("prim.likely"), list(operands), ret_ty=kind)


def _comparison_as_difference(comparison: Any) -> Any:
    """Return a call with the difference of the operands, which counts as arithmetic on floating-point elements."""
    if not str(comparison.a.ty.dtype).startswith(("float", "bfloat")):
        return comparison
    return _call(comparison.ty, comparison.a - comparison.b)


def _wide_as_call(operation: Any) -> Any:
    """Return a call for integers of 128 bits, which TVM's estimate takes for floating-point elements."""
    if str(operation.ty.dtype) != "int128":
        return operation
    return _call(operation.ty, operation.a, operation.b)


def _as_subtraction(total: Any) -> Any:
    """Return one operation for ``a + b * -1.0``, which is how TVM's simplifier writes ``a - b``."""
    if str(total.ty.dtype) == "int128":
        return _wide_as_call(total)
    is_product = isinstance(total.b, tirx.Mul) and isinstance(total.b.b, tirx.FloatImm)
    return total.a - total.b.a if is_product and total.b.b.value == -1.0 else total
