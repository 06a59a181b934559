"""Lower a function of loops over memrefs to one imperative PrimFunc, statement by statement.

The PrimFunc has the same parameters, in the same order, and one opaque block. A loop whose iterations are independent
(scf.parallel) is annotated ``mlirtri.independent``, every loop with its line. Refuses operations without a rule, all at
once.

    scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) {     ──►   s[0] = z
      %x = memref.load %a[%i]                                      for i in range(n):
      %t = arith.addf %s, %x                                           s[0] = s[0] + a[i]
      scf.yield %t }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.bindings.locations import name_of, span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge.loops import control_flow
from mlirtri.lowering.bridge.loops.function_translation import STATEMENT_RULES, LoopTranslation
from mlirtri.lowering.bridge.scalar.scalar_rules import SCALAR_RULES
from mlirtri.lowering.core.stage import TILE_KERNEL
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.mlir_common.reading import dtype_of, is_shaped
from mlirtri.lowering.tir.product_recognition import OP_PATTERN, OPAQUE
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import IMPERATIVE, LOCATION, PrimFunc, Range, SBlock, SBlockRealize, tirx

__all__ = ["ImperativeFunction", "build_imperative", "control_flow"]
_TERMINATORS = frozenset({"func.return", "scf.yield", "scf.condition", "scf.reduce", "scf.reduce.return"})
_HELP = 'write it with other operations, or use pipeline="mlir"'


@dataclass(frozen=True)
class ImperativeFunction:
    """A PrimFunc, and the symbols of the constant arrays that it takes between its inputs and outputs."""

    function: PrimFunc
    constants: tuple[str, ...]


def build_imperative(
    function: ir.Operation,
    inputs: int,
    dtypes: Sequence[str] | None = None,
    shapes: Sequence[Sequence[Any]] | None = None,
    strides: Mapping[int, Sequence[int | None]] | None = None,
) -> ImperativeFunction:
    """Build the PrimFunc of a function over memrefs: the first `inputs` are its arguments, the rest its outputs.

    `dtypes` are the buffers' dtypes, which differ from the elements' in signedness or for complex parts; `shapes` are
    the buffers' shapes where sizes are known at run time only, `strides` those of arguments that are not row-major.
    Raises `UnsupportedOperationError`.
    """
    refuse(_unsupported(function), "TIR", _HELP)
    block = function.regions[0].blocks[0]
    translation = LoopTranslation()
    parameters = []
    for position, argument in enumerate(block.arguments):
        name_hint = name_of(argument.location) or (f"arg{position}" if position < inputs else f"out{position - inputs}")
        sizes = shapes[position] if shapes else [index(size) for size in argument.type.shape]
        dtype = dtypes[position] if dtypes else None
        memory = translation.memory(argument, sizes, name_hint, dtype, (strides or {}).get(position))
        parameters.append(memory.buffer)
    with translation.values.nested() as statements:
        translation.translate(block)
    constants = [buffer for buffer, _ in translation.constants]
    parameters = [*parameters[:inputs], *constants, *parameters[inputs:]]
    span = span_of(function.location)
    body = _block(parameters, translation.written, statements, {LOCATION: str(span)} if span else {})
    attributes = {"s_tir": True, "tirx.noalias": True, OP_PATTERN: OPAQUE, IMPERATIVE: True}
    if TILE_KERNEL in function.attributes:
        attributes[TILE_KERNEL] = ir.IntegerAttr(function.attributes[TILE_KERNEL]).value
    symbols = tuple(symbol for _, symbol in translation.constants)
    return ImperativeFunction(PrimFunc(parameters, body).with_attrs(attributes), symbols)


def _block(parameters: list, written: set[str], statements: list, annotations: dict) -> SBlockRealize:
    """Return one block that may read all parameters and write those named in `written`."""
    reads = [_whole(parameter) for parameter in parameters]
    writes = [_whole(parameter) for parameter in parameters if parameter.name in written]
    block = SBlock([], reads, writes, "loops", sequence(*statements), annotations=annotations)
    return SBlockRealize([], True, SBlock([], [], [], "root", SBlockRealize([], True, block)))


def _whole(parameter):
    return tirx.BufferRegion(parameter, [Range(index(0), size) for size in parameter.shape])


def _unsupported(operation: ir.Operation) -> Iterator[tuple[ir.Operation, str]]:
    for region in operation.regions:
        for inner in (child.operation for block in region.blocks for child in block.operations):
            if inner.name not in STATEMENT_RULES and inner.name not in SCALAR_RULES and inner.name not in _TERMINATORS:
                yield inner, inner.name
            elif problem := _type_problem(inner):
                yield inner, problem
            yield from _unsupported(inner)


def _type_problem(operation: ir.Operation) -> str | None:
    if operation.name.startswith("scf.") and any(is_shaped(result.type) for result in operation.results):
        return f"{operation.name} whose result is a newly allocated array"
    try:
        for value in (*operation.operands, *operation.results):
            dtype_of(value.type)
    except UnsupportedOperationError as error:
        return f"{operation.name} ({error.message})"
    return None
