"""`mt.torch_op`: a kernel as an operator of torch, which stands inside of `torch.compile` and `torch.export`.

    squared = mt.torch_op("mine::squared", kernel, backward=gradient_kernel)

Shapes and dtypes of results on fake tensors come from the kernel's stage `tri`, compiled for abstract arguments. The
schema comes from the parameters' annotations and defaults.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mlirtri.calls.dynamic_shapes import DynamicShapes
from mlirtri.compiler.records import COMPILING
from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.errors import KernelError, KernelTypeError, UnknownNameError, did_you_mean
from mlirtri.kernels.jit import JitFunction
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, resolved
from mlirtri.kernels.session import compile_function
from mlirtri.language.dimensions import dyn
from mlirtri.language.names import Tensor, ptr
from mlirtri.lowering.core.interface import Interface, parts_of
from mlirtri.lowering.core.tracebacks import public
from mlirtri.lowering.frontend.python_to_ast import parse_function

OPERATORS: dict[Any, TorchOperator] = {}
"""The operators of kernels by torch's object for them."""
_TYPES = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str"}


@public
def torch_op(
    name: str, kernel: object = None, *, backward: object = None, writes: Sequence[str] = (), results: int | None = None
) -> Any:
    """Register a kernel as the operator `name`, ``"namespace::name"``, and return it; without `kernel`, a decorator.

    `writes` names the parameters that the kernel writes. `results` is how many tensors it returns, by default as its
    last `return` says. `backward` is a kernel that gives the gradients of all floating-point tensors in order. Its
    parameters are some of this kernel's by their names, ``grad`` for the gradient of the result and ``result``, or
    ``grad_0``, ``result_1``… of several. Raises `KernelTypeError`, `UnknownNameError`.
    """
    if kernel is None:
        return lambda decorated: torch_op(name, decorated, backward=backward, writes=writes, results=results)
    operator = TorchOperator(name, _checked(kernel), tuple(writes), results)
    if backward is not None:
        operator.differentiate(_checked(backward))
    return operator.overload


class TorchOperator:
    """A kernel that is registered as an operator of torch."""

    def __init__(
        self,
        name: str,
        kernel: JitFunction,
        writes: tuple[str, ...] = (),
        results: int | None = None,
        types: Mapping[str, str] | None = None,
    ):
        self.name, self.kernel, self.writes = name, kernel, writes
        known = types or {}
        parameters = kernel.signature.parameters
        self.types = {parameter: known.get(parameter) or _type_of(kernel, parameter) for parameter in parameters}
        """The schema's types by parameter; those in `types` are what the operator has that this one differentiates."""
        for written in writes:
            if written not in self.types:
                hint = f"{did_you_mean(written, self.types)}its parameters are {', '.join(self.types)}"
                raise UnknownNameError(f"{kernel.__name__} has no parameter {written!r}", help=hint)
        self.results = _count_of_results(kernel) if results is None else results
        self._interfaces: dict[Any, Interface] = {}
        if name.count("::") != 1 or not all(part.isidentifier() for part in name.split("::")):
            raise KernelTypeError(f"{name!r} is not the name of an operator", help='write "namespace::name"')
        # torch's own wrapper would infer the schema from annotations, which are ours.
        self.definition = torch.library.custom_op(name, self._run, mutates_args=writes, schema=self._schema())
        self.definition.register_fake(self._fake)
        self.overload = self.definition._opoverload
        OPERATORS[self.overload] = self

    def _schema(self) -> str:
        return self.schema(self.results, self.writes)

    def schema(self, results: int, writes: Sequence[str]) -> str:
        """Return the schema of an operator with these parameters, with so many results, that writes some of them."""
        shown, is_keyword = [], False
        for (name, type_), parameter in zip(self.types.items(), self.kernel.signature.parameters.values(), strict=True):
            if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
                shown.append("*")
                is_keyword = True
            alias = f"(a{len(shown)}!)" if name in writes else ""
            default = "" if parameter.default is parameter.empty else f"={_shown_default(parameter.default)}"
            shown.append(f"{type_}{alias} {name}{default}")
        returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
        return f"({', '.join(shown)}) -> {returned}"

    def _run(self, *arguments: Any, **keywords: Any) -> Any:
        bound = self.kernel.signature.bind(arguments, keywords)
        self._interface(bound)
        with torch.no_grad():
            result = self.kernel(**bound)
        return self._returned(result_leaves(result))

    def _fake(self, *arguments: Any, **keywords: Any) -> Any:
        bound = self.kernel.signature.bind(arguments, keywords)
        tensors = [value for value in bound.values() if isinstance(value, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        return self._returned([
            torch.empty(shape, dtype=dtype.torch, device=device) for shape, dtype in self._types_of_results(bound)
        ])  # fmt: skip

    def _types_of_results(self, bound: dict[str, Any]) -> list[tuple[tuple[Any, ...], DType]]:
        """Return shape and dtype of each result for fake tensors, of torch's symbolic sizes where that is possible.

        A kernel that needs the sizes at compile time is compiled for those of the example, as torch then does, too.
        """
        if names := _names_of_sizes(bound):
            try:
                interface = self._interface(bound, names)
            except KernelError:
                interface = None
            if interface is not None and (types := _in_symbols(interface, bound)) is not None:
                return types
        return self._of_example(self._interface(bound), bound)

    def _of_example(self, interface: Interface, bound: dict[str, Any]) -> list[tuple[tuple[Any, ...], DType]]:
        """Return the types of the results for the sizes of these arguments."""
        leaves = result_leaves(interface.tree)
        if all(leaf.type.is_static for leaf in leaves):
            return [(tuple(leaf.type.shape), leaf.type.dtype) for leaf in leaves]
        if (types := _in_symbols(interface, bound)) is not None:
            return types
        # Products and quotients of sizes are the compiled kernel's to say.
        interface = self.kernel.compile(**{name: _abstract(value, {}) for name, value in bound.items()}).interface
        inputs = [bound[parameter.name] for parameter in interface.parameters]
        steps = interface.sizes.elements if interface.sizes is not None else ()
        if interface.sizes is None or any(isinstance(inputs[step.literals[0]], torch.Tensor) for step in steps):
            raise KernelTypeError(
                f"the sizes of the results of {self.kernel.__name__} depend on elements, and torch has to know them",
                self.kernel.signature.span,
            )
        inputs = [value if isinstance(value, torch.Tensor) else torch.tensor(value) for value in inputs]
        shapes = DynamicShapes(self.kernel.__name__, interface, interface.sizes).results(inputs)
        return [(shape, leaf.type.dtype) for shape, leaf in zip(shapes, leaves, strict=False)]

    def _returned(self, tensors: list[Any]) -> Any:
        if not self.results:
            return None
        return tensors[0] if self.results == 1 else tuple(tensors)

    def _interface(self, bound: dict[str, Any], names: Mapping[str, str] | None = None) -> Interface:
        """Return the interface of the kernel for arguments, real or fake; raises `KernelError`.

        Symbolic sizes that have `names` stay symbolic.
        """
        abstract = {name: _abstract(value, names or {}) for name, value in bound.items()}
        key = tuple(abstract.values())
        if (interface := self._interfaces.get(key)) is None:
            interface = self._compiled(abstract, "tri").interface
            self._check(interface)
            self._interfaces[key] = interface
        return interface

    def lowered(self, bound: dict[str, Any]) -> Kernel:
        """Return the kernel for fake arguments, compiled up to the stage `linalg`; raises `KernelError`."""
        names = _names_of_sizes(bound)
        self._interface(bound, names)
        return self._compiled({name: _abstract(value, names) for name, value in bound.items()}, "linalg", "linalg")

    def _compiled(self, abstract: dict[str, Any], stage: str, pipeline: str | None = None) -> Kernel:
        options = self.kernel.options if pipeline is None else Options(pipeline=pipeline).over(self.kernel.options)
        _, _, chosen = resolved(options)
        options = Options(pipeline=chosen.until(stage)).over(options)
        specialization = self.kernel.signature.specialize(abstract, options.semantics)
        with COMPILING:
            return compile_function(self.kernel.__mlirtri_function__, specialization, options, {}).kernel

    def _check(self, interface: Interface) -> None:
        """Refuse a kernel that does not do what its schema says."""
        name, span = self.kernel.__name__, self.kernel.signature.span
        leaves = result_leaves(interface.tree)
        if len(leaves) != self.results:
            raise KernelTypeError(
                f"{name} returns {len(leaves)} tensors, and the operator {self.name} says {self.results}", span,
                help=f"say mt.torch_op(…, results={len(leaves)})",
            )  # fmt: skip
        if any(leaf.counts for leaf in leaves):
            raise KernelTypeError(
                f"how long a result of {name} is depends on elements, and an operator of torch has to say it before",
                span,
            )
        written = [interface.parameters[number].name for number, _ in interface.updates]
        undeclared = [parameter for parameter in written if parameter not in self.writes]
        if undeclared:
            raise KernelTypeError(
                f"{name} writes {undeclared[0]!r}, and the operator {self.name} does not say so", span,
                help=f"say mt.torch_op(…, writes={written!r})",
            )  # fmt: skip

    def differentiate(self, kernel: JitFunction) -> None:
        """Register `kernel` as what computes the gradients; raises `UnknownNameError`, `KernelTypeError`."""
        if self.writes:
            raise KernelTypeError(f"{self.name} writes {self.writes[0]!r}, and torch differentiates no such operator")
        gradient = _Gradient(self, kernel)
        self.definition.register_autograd(gradient.compute, setup_context=gradient.keep)


class _Gradient:
    """The gradient of an operator, which another kernel computes."""

    def __init__(self, operator: TorchOperator, kernel: JitFunction):
        self.of = operator
        suffixes = [""] if operator.results == 1 else [f"_{number}" for number in range(operator.results)]
        self.results = {f"result{suffix}": number for number, suffix in enumerate(suffixes)}
        self.incoming = {f"grad{suffix}": number for number, suffix in enumerate(suffixes)}
        self.needed = list(kernel.signature.parameters)
        known = [*operator.types, *self.results, *self.incoming]
        for parameter in self.needed:
            if parameter not in known:
                raise UnknownNameError(
                    f"{kernel.__name__} has the parameter {parameter!r}, which is nothing of {operator.name}",
                    kernel.signature.span, help=f"{did_you_mean(parameter, known)}it may take {', '.join(known)}",
                )  # fmt: skip
        self.operator = TorchOperator(f"{operator.name}_backward", kernel, types=operator.types)

    # torch calls it with keywords of these names.
    def keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None) -> None:
        """Keep what the kernel needs of a call."""
        outputs = [output] if self.of.results == 1 else list(output)
        values = dict(zip(self.of.types, inputs, strict=False)) | (keyword_only_inputs or {})
        values |= {name: outputs[number] for name, number in self.results.items()}
        kept = {name: values[name] for name in self.needed if name in values}
        tensors = {name: value for name, value in kept.items() if isinstance(value, torch.Tensor)}
        ctx.save_for_backward(*tensors.values())
        ctx.names, ctx.constants = tuple(tensors), {n: v for n, v in kept.items() if n not in tensors}
        ctx.differentiable = [_is_differentiable(value) for value in inputs]

    def compute(self, context: Any, *incoming: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument of a call; None for those that have none."""
        values = dict(zip(context.names, context.saved_tensors, strict=True)) | context.constants
        values |= {name: incoming[number].contiguous() for name, number in self.incoming.items()}
        given = self.operator.overload(*[values[name] for name in self.needed])
        results = iter([given] if self.operator.results == 1 else given)
        count = sum(context.differentiable)
        if self.operator.results != count:
            kernel = self.operator.kernel
            raise KernelTypeError(
                f"{kernel.__name__} returns {self.operator.results} gradients, and {self.of.name} has {count} "
                "floating-point tensors", kernel.signature.span,
            )  # fmt: skip
        return tuple(next(results) if is_differentiable else None for is_differentiable in context.differentiable)


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _checked(kernel: Any) -> JitFunction:
    if not isinstance(kernel, JitFunction):
        raise KernelTypeError(f"{kernel!r} is not a kernel", help="give a function decorated with @mlirtri.jit")
    return kernel


def _type_of(kernel: JitFunction, name: str) -> str:
    """Return the schema's type of a parameter; raises `KernelTypeError`."""
    annotation, default = kernel.signature.annotations.get(name), kernel.signature.parameters[name].default
    if isinstance(annotation, Tensor) or annotation is ptr:
        return "Tensor"
    if isinstance(annotation, DType):
        return _TYPES[annotation.python]
    if annotation in _TYPES:
        return _TYPES[annotation]
    if default is None:
        return "Tensor?"
    if default is inspect.Parameter.empty:
        return "Tensor"
    if type(default) in _TYPES:
        return _TYPES[type(default)]
    raise KernelTypeError(
        f"{kernel.__name__}: the default of {name!r} is a {type(default).__name__}, which torch does not take",
        kernel.signature.span, help="give tensors, numbers and strings",
    )  # fmt: skip


def _shown_default(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _count_of_results(kernel: JitFunction) -> int:
    """Return how many values the last `return` of a kernel's function names."""
    _, node = parse_function(kernel.__mlirtri_function__)
    inner = {n for d in ast.walk(node) if isinstance(d, (ast.FunctionDef, ast.Lambda)) and d is not node
             for n in ast.walk(d)}  # fmt: skip
    returned = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n not in inner]
    if not returned or returned[-1] is None or (isinstance(returned[-1], ast.Constant) and returned[-1].value is None):
        return 0
    return len(returned[-1].elts) if isinstance(returned[-1], (ast.Tuple, ast.List)) else 1


def _names_of_sizes(bound: Mapping[str, Any]) -> dict[str, str]:
    """Return a name for each of torch's symbolic sizes of fake tensors, by its text."""
    names: dict[str, str] = {}
    for value in bound.values():
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt):
                names.setdefault(str(size), f"n{len(names)}")
    return names


def _abstract(value: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = [dyn[names[str(size)]] if str(size) in names else int(size) for size in value.shape]
    return Tensor(shape, value.dtype)


def _in_symbols(interface: Interface, bound: Mapping[str, Any]) -> list[tuple[tuple[Any, ...], DType]] | None:
    """Return the types of the results in torch's symbols; None for sizes that follow from others by no sum."""
    values: dict[Any, Any] = {}
    for parameter in interface.parameters:
        for size, actual in zip(parameter.type.shape, getattr(bound[parameter.name], "shape", ()), strict=False):
            if is_dynamic(size) and size == Size.of(size.terms[0][0]):
                values[size.terms[0][0].key] = actual
    leaves = result_leaves(interface.tree)
    sizes = [Size.of(size) for leaf in leaves for size in leaf.type.shape]
    if any(symbol.key not in values for size in sizes for symbol, _ in size.terms):
        return None
    return [
        (
            tuple(
                sum((values[symbol.key] * factor for symbol, factor in size.terms), size.constant)
                for size in map(Size.of, leaf.type.shape)
            ),
            leaf.type.dtype,
        )
        for leaf in leaves
    ]


def result_leaves(tree: object) -> list[Any]:
    """Return the leaves of a result in order, without None."""
    if isinstance(tree, (tuple, list, dict)):
        return [leaf for part in parts_of(tree) for leaf in result_leaves(part)]
    return [] if tree is None else [tree]
