"""Calls in a kernel: library functions and methods by their spelling, dtypes as casts, Python functions inlined.

A function of numpy, torch, math or mlirtri is looked up by identity and called as its own library's signature says.
A plain Python function, or another jit function, is inlined: its body is visited with the arguments' values.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from typing import Any, cast

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import Tensor
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.errors import (
    KernelError,
    KernelLinearAlgebraError,
    KernelTypeError,
    KernelValueError,
    Note,
    StaticAssertionError,
    UnknownNameError,
    UnsupportedSyntaxError,
    offer,
)  # fmt: skip
from mlirtri.lowering.core.interface import Capture
from mlirtri.lowering.external import relax_library
from mlirtri.lowering.external.base import External
from mlirtri.lowering.frontend import breakpoints
from mlirtri.lowering.frontend.builtin_calls import RUN_TIME_BUILTINS
from mlirtri.lowering.frontend.closures import LocalFunction
from mlirtri.lowering.frontend.expressions import Method, fold
from mlirtri.lowering.frontend.language import linear_algebra
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.language.storage import current, has_memory, own
from mlirtri.lowering.frontend.language.views import fresh, is_einsum_view, is_view_function, returns_itself, viewed
from mlirtri.lowering.frontend.macro_references import Variable, reference_to
from mlirtri.lowering.frontend.python_to_ast import parse_function, span_of_node
from mlirtri.lowering.frontend.scope import BUILTINS, Scope, check_constant

INLINE_LIMIT = 64
_BUILTINS = set(BUILTINS.values())


class Calls:
    """The `visit_*` methods of calls and function-like syntax."""

    def visit_Call(self, node: ast.Call) -> Any:
        callee = self.visit(node.func)
        callee = relax_library.of_tvm(callee) or callee
        if isinstance(callee, External):
            return fresh(callee.emit(self.b, self.elements(node.args), self.keywords(node.keywords)))
        if getattr(callee, "references", ()):
            return self.inline_macro(callee, node)
        arguments = self.elements(node.args)
        keywords = self.keywords(node.keywords)
        if isinstance(callee, LocalFunction):
            return self.inline_local(callee, arguments, keywords, node)
        if isinstance(callee, Method):
            return self.spelled(callee.spelling, [callee.tensor, *arguments], keywords)
        if isinstance(callee, spellings.Spelling):
            return self.spelled(callee, arguments, keywords)
        return self.call_object(callee, arguments, keywords, node)

    def call_object(self, callee: Any, arguments: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        """The value of a call of something that a name outside of the kernel stands for."""
        if not callable(callee) and find_dtype(callee) is None:
            raise KernelTypeError(f"{describe(callee)} is not a function")
        if (dtype := find_dtype(callee)) is not None and callee not in (bool, float, int, complex):
            return self.b.tensor(*self.one(arguments, keywords, f"{dtype}(…)"), dtype)
        name = getattr(callee, "__mlirtri_name__", None) or _qualified(callee)
        if (written := linear_algebra.find(callee)) is not None:
            return fresh(self.inline(written, arguments, keywords, node))
        if name in self.static:
            return self.static[name](self, arguments, keywords)
        if name is not None and (found := spellings.lookup(name)) is not None:
            return self.spelled(found, arguments, keywords)
        if callable(callee) and callee in _BUILTINS:
            self.node = node
            return self.builtin(callee, arguments, keywords)
        function = getattr(callee, "__mlirtri_function__", callee)
        if inspect.isfunction(function) and not _is_library(function):
            return self.inline(function, arguments, keywords, node)
        self.refuse_call(callee, node)

    def spelled(self, spelling: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """A library function's result: a view of its argument, or new memory, or written into `out`."""
        bound = spelling.arguments(arguments, keywords)
        if (out := bound.get("out")) is not None:
            return self.into(out, spelling, arguments, {**keywords, "out": None})
        if spelling.writes:
            return self.rewritten(spelling, arguments, keywords)
        result = spelling.call(self.b, *arguments, **keywords)
        source = next((each for each in arguments if isinstance(each, Tensor)), None)
        if isinstance(result, Tensor) and source is not None and returns_itself(spelling.name, source, result, bound):
            return source
        if source is not None and has_memory(source) and is_einsum_view(spelling.name, arguments):
            shared = own(fresh(result))
            if has_memory(shared):
                shared.origin.storage.share("the result of einsum", [source.origin.storage])
            return shared
        if source is not None and is_view_function(spelling.name):
            return viewed(self.b, source, fresh(result))
        return fresh(result)

    def rewritten(self, spelling: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """``x.sort()``, ``numpy.fill_diagonal(x, 1)``: the result is written into the first argument."""
        target = arguments[0] if arguments else next(iter(spelling.arguments(arguments, keywords).values()), None)
        if not has_memory(target):
            raise KernelTypeError(f"{spelling.name} writes into an array, got {describe(target)}")
        self.write(target, (...,), self.b.tensor(fresh(spelling.call(self.b, *arguments, **keywords))))
        return current(self.b.tri, target) if spelling.name.startswith("Tensor.") else None

    def into(self, out: Any, spelling: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """``np.add(x, y, out=z)``: the result is cast to z's dtype and written there."""
        if isinstance(out, tuple) and len(out) == 1:
            [out] = out
        if not has_memory(out):
            raise KernelTypeError(f"out has to be an array, got {describe(out)}")
        names = list(spelling.signature.parameters)
        given = arguments[1:] if spelling.is_method else arguments
        if "out" in names and len(given) > names.index("out"):
            at = names.index("out") + (len(arguments) - len(given))
            arguments = [*arguments[:at], *arguments[at + 1 :]]
        keywords = {name: value for name, value in keywords.items() if name != "out"}
        result = self.b.tensor(fresh(spelling.call(self.b, *arguments, **keywords)))
        self.write(out, (...,), result)
        return current(self.b.tri, out)

    def keywords(self, nodes: list[ast.keyword]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each in nodes:
            if each.arg is None:
                raise UnsupportedSyntaxError(
                    "** arguments are not supported", span_of_node(self.file, each.value), help="write every keyword"
                )
            found[each.arg] = self.visit(each.value)
        return found

    def one(self, arguments: list[Any], keywords: dict[str, Any], what: str) -> list[Any]:
        if len(arguments) != 1 or keywords:
            raise KernelTypeError(f"{what} takes one argument")
        return arguments

    def builtin(self, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Python's own functions fold on known values; `abs`, `len` and `float` have a meaning for tensors too."""
        if function is breakpoint:
            return self.breakpoint(arguments, keywords)
        tensors = [each for each in _flat(arguments) if isinstance(each, Tensor)]
        if not tensors:
            if function is isinstance or any(isinstance(each, Tensor) for each in _flat(arguments)):
                raise KernelTypeError(f"{function.__name__}() is not supported on these arguments in a kernel")
            return fold(lambda: function(*arguments, **keywords))
        if function in RUN_TIME_BUILTINS:
            return RUN_TIME_BUILTINS[function](self, *arguments, **keywords)
        raise KernelTypeError(f"{function.__name__}() of {describe(tensors[0])} is not known at compile time")

    def breakpoint(self, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """Start the debugger here; refused where the kernel does not run line by line."""
        if arguments or keywords:
            raise KernelTypeError("breakpoint() takes no arguments in a kernel")
        if not self.b.stops:
            raise UnsupportedSyntaxError(
                "breakpoint() stops kernels that are interpreted, and this one is compiled",
                help="set MLIRTRI_INTERPRET=1 while debugging",
            )
        breakpoints.emit(self.b.tri.location)

    def refuse_call(self, callee: Any, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if type(callee).__module__.startswith("tvm."):
            way_out = f"register it before: {name} = mlirtri.tensorir({name})"
            raise UnknownNameError(f"{name} is a function of TVM's, not of kernels", help=way_out)
        near = spellings.near(_full_name(callee) or name)
        raise UnknownNameError(
            f"{name} is not a function that kernels have",
            help=offer(near).rstrip() or "the operation reference lists every function",
        )

    # --- compile-time statements -----------------------------------------------------------------------------------

    def static_print(self, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """Print while compiling, to stderr: values known now, and the types of tensors."""
        if keywords:
            raise KernelTypeError("static_print takes no keyword arguments")
        print(*(str(each.type) if isinstance(each, Tensor) else each for each in arguments), file=sys.stderr)

    def static_assert(self, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """Refuse to compile when a condition known now is false."""
        if keywords or len(arguments) not in (1, 2):
            raise KernelTypeError("static_assert takes a condition and, if you like, a message")
        condition, *message = arguments
        if isinstance(condition, Tensor):
            raise KernelTypeError(f"static_assert needs a condition known at compile time, got {describe(condition)}")
        if not condition:
            raise StaticAssertionError(f"static assertion failed{f': {message[0]}' if message else ''}")

    def device_print(self, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """Print at run time, after the call, in a kernel compiled with ``debug``."""
        if keywords:
            raise KernelTypeError("device_print takes no keyword arguments")
        if self.b.debug:
            self.b.prints.add(self.b, arguments)

    def require_of_matrix(self, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """What the library's linear algebra asks of its operands, which may show at run time only."""
        condition, message = arguments
        if isinstance(condition, Tensor):
            tri = self.b.tri
            wrong = tri.logical_not(condition)
            # The user's line, not that of our function.
            while isinstance(tri.location, ir.CallSiteLoc) and span_of(tri.location).file == linear_algebra.__file__:
                tri.location = tri.location.caller
            self.b.check(wrong, KernelLinearAlgebraError, message)
        elif not condition:
            raise KernelLinearAlgebraError(message)

    def refuse(self, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """A function of ours in the kernel language refuses its operands."""
        raise KernelTypeError(arguments[0])

    static = {  # noqa: RUF012 - a table
        "mlirtri.require_of_matrix": require_of_matrix,
        "mlirtri.refuse": refuse,
        "mlirtri.device_print": device_print, "mlirtri.static_print": static_print,
        "mlirtri.static_assert": static_assert,
    }  # fmt: skip

    # --- inlining --------------------------------------------------------------------------------------------------

    def inline(
        self, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any], call: ast.Call
    ) -> Any:
        """The value of a Python function's body for these arguments; errors inside name this call."""
        here = span_of_node(self.file, call)
        self.check_depth(function.__name__)
        file, node = parse_function(function)
        if any(isinstance(each, (ast.Yield, ast.YieldFrom, ast.Await)) for each in ast.walk(node)):
            raise UnsupportedSyntaxError(f"{function.__name__} is a generator or coroutine, which cannot be inlined")
        self.scope.captures.append(Capture(lambda: function.__code__, function.__code__, function.__qualname__))
        scope = Scope(function, self.scope.captures)
        scope.locals.update(owned(bind(function, arguments, keywords)))
        return self.run_inlined(scope, file, node.body, function.__name__, here)

    def inline_macro(self, macro: Any, call: ast.Call) -> Any:
        """A macro with parameters that stand for the caller's variables."""
        function, here = macro.__mlirtri_function__, span_of_node(self.file, call)
        self.check_depth(function.__name__)
        if any(isinstance(each, ast.Starred) for each in call.args) or any(k.arg is None for k in call.keywords):
            raise UnsupportedSyntaxError("a macro that writes its arguments takes no * or **", here)
        nodes = bind(function, list(call.args), {each.arg: each.value for each in call.keywords})
        given: dict[str, Any] = {}
        for name, node in nodes.items():
            if not isinstance(node, ast.expr):
                given[name] = node
            else:
                given[name] = reference_to(self, node) if name in macro.references else self.visit(node)
        file, definition = parse_function(function)
        self.scope.captures.append(Capture(lambda: function.__code__, function.__code__, function.__qualname__))
        scope = Scope(function, self.scope.captures)
        variables = {name: value for name, value in given.items() if isinstance(value, Variable)}
        scope.locals.update(owned(given | {name: each.value for name, each in variables.items()}))
        result = self.run_inlined(scope, file, definition.body, function.__name__, here, tuple(variables))
        for name, variable in variables.items():
            variable.hand_back(scope.read(name, self.b.tri))
        return result

    def check_depth(self, name: str) -> None:
        if self.depth >= INLINE_LIMIT:
            raise KernelValueError(
                f"{name} is inlined more than {INLINE_LIMIT} calls deep",
                help="end the recursion with an `if` on a value known at compile time",
            )

    def inline_local(
        self, function: LocalFunction, arguments: list[Any], keywords: dict[str, Any], call: ast.Call
    ) -> Any:
        """The value of a function that is defined in the kernel."""
        here = span_of_node(self.file, call)
        self.check_depth(function.__name__)
        outer = function.visitor.scope
        scope = Scope(outer.function, outer.captures, enclosing=outer)
        scope.locals.update(owned(function.bind(arguments, keywords)))
        return self.run_inlined(scope, function.visitor.file, function.body, function.__name__, here)

    def run_inlined(
        self, scope: Scope, file: str, body: list[ast.stmt], name: str, here: Any, read_after: tuple[str, ...] = ()
    ) -> Any:
        visitor = cast(Any, type(self))(self.b, scope, file, self.depth + 1, self.location_of(here))
        try:
            return visitor.run(body, read_after)
        except KernelError as error:
            for each in getattr(error, "errors", (error,)):
                each.notes = (*each.notes, Note(f"in {name}, called from here", here))
            raise


def bind(function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Parameter names to values, defaults filled in; raises what Python would say about a wrong call."""
    try:
        bound = inspect.signature(function).bind(*arguments, **keywords)
    except TypeError as error:
        raise KernelTypeError(f"{function.__name__}(): {error}") from None
    for parameter in bound.signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UnsupportedSyntaxError(f"{function.__name__} takes *args or **kwargs, which cannot be inlined")
        if parameter.name not in bound.arguments:
            check_constant(parameter.default, f"the default of {parameter.name!r}")
    bound.apply_defaults()
    return dict(bound.arguments)


def owned(bound: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a function's names hold them."""
    return {name: own(value) for name, value in bound.items()}


def _qualified(callee: Any) -> str | None:
    return None if isinstance(callee, DType) or callee in _BUILTINS else spellings.qualified_name(callee)


def _full_name(callee: Any) -> str | None:
    module, name = getattr(callee, "__module__", None), getattr(callee, "__name__", None)
    return f"{module}.{name}" if module and name else name


def _is_library(function: Callable[..., Any]) -> bool:
    """Whether inlining would look into numpy, torch or Python itself: those functions have spellings or nothing."""
    if function.__module__ == linear_algebra.__name__:
        return False
    top = (function.__module__ or "").split(".")[0]
    return top in ("numpy", "torch", "math", "mlirtri", *sys.stdlib_module_names) and top != "__main__"


def _flat(values: Any) -> list[Any]:
    return [each for value in values for each in (_flat(value) if isinstance(value, (tuple, list)) else [value])]
