"""Lower `tri` to `relax`: an op becomes Relax's operator where one is exact for its dtype, else goes through linalg.

The other ops are lowered to linalg alone and unfused, and bridged as PrimFuncs: the pipeline's fusion is Relax's.
Functions with loops and updates are lowered to linalg as a whole and become one imperative PrimFunc.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import ir, print_module, public_functions, tensor
from mlirtri.dialect.definition import mlir_type, op_of, type_of
from mlirtri.dialect.ops import attributes
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.ops.table import TABLE, dialect_ops
from mlirtri.lowering.bridge.builder import RelaxBuilder, Splat, rule
from mlirtri.lowering.bridge.fused_to_relax import inline_external, translate
from mlirtri.lowering.bridge.imperative_to_relax import lower_imperative
from mlirtri.lowering.bridge.scalar.scalar_rules import literal
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.linalg import tri_to_linalg
from mlirtri.lowering.linalg.rewrites import decompose, tri_operations
from mlirtri.lowering.linalg.tri_to_linalg import copied, has_control, rule_of
from mlirtri.lowering.mlir_common.linalg_builder import tensor_type
from mlirtri.lowering.toolchain.tvm_names import IRModule, relax


def lower(module: ir.Module, context: CompileContext) -> IRModule:
    """Return the Relax module of a `tri` module; raises `UnsupportedOperationError`."""
    marked = copied(module, context)
    if has_control(marked):
        signature = _signature(module)
        lowered = tri_to_linalg.lower(module, context)
        inline_external(lowered, context)
        return lower_imperative(lowered, context, signature)
    with module.context, ir.Location.unknown():
        before = print_module(module)
        source = ir.Module.parse(marked.operation.get_asm(enable_debug_info=True))
        decompose(source, lambda op, operation: not has_operator(op, operation))
        context.record("decompose", decomposed := print_module(source), before, is_ours=True)
        for operation in tri_operations(source):
            op = op_of(operation)
            if not has_operator(op, operation) and op.name != "constant":
                with errors_at(operation):
                    _to_linalg(op, operation)
        context.record("linalg-for-the-rest", print_module(source), decomposed, is_ours=True)
        return translate(source)


def _signature(module: ir.Module) -> tuple[list[str], list[str]]:
    """Return the dtypes of the function's arguments and results, with signedness."""
    [function] = public_functions(module)
    return _dtypes(function.type.inputs), _dtypes(function.type.results)


def _dtypes(kinds: Sequence[ir.Type]) -> list[str]:
    return [type_of(kind).dtype.name for kind in kinds]


def has_operator(op: Op, operation: ir.Operation) -> bool:
    """Return whether Relax has an operator with this meaning for the dtype of the first operand."""
    if op.relax is None:
        return False
    values = [*operation.operands, operation.results[0]]
    dtype = type_of(values[op.name == "where"].type).dtype
    if dtype.letter not in op.relax_dtypes:
        return False
    if op.relax_when is None:
        return True
    return op.relax_when(type_of(operation.operands[0].type), attributes.from_mlir(op, operation))


def _to_linalg(op: Op, operation: ir.Operation) -> None:
    """Lower one operation to linalg; unsigned tensors are signless in between."""
    with ir.InsertionPoint(operation), operation.location:
        operands = [_signless(operand) for operand in operation.operands]
        value = rule_of(op)(op, operation, operands)
        kind = mlir_type(type_of(operation.results[0].type))
        if value.type != kind:
            value = tensor.bitcast(kind, value)
    operation.results[0].replace_all_uses_with(value)
    operation.erase()


def _signless(value: ir.Value) -> ir.Value:
    kind = tensor_type(type_of(value.type))
    return value if value.type == kind else tensor.bitcast(kind, value)


@rule("tensor.bitcast")
def _bitcast(builder: RelaxBuilder, operation: ir.Operation) -> None:
    """Reinterpret the bits: a cast between integers of one width keeps them."""
    [operand], [result] = operation.operands, operation.results
    builder.emit(operation, relax.op.astype(builder.read(operand), builder.type_of(result).dtype.dtype))


@rule("tri.constant")
def _constant(builder: RelaxBuilder, operation: ir.Operation) -> None:
    kind = type_of(operation.results[0].type)
    value = attributes.from_mlir(TABLE["constant"], operation)["value"]
    builder.write(operation.results[0], Splat(literal(value, kind.dtype.name), kind.shape))


def _operator(builder: RelaxBuilder, operation: ir.Operation) -> None:
    op = op_of(operation)
    arguments = builder.read_all(operation.operands)
    if isinstance(op.relax, str):
        expression = attrgetter(op.relax)(relax.op)(*arguments)
    else:
        parameters = attributes.from_mlir(op, operation)
        expression = op.relax(relax.op, arguments, parameters, type_of(operation.results[0].type))
    builder.emit(operation, expression)


for _op in dialect_ops():
    if _op.relax is not None:
        rule(f"tri.{_op.name}")(_operator)
