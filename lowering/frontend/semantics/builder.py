"""`Language`: what ``x + y`` or ``mt.sum(x)`` means, in terms of the op table.

Casts operands as the chosen semantics (NumPy's or torch's) would, normalises axes and shapes, and emits strict `tri`
operations. Spellings (`numpy.sum`, `torch.sum`, ``x.sum``) are written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from math import inf
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.base.sizes import UNKNOWN, Size, Symbol
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import KernelValue, TriBuilder, TriValue
from mlirtri.dialect.promotion import dtype_rules as promotion
from mlirtri.dialect.promotion.dtype_rules import Operand
from mlirtri.errors import IntegerBoundsError, KernelDivisionError, KernelTypeError, KernelValueError, Span
from mlirtri.lowering.frontend.semantics import quotients
from mlirtri.lowering.frontend.semantics.debugging import DevicePrints, mark_check
from mlirtri.lowering.frontend.semantics.dynamic_sizes import IndexArithmetic, aligned
from mlirtri.lowering.frontend.semantics.index_checks import CountedLoop, check_indices, check_integer
from mlirtri.lowering.frontend.semantics.storage import Memory, Storage

F = TypeVar("F", bound="Callable[..., Any]")
NUMBERS = (bool, int, float, complex)
LANGUAGE: Registry[str, Callable[..., Any]] = Registry("language function")


def language(function: F) -> F:
    """Register ``name(builder, …)`` as the implementation of a table op that is not plainly elementwise."""
    LANGUAGE.add(function.__name__, function)
    return function


class Language:
    """One method per language function: ``b.add(x, y)``, ``b.sum(x, axis=0)``, ``b.reshape(x, (2, 3))``."""

    number_of: Callable[..., Any]
    size_from: Callable[..., Any]
    smaller_size: Callable[..., Any]

    forced_iterations = 0
    """Number of iterations unrolled because their bodies could not be emitted otherwise."""
    inline_depth = 500
    """How deeply calls are inlined in each other."""
    on_value: Callable[[Span, str, str], None] | None = None
    """Told the range, type and assigned name of each expression, for editors."""
    in_tile_kernel = False
    """Whether the body of a ``with T.Kernel(…)`` is being lowered."""
    block_threads = 0
    """Threads of a block of the tile kernels, the most of them; 0 without one."""
    is_inside = False
    """Whether the indices of elements are known to be inside, since a branch around has compared them."""
    unknown = UNKNOWN
    """The size or offset of an operation that is given by an operand."""
    entry: ir.Block | None = None
    """The function's entry block, for operations that must dominate all loops."""
    checks_indices = True
    """Whether indices known at run time only are checked; else they are clamped."""
    is_muted, muted_checks = False, 0
    """Whether checks are left out, because the same expression is emitted again elsewhere; how many were."""

    def __init__(self, semantics: str, unroll: int = 0, debug: bool = False, stops: bool = False):
        # Importing these modules registers their functions; they import this one, hence here.
        from mlirtri.lowering.frontend.semantics import arrays, reductions  # noqa: F401

        self.semantics = semantics
        self.tri = TriBuilder()
        self.memory = Memory()
        self.indices = IndexArithmetic(self.tri)
        self.unroll = unroll
        """Innermost loops with at most this many iterations, known at compile time, are unrolled."""
        self.debug = debug
        """Whether assertions and prints take effect."""
        self.stops = stops
        """Whether a debugger is attached for `breakpoint()`."""
        self.named_sizes: dict[Symbol, Size] = {}
        """The values of the names that annotations give to sizes of run time."""
        self.tiles: dict[Storage, Any] = {}
        """What `tile_language.tiles` knows of the memory that is a tile."""
        self.prints = DevicePrints()
        self.raises: list[TriValue | Storage] = []
        """The checks of `raise` statements: values, and memories that hold them."""
        self.pending_checks: list[tuple[TriValue | Storage, type[Exception], str, ir.Location | None]] = []
        """Run-time conditions that must be false, with the error raised otherwise."""
        self.counted_loops: list[CountedLoop] = []
        """The counted loops around, the innermost last."""
        self.guards: list[TriValue] = []
        """The conditions under which Python evaluates the present expression, which is computed in any case."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in LANGUAGE:
            return partial(LANGUAGE[name], self)
        op = self.tri.table.get(name)
        if op is None or op.group != "elementwise":
            raise AttributeError(f"the language has no function {name!r}")
        return partial(self.elementwise, name)

    def type_of(self, value: KernelValue) -> TensorType | None:
        return value.type if isinstance(value, TriValue) else None

    def weak_kind(self, value: KernelValue) -> str | None:
        """Return ``bool``, ``int``, ``float`` or ``complex`` for a Python scalar, known or run-time; else None."""
        return self.operand(value).weak if isinstance(value, (TriValue, *NUMBERS)) else None

    def python_scalar(self, value: KernelValue) -> KernelValue:
        """Return a rank-0 float, complex or bool tensor as the weak number of `float(x)`; Python scalars unchanged."""
        if not isinstance(value, TriValue) or value.weak:
            return value
        if not value.type.rank and value.type.dtype.is_bool:
            return TriValue(value.value, value.type, weak=True)
        if value.type.rank or not value.type.dtype.is_inexact:
            self.fail(f"cannot make a Python float of {value.type} at run time", help="use astype or cast")
        wide = self.tri.cast(value, DTYPES["complex128" if value.type.dtype.is_complex else "float64"])
        return TriValue(wide.value, wide.type, weak=True)

    def fail(self, message: str, help: str | None = None) -> NoReturn:  # noqa: A002 - the word printed before it
        raise KernelTypeError(message, help=help)

    def operand(self, x: KernelValue) -> Operand:
        if isinstance(x, TriValue):
            return Operand(None, kind_of(x), 0) if x.weak else Operand(x.type.dtype, None, x.type.rank)
        if isinstance(x, NUMBERS):
            return Operand(None, type(x).__name__, 0, x)
        help = "make an array of it: numpy.array([…])" if isinstance(x, (list, tuple)) else None
        if isinstance(x, DType):
            help = f"a parameter that is a number at run time is annotated: parameter: mlirtri.{x}"
        raise KernelTypeError(f"expected a tensor or a number, got {describe(x)}", help=help)

    def tensor(self, x: KernelValue, dtype: DType | None = None) -> TriValue:
        """Return x as a strong tensor of `dtype` (default: its own, or the library's for a Python number)."""
        if not isinstance(x, TriValue):
            number = self.known_number(x, dtype)
            dtype = dtype or self.default_dtype(x)
            self.check_fits(number, dtype)
            return self.tri.constant(number, dtype)
        if dtype is None:
            dtype = promotion.default_dtype(self.semantics, kind_of(x)) if x.weak else x.type.dtype
        is_number = x.weak and x.type.dtype.is_integer and dtype.is_integer
        if is_number and self.semantics == "numpy" and not self.in_tile_kernel:
            check_integer(self, x, dtype)
        return self.tri.cast(x, dtype)

    def known_number(self, x: Any, dtype: DType | None) -> Any:
        """Return a Python number as the library converts it to a dtype; fail for anything else."""
        self.operand(x)
        return _literal(x, dtype)

    def check_fits(self, number: KernelValue, dtype: DType) -> None:
        """Refuse a Python int that the library does not convert to an integer dtype; torch negates unsigned ones."""
        if not dtype.is_integer or dtype.holds(int(number)):
            return
        if self.semantics == "torch" and dtype.is_unsigned and dtype.holds(-int(number)):
            return
        raise IntegerBoundsError(
            f"Python int {number} does not fit {dtype}", help=f"write a value that {dtype} holds, or use a wider dtype"
        )

    def default_dtype(self, x: bool | int | float | complex) -> DType:
        """Return the dtype of a tensor that is created from a Python number."""
        return promotion.default_dtype(self.semantics, type(x).__name__)

    def elementwise(self, name: str, *operands: KernelValue, **attributes: KernelValue) -> KernelValue:
        """Cast the operands, emit the operation and cast the result by the promotion rules of the semantics."""
        if name in _COMPARISONS and self.semantics == "numpy":
            operands = _strong_where_wider(_infinite_beyond_64_bits(operands))
        plan = promotion.result_dtypes(self.semantics, name, [self.operand(x) for x in operands])
        if plan.mixed_signs:
            return self._compare_signs(name, operands, plan)
        keeps_second = self._keeps_second(name, operands, plan.result)
        compute = (DTYPES["float32"],) * 2 if keeps_second else plan.compute
        # The plan has refused the ints that the library refuses: it wraps others.
        tensors = aligned(self, [self._wrapped(x, dtype) for x, dtype in zip(operands, compute, strict=True)])
        if plan.identity:
            return self.tri.cast(tensors[0], plan.result)
        if name in ("floor_divide", "remainder", "power"):
            self._check_integers(name, tensors, operands[1])
        if name == "floor_divide" and self.rounds_quotients(operands[1], plan.result):
            x, y = tensors
            result = quotients.floor_of_halves(self.tri, x, y, plan.result)
        elif name == "remainder" and self.semantics == "torch" and plan.result.is_float:
            result = self.tri.cast(quotients.torch_remainder(self.tri, *tensors), plan.result)
        else:
            result = self.tri.cast(self.tri.emit(name, *tensors, **attributes), plan.result)
        return TriValue(result.value, result.type, weak=True) if plan.weak else result

    def _keeps_second(self, name: str, operands: Sequence[Any], dtype: DType) -> bool:
        """Return whether torch's kernels for halves read the second operand, a wider rank-0 tensor, as float32."""
        if self.semantics != "torch" or not dtype.is_half or name not in ("multiply", "divide", "floor_divide"):
            return False
        second = operands[1]
        is_tensor = isinstance(second, TriValue) and not second.weak and second.type.rank == 0
        return is_tensor and second.type.dtype.is_float and not second.type.dtype.is_half

    def rounds_quotients(self, divisor: object, dtype: DType) -> bool:
        """Return whether the library rounds a quotient to `dtype`, a half, before it makes it whole.

        torch does, unless the divisor is a number or has one element.
        """
        is_number = not isinstance(divisor, TriValue) or divisor.weak or set(divisor.type.shape) <= {1}
        return self.semantics == "torch" and dtype.is_half and not is_number

    def _wrapped(self, x: Any, dtype: DType) -> TriValue:
        return (
            self.tensor(x, dtype) if isinstance(x, TriValue) else self.tri.constant(self.known_number(x, dtype), dtype)
        )

    def _check_integers(self, name: str, operands: list[TriValue], divisor: Any) -> None:
        """Raise where the library does: torch for integer division by zero, NumPy for negative integer powers."""
        dtype = operands[1].type.dtype
        if not isinstance(divisor, TriValue) or dtype.is_inexact:
            return
        zero = self.tri.constant(0, dtype)
        if name == "power":
            if self.semantics == "numpy" and not dtype.is_unsigned:
                message = "integers to negative integer powers are not allowed"
                self.check(self.tri.less(operands[1], zero), KernelValueError, message)
        elif self.semantics == "torch":
            self.check(self.tri.equal(operands[1], zero), KernelDivisionError, "integer division by zero")

    def check(self, condition: TriValue, error: type[Exception], message: str, is_raise: bool = False) -> None:
        """After the call, raise `error` at this location if any element of the bool tensor is true.

        With `is_raise` a `raise` of the kernel asks for it: no `while` loop begins after it.
        """
        if self.is_muted:
            self.muted_checks += 1
            return
        wrong = condition
        if condition.type.rank:
            wrong = self.tri.any(condition, axes=tuple(range(condition.type.rank)), keepdims=False)
        for guard in self.guards:
            wrong = self.tri.logical_and(guard, wrong)
        if self.stops:
            mark_check(wrong.value, message)
        if not self.memory.journals:
            self.pending_checks.append((wrong, error, message, self.tri.location))
            self.raises += [wrong] * is_raise
            return
        status = self._status(error, message)
        self.memory.put(status, self.tri.logical_or(status.value, wrong))
        self.raises += [status] * (is_raise and status not in self.raises)

    def require_inside(self, indices: KernelValue, size: KernelValue, wraps: bool = True) -> None:
        """Raise `IndexError` after the call if an index of an axis is outside; `wraps` says that -1 is the last one."""
        check_indices(self, self.tensor(indices, DTYPES["int64"]), size, wraps)

    def is_own_device(self, value: object) -> bool:
        """Return whether a value names the device that the next operation runs on."""
        return self.tri.placement is not None and self.tri.placement.is_current(value)

    @contextmanager
    def guarded(self, condition: TriValue) -> Iterator[None]:
        """Let the checks of what is emitted inside fail only where the condition is true."""
        self.guards.append(condition)
        try:
            yield
        finally:
            self.guards.pop()

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Leave out the checks of what is emitted inside."""
        before, self.is_muted = self.is_muted, True
        try:
            yield
        finally:
            self.is_muted = before

    def failure(self, statuses: Iterable[TriValue | Storage]) -> TriValue | None:
        """Return whether one of these checks has failed so far; None without checks."""
        values = [status.value if isinstance(status, Storage) else status for status in statuses]
        return reduce(self.tri.logical_or, values) if values else None

    def _status(self, error: type[Exception], message: str) -> Storage:
        """Return the memory of a check's flag inside loops and branches, which carry it like any other memory."""
        for status, *recorded in self.pending_checks:
            if isinstance(status, Storage) and recorded == [error, message, self.tri.location]:
                return status
        with ir.InsertionPoint.at_block_begin(self.entry):
            status = Storage(self.tri.constant(False, DTYPES["bool"]), serial=0)
        self.pending_checks.append((status, error, message, self.tri.location))
        return status

    def element(self, x: TriValue, position: int) -> TriValue:
        """Return one element of a rank-1 tensor as a rank-0 tensor."""
        part = self.tri.slice(x, offsets=(position,), sizes=(1,), strides=(1,))
        return self.tri.reshape(part, shape=())

    def _compare_signs(self, name: str, operands, plan) -> TriValue:
        """Compare uint64 with int64 by value, as NumPy does: a negative number is less than every unsigned one."""
        x, y = (self.tensor(operand, dtype) for operand, dtype in zip(operands, plan.compute, strict=True))
        signed, other_is_right = (x, True) if x.type.dtype.kind == "i" else (y, False)
        negative = self.tri.less(signed, self.tri.constant(0, signed.type.dtype))
        unsigned = DTYPES["uint64"]
        compared = self.tri.emit(name, self.tri.cast(x, unsigned), self.tri.cast(y, unsigned))
        is_less = name in ("less", "less_equal") if other_is_right else name in ("greater", "greater_equal")
        if is_less or name == "not_equal":
            return self.tri.logical_or(negative, compared)
        return self.tri.logical_and(self.tri.logical_not(negative), compared)


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _infinite_beyond_64_bits(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace a Python int that no 64-bit integer reaches by infinity, which compares alike with all of those."""
    if not any(isinstance(x, TriValue) and x.type.dtype.is_integer for x in operands):
        return operands
    is_beyond = [type(x) is int and not -(1 << 63) <= x < 1 << 64 for x in operands]
    pairs = zip(operands, is_beyond, strict=True)
    return tuple((inf if x > 0 else -inf) if beyond else x for x, beyond in pairs)


def _strong_where_wider(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make int64 tensors of run-time Python ints that the other operand's dtype may not hold: NumPy compares values."""
    strong = [x.type.dtype for x in operands if isinstance(x, TriValue) and not x.weak and x.type.dtype.is_integer]
    if len(strong) != 1 or strong[0].name == "int64":
        return operands
    return tuple(replace(x, weak=False) if _may_exceed(x, strong[0]) else x for x in operands)


def _may_exceed(x: Any, dtype: DType) -> bool:
    """Return whether a run-time Python int may be one that a dtype does not hold."""
    if not isinstance(x, TriValue) or not x.weak or not x.type.dtype.is_integer:
        return False
    bounds = (None, None) if x.linear is None else (x.linear.least(), x.linear.most())
    return not all(bound is not None and dtype.holds(bound) for bound in bounds)


def kind_of(x: TriValue) -> str:
    """Return the kind of Python number that an element of a tensor is: `bool`, `int`, `float` or `complex`."""
    return x.type.dtype.python.__name__


def _literal(x: bool | int | float | complex, dtype: DType | None) -> bool | int | float | complex:
    """Return a Python number as the library converts it to a dtype: torch and C truncate towards zero."""
    if dtype is None or dtype.is_complex or not isinstance(x, (float, complex)):
        return x
    if dtype.is_bool:
        return x != 0
    if isinstance(x, complex):
        raise KernelTypeError(f"the complex number {x} does not fit {dtype}", help="write its real part")
    if dtype.is_float:
        return x
    if x != x or abs(x) == float("inf"):
        raise KernelValueError(f"{x} is not an {dtype}")
    return int(x)


def describe(x: KernelValue) -> str:
    """Return a value as error messages print it: type and value of Python objects, type of tensors."""
    if isinstance(x, TriValue):
        return f"a tensor {x.type}"
    if isinstance(x, DType):
        return f"the dtype {x}"
    if (described := getattr(x, "described", None)) is not None:
        return described
    if isinstance(x, dict):
        shown = [f"{key!r}: {describe(value)}" for key, value in x.items()]
        return f"a dict of {_listed(shown)}"
    if isinstance(x, (tuple, list)):
        return f"a {'list' if isinstance(x, list) else type(x).__name__} of {_listed(list(map(describe, x)))}"
    if x is None:
        return "None"
    name = getattr(x, "__name__", None)
    if name is None:
        return f"{type(x).__name__} {x!r}"
    return f"the {'module' if isinstance(x, ModuleType) else 'class' if isinstance(x, type) else 'function'} {name}"


def _listed(shown: list[str]) -> str:
    return ", ".join([*shown[:4], *["…"] * (len(shown) > 4)]) or "nothing"


def dtype_or_none(dtype: object) -> DType | None:
    return None if dtype is None else as_dtype(dtype)
