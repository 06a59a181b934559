"""`relax` → `linalg`: translate Relax functions to `func.func` on tensors. The inverse of the bridge.

TVM legalises operators to PrimFuncs, which become `linalg.generic` and `scf`; those without TIR have rules in
`operators.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import func, ir, scf, tensor
from mlirtri.dialect.definition import new_context
from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_relax.operators import NOT_LEGALISED, OPERATORS, Value
from mlirtri.lowering.importers.from_relax.primfunc_frame import Size
from mlirtri.lowering.importers.from_relax.primfunc_to_linalg import inline
from mlirtri.lowering.importers.from_relax.tir_to_scalar import Scalars
from mlirtri.lowering.importers.from_relax.types import flat_dtypes, flat_types, mlir_type, sizes_in, tensor_type
from mlirtri.lowering.importers.normalize import mlir_to_linalg
from mlirtri.lowering.mlir_common.attributes import BOUND, DTYPE, set_signature
from mlirtri.lowering.mlir_common.constants import array_of, constant_of
from mlirtri.lowering.mlir_common.imperative import UPDATED_BY
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.linalg_builder import cast_to
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes
from mlirtri.lowering.toolchain.tvm_names import (
    BINDING_LOCATIONS,
    Analyzer,
    Buffer,
    Expr,
    GlobalVar,
    IRModule,
    Target,
    relax,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir
from mlirtri.lowering.toolchain.tvm_passes import Pass as TvmPass
from mlirtri.lowering.toolchain.tvm_passes import relax_functions, run_pass, span_of

CLEANING = (
    Pass("canonicalize", "TIR computes every index again"),
    Pass("cse", "and every size"),
)


def lower(mod: IRModule, context: CompileContext) -> ir.Module:
    """Return `mod` in the normal form of `linalg`; raises `UnsupportedOperationError`."""
    module = translate(mod, context.kernel)
    run_passes(module, CLEANING, context)
    return mlir_to_linalg.lower(module, context)


def translate(mod: IRModule, entry: str) -> ir.Module:
    """Return `mod` as an MLIR module, before the steps of all imported MLIR; raises `UnsupportedOperationError`."""
    legalised = run_pass(mod, TvmPass("LegalizeOps", _legalize))
    with new_context(), ir.Location.unknown():
        module = ir.Module.create()
        problems: list[KernelError] = []
        for name, function in relax_functions(legalised):
            with ir.InsertionPoint(module.body):
                _Function(legalised, name, function, problems).emit(is_public=name == entry)
        raise_all(problems)
        return module


def _legalize(mod: IRModule) -> IRModule:
    with Target("llvm"):
        return relax.transform.LegalizeOps(skip_ops=list(NOT_LEGALISED))(mod)


class _Function:
    def __init__(self, mod: IRModule, name: str, function: relax.Function, problems: list[KernelError]):
        self.mod = mod
        self.name = name
        self.function = function
        self.problems = problems
        self.locations = dict((function.attrs or {}).get(BINDING_LOCATIONS, {}))
        self.values: dict[relax.Var, Value] = {}
        self.sizes = Scalars(self._no_load, Analyzer())
        self.updates: dict[int, ir.Value] = {}
        """By the number of an argument that a call writes, its new content."""

    def emit(self, is_public: bool) -> None:
        """Emit the `func.func` at the insertion point; problems are recorded."""
        parameters = list(self.function.params)
        kinds = [_as_argument(parameter.ty, is_public) for parameter in parameters]
        types = [leaf for kind in kinds for leaf in flat_types(kind)]
        func_op = func.FuncOp(self.name, (types, []), visibility=None if is_public else "private")
        names = [parameter.name for parameter, kind in zip(parameters, kinds, strict=True) for _ in flat_types(kind)]
        locations = [ir.Location.name(name) for name in names]
        block = func_op.body.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(block):
            arguments = iter(block.arguments)
            for parameter, kind in zip(parameters, kinds, strict=True):
                value = _packed(kind, arguments)
                self.values[parameter] = value if kind.same_as(parameter.ty) else tensor.extract(value, [])
                self.learn_sizes(parameter.ty, self.values[parameter])
            results = flattened(self.body(self.function.body))
            func.ReturnOp(results)
        self._describe(func_op, [dtype for kind in kinds for dtype in flat_dtypes(kind)], results)

    def _describe(self, func_op: func.FuncOp, dtypes: list[str], values: list[ir.Value]) -> None:
        names = [str(parameter) for parameter in (self.function.attrs or {}).get(BOUND, [])]
        arguments, results = _signs(dtypes), _signs(flat_dtypes(self.function.ret_ty))
        for group, name in zip(arguments[len(arguments) - len(names) :], names, strict=True):
            group[BOUND] = ir.StringAttr.get(name)
        for argument, content in self.updates.items():
            if content in values:
                result = values.index(content)
                arguments[argument][UPDATED_BY] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), result)
        set_signature(func_op, arguments, results)

    def learn_sizes(self, kind: tvm_ir.Type, value: Value) -> None:
        """Define the symbolic sizes that a type names for the first time."""
        if isinstance(value, list):
            for field, part in zip(kind.fields, value, strict=True):
                self.learn_sizes(field, part)
            return
        for axis, size in enumerate(sizes_in(kind)):
            if isinstance(size, tirx.Var) and size not in self.sizes.indices:
                index = index_constant(axis)
                self.sizes.indices[size] = tensor.dim(value, index)

    def size(self, size: Expr) -> Size:
        return int(size.value) if isinstance(size, tirx.IntImm) else self.sizes.index(size)

    def sizes_of(self, kind: tvm_ir.Type) -> list[Size]:
        if kind.shape is None:
            raise UnsupportedOperationError("a tensor of unknown shape")
        return [self.size(size) for size in sizes_in(kind)]

    def _no_load(self, buffer: Buffer, _: Sequence[Expr]) -> ir.Value:
        raise UnsupportedOperationError(f"a size is read from {buffer.name}")

    def body(self, expression: Expr) -> Value:
        """Return the value of a sequence of bindings; problems are recorded, and translation goes on."""
        if not isinstance(expression, relax.SeqExpr):
            return self.value(expression)
        for block in expression.blocks:
            for binding in block.bindings:
                self._bind(binding)
        return self.value(expression.body)

    def _bind(self, binding: relax.Binding) -> None:
        span = span_of(self.locations.get(binding.var.name))
        try:
            with location_of(span, binding.var.name):
                value = self.value(binding.value)
                if isinstance(binding, relax.MatchCast):
                    value = self._matched(binding.ty, value)
                self.values[binding.var] = value
        except KernelError as error:
            if error.span is None:
                error.span = span
            self.problems.append(error)
            # A stand-in of that type lets the bindings that use it report their own problems.
            self.values[binding.var] = self._stand_in(binding.var.ty)

    def _stand_in(self, kind: tvm_ir.Type) -> Value:
        if isinstance(kind, relax.TupleType):
            return [self._stand_in(field) for field in kind.fields]
        if not isinstance(kind, relax.TensorType) or kind.shape is None:
            raise_all(self.problems)
        return tensor.empty(self.sizes_of(kind), mlir_type(str(kind.dtype)))

    def _matched(self, kind: tvm_ir.Type, value: Value) -> Value:
        self.learn_sizes(kind, value)
        if isinstance(value, ir.Value) and value.type != (matched_type := tensor_type(kind)):
            return tensor.cast(matched_type, value)
        return value

    def value(self, expression: Expr) -> Value:
        if isinstance(expression, relax.Call):
            return self.call(expression)
        if isinstance(expression, relax.Var) and expression in self.values:
            return self.values[expression]
        if isinstance(expression, tvm_ir.GenericConst):
            return constant_of(array_of(expression), tensor_type(expression.ty))
        if isinstance(expression, (relax.Tuple, tvm_ir.Array)):
            return [self.value(field) for field in expression]
        if isinstance(expression, relax.TupleGetItem):
            return self.value(expression.tuple_value)[expression.index]
        if isinstance(expression, relax.If):
            return self._branch(expression)
        if isinstance(expression, relax.ShapeExpr):
            return [self.sizes.index(size) for size in expression.values]
        if isinstance(expression, tvm_ir.Expr) and isinstance(getattr(expression, "ty", None), tvm_ir.PrimType):
            return self.sizes.evaluate(expression)
        raise UnsupportedOperationError(f"Relax's {type(expression).__name__} has no counterpart in MLIR")

    def call(self, call: relax.Call) -> Value:
        if isinstance(call.op, GlobalVar):
            return self._call_function(call)
        name = str(getattr(call.op, "name", type(call.op).__name__))
        if name in ("relax.call_tir", "relax.call_tir_inplace"):
            return self._call_prim_func(call)
        if name in OPERATORS:
            return OPERATORS[name](self, call)
        raise UnsupportedOperationError(
            f"{name.removeprefix('relax.')} of Relax has no counterpart in linalg", help="use operators with TIR"
        )

    def _call_function(self, call: relax.Call) -> Value:
        callee = self.mod[call.op]
        arguments = [value for argument in call.args for value in flattened(self.value(argument))]
        types = flat_types(callee.ret_ty)
        results = func.CallOp(types, ir.FlatSymbolRefAttr.get(call.op.name_hint), arguments).results
        return _packed(callee.ret_ty, iter(results))

    def _call_prim_func(self, call: relax.Call) -> Value:
        arguments = flattened(self.value(call.args[1]))
        kind = call.ty_args[0]
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        updates = [int(index) for index in call.attrs.inplace_indices] if call.op.name.endswith("_inplace") else []
        results = inline(self.mod[call.args[0]], arguments, [self.sizes_of(kind) for kind in kinds], updates)
        typed = [cast_to(result, tensor_type(kind)) for result, kind in zip(results, kinds, strict=True)]
        for result, position in zip(typed, updates, strict=False):
            if position >= 0 and isinstance(arguments[position].owner, ir.Block):
                self.updates[ir.BlockArgument(arguments[position]).arg_number] = result
        return typed if isinstance(kind, relax.TupleType) else typed[0]

    def _branch(self, branch: relax.If) -> Value:
        condition = tensor.extract(self.value(branch.cond), [])
        if_op = ir.Operation.create("scf.if", results=flat_types(branch.ty), operands=[condition], regions=2)
        for region, arm in zip(if_op.regions, (branch.true_branch, branch.false_branch), strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                scf.YieldOp(flattened(self.body(arm)))
        return _packed(branch.ty, iter(if_op.results))


def flattened(value: Value) -> list[ir.Value]:
    """Return the tensors of a value, those of tuples flattened."""
    return [leaf for part in value for leaf in flattened(part)] if isinstance(value, list) else [value]


def _as_argument(kind: tvm_ir.Type, is_public: bool) -> tvm_ir.Type:
    """Return the type that the caller passes: scalars of the public function are rank-0 tensors."""
    is_number = isinstance(kind, tvm_ir.PrimType) and is_public
    return relax.TensorType([], str(kind.dtype)) if is_number else kind


def _signs(dtypes: Sequence[str]) -> list[dict[str, ir.Attribute]]:
    return [{DTYPE: ir.StringAttr.get(dtype)} if dtype.startswith("uint") else {} for dtype in dtypes]


def _packed(kind: tvm_ir.Type, values: Iterator[ir.Value]) -> Value:
    if isinstance(kind, relax.TupleType):
        return [_packed(field, values) for field in kind.fields]
    return next(values)
