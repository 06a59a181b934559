"""Buffers as SPIR-V has them: of one axis where a size is known at run time only, and arrays of a thread's own.

    f(%a: memref<?x?xf32>)  memref.load %a[%i, %j]   ──►   f(%a: memref<?xf32>, …, %size0: index, %size1: index)
                                                           memref.load %a[%i * %size1 + %j]

The sizes become arguments behind all others; the module's attribute `mlirtri.sizes` has for each the number of its
buffer and the axis. A static array that a parallel loop allocates lies in storage class Function. Runs after the loops
are made: buffers are loaded from and stored to, and have no views.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, memref, operations_named, public_functions
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant, index_value, mixed_sizes
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, integer_constant

SIZES = "mlirtri.sizes"
"""Attribute of the module: buffer and axis of each size among the arguments, flat."""
_ACCESSES = {"memref.load": 0, "memref.store": 1, "memref.atomic_rmw": 1, "memref.generic_atomic_rmw": 0}
"""Operations on elements, with the number of their buffer's operand."""
_FUNCTION = "#spirv.storage_class<Function>"


def rewrite(module: ir.Module) -> None:
    """Make every dynamic buffer one of a single axis, and sizes arguments."""
    noted: list[int] = []
    for function in public_functions(module):
        noted += _flatten_arguments(function)
        for allocation in operations_named(function, "memref.alloc"):
            if not allocation.results[0].type.has_static_shape:
                _flatten_allocation(allocation)
    module.operation.attributes[SIZES] = ir.DenseI64ArrayAttr.get(noted)


def keep_in_function(nest: ir.Operation) -> None:
    """Move what a parallel loop allocates to storage class Function: variables of one thread."""
    inside = all_operations_in(nest)
    for allocation in [each for each in inside if each.name in ALLOCATIONS]:
        value = allocation.results[0]
        for use in list(value.uses):
            if use.owner.operation.name == "memref.dealloc":
                use.owner.operation.erase()
        kind = value.type
        if not kind.has_static_shape:
            continue  # refused later, by name
        new = ir.MemRefType.get(kind.shape, kind.element_type, None, ir.Attribute.parse(_FUNCTION))
        with ir.InsertionPoint(allocation), allocation.location:
            variable = memref.alloca(new, [], [])
        replace(allocation, [variable])


def _flatten_arguments(function: ir.OpView) -> list[int]:
    """Flatten the arguments; return buffer and axis of each size that became an argument."""
    block, noted = function.entry_block, []
    buffers = [each for each in block.arguments if isinstance(each.type, ir.MemRefType)]
    for number, buffer in enumerate(buffers):
        if buffer.type.has_static_shape:
            continue
        sizes: list[ir.Value] = []
        for axis, size in enumerate(buffer.type.shape):
            if size != ir.ShapedType.get_dynamic_size():
                with ir.InsertionPoint.at_block_begin(block):
                    sizes.append(index_constant(size))
                continue
            sizes.append(block.add_argument(ir.IndexType.get(), ir.Location.unknown()))
            noted += [number, axis]
        _flatten(buffer, sizes)
        buffer.set_type(_flat(buffer.type))
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    if "arg_attrs" in function.attributes:
        before = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
        new = [ir.DictAttr.get({})] * (len(inputs) - len(before))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*before, *new])
    return noted


def _flatten_allocation(allocation: ir.Operation) -> None:
    kind = allocation.results[0].type
    with ir.InsertionPoint(allocation), allocation.location:
        sizes = list(map(index_value, mixed_sizes(kind, list(allocation.operands))))
        _flatten(allocation.results[0], sizes)
        count = sizes[0]
        for size in sizes[1:]:
            count = arith.muli(count, size)
        flat = memref.alloc(_flat(kind), [count], [])
    replace(allocation, [flat])


def _flat(kind: ir.MemRefType) -> ir.MemRefType:
    return ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], kind.element_type, None, kind.memory_space)


def _flatten(buffer: ir.Value, sizes: Sequence[ir.Value]) -> None:
    """Let every access have the offset of its element as the one index, and no operation ask for a size."""
    for use in list(buffer.uses):
        user = use.owner.operation
        if user.name == "memref.dim":
            axis = integer_constant(user.operands[1])
            if axis is not None:
                replace(user, [sizes[axis]])
        elif user.name in _ACCESSES and len(sizes) > 1:
            _access_by_offset(user, sizes)


def _access_by_offset(access: ir.Operation, sizes: Sequence[ir.Value]) -> None:
    first = _ACCESSES[access.name] + 1
    operands = list(access.operands)
    with ir.InsertionPoint(access), access.location:
        offset = operands[first]
        for index, size in zip(operands[first + 1 :], sizes[1:], strict=True):
            offset = arith.addi(arith.muli(offset, size), index)
        attributes = {name: access.attributes[name] for name in access.attributes}
        kinds = [result.type for result in access.results]
        # The buffer has its new type in a moment; what is verified is the module.
        count = len(access.regions)
        new = ir.Operation.create(access.name, kinds, [*operands[:first], offset], attributes, regions=count)
        for region, target in zip(access.regions, new.regions, strict=True):
            for block in list(region.blocks):
                block.append_to(target)
    replace(access, new.results)
