"""`@jit`: compile a Python function for the arguments that it is called with.

A call finds its kernel by the arguments' shapes, dtypes and constants; a miss lowers the function to stage `tri`, whose
text, with pipeline, target, schedule and versions, is the content key of the process-wide cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from mlirtri import settings
from mlirtri.compiler.compile_lock import COLLECTIONS
from mlirtri.compiler.records import COMPILING
from mlirtri.errors import KernelError, SourceNotAvailableError
from mlirtri.kernels.cached import Request, compile_cached
from mlirtri.kernels.configuration import arguments_of, options_in
from mlirtri.kernels.kernel import Compiled, Kernel
from mlirtri.kernels.lookup import UNKNOWN, Entry, Lookup, tick
from mlirtri.kernels.options import Options, language_options, resolved
from mlirtri.kernels.recompiles import History, Recompiles, facts_of
from mlirtri.language.arguments import is_dlpack
from mlirtri.language.containers import leaves, mapped, run_time_paths
from mlirtri.language.names import Tensor
from mlirtri.language.signature import Signature, key_of, stand_in
from mlirtri.lowering.core.tracebacks import hide_frames, public
from mlirtri.lowering.pipelines import INTERPRETER, Pipeline

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mlirtri.kernels.parallel import Job

_kernels: WeakValueDictionary[Any, Kernel] = WeakValueDictionary()
"""Of all functions, by content: functions of the same text share kernels as long as one of them keeps them."""


class _Unset:
    """An option that is not given, which `help` shows as None."""

    def __repr__(self) -> str:
        return "None"


_UNSET = _Unset()


class JitFunction:
    """A function decorated by `@jit`: call it, or `compile` it for given arguments."""

    def __init__(self, function: Callable[..., Any], options: Options):
        if not hasattr(function, "__code__"):
            raise SourceNotAvailableError(
                f"jit takes a Python function, not {function!r}",
                help="put @staticmethod above @mlirtri.jit"
                if isinstance(function, staticmethod)
                else "decorate a function written with def",
            )
        functools.update_wrapper(self, function)
        self.__mlirtri_function__ = function
        self.options = options
        self.compiles = 0
        """How many times this function was compiled (a kernel found in the content cache counts as none)."""
        self._signature: Signature | None = None
        self._entries: dict[Any, Entry] = {}
        self._lookup = Lookup()
        """Calls once more whose arguments have been seen."""
        self._history = History(function.__qualname__)
        self._held: dict[int, Kernel] = {}
        """What `compile` gave, the latest last."""

    def __get__(self, instance: Any, owner: type | None = None) -> JitFunction:
        """Refuse to be a method: `self` is not a tensor."""
        if instance is not None:
            raise SourceNotAvailableError(
                f"{self.__name__!r} is a method, and a kernel is a function of tensors alone",
                self.signature.span, help=f"call it on the class: {self.__qualname__}(…)",
            )  # fmt: skip
        return self

    def __reduce__(self) -> str:
        """Pickle as functions do: by module and name."""
        return self.__qualname__

    @property
    def signature(self) -> Signature:
        if self._signature is None:
            self._signature = Signature(self.__mlirtri_function__)
        return self._signature

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        """Run, compiling on the first call with such arguments. ``out=`` takes a tensor to write into, or a tuple."""
        try:
            if keywords:
                result = self._lookup.run_named(arguments, keywords)
            else:
                finder = self._lookup.finders.get(tuple(map(type, arguments)))
                result = UNKNOWN if finder is None else finder[0](*arguments)
            return self._found_and_run(arguments, keywords) if result is UNKNOWN else result
        except KernelError as error:
            hide_frames(error)
            raise

    def _found_and_run(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        given, named = arguments, dict(keywords)
        out = named.pop("out", None) if keywords and "out" not in self.signature.parameters else None
        if named or len(arguments) != self.signature.positional:
            arguments = tuple(self.signature.bind(arguments, named).values())
        if (graph := _graph_of(arguments)) is not None:
            return graph.dispatch(self, dict(zip(self.signature.parameters, arguments, strict=True)), out)
        known = _without_dlpack(arguments)
        key = self._key(known)
        entry = self._entries.get(key)
        if entry is None or not entry.is_current():
            with COLLECTIONS:  # over the first call, which writes its own code, too
                entry = self._compile_entry(key, known)
                result = entry.call(arguments, out)
        else:
            result = entry.call(arguments, out)
        if known is arguments:
            self._lookup.remember(self.signature, given, keywords, entry)
        return result

    def _compile_entry(self, key: Any, arguments: tuple[Any, ...]) -> Entry:
        with COMPILING:
            # Another thread may have set it.
            if (entry := self._entries.get(key)) is not None and entry.is_current():
                return entry
            named = dict(zip(self.signature.parameters, arguments, strict=True))
            entry = self._compiled(named, self.usual_options())
            self._add(key, entry)
            return entry

    def _key(self, arguments: tuple[Any, ...]) -> Any:
        makers = self.signature.key_makers
        if makers is None:
            return tuple([key_of(argument) for argument in arguments])
        return tuple([make(argument) for make, argument in zip(makers, arguments, strict=True)])

    def _add(self, key: Any, entry: Entry) -> None:
        entry.used = tick()
        self._entries = {**self._entries, key: entry}
        self._drop_unused(settings.get("MLIRTRI_MAX_KERNELS"))

    def _drop_unused(self, limit: int) -> None:
        """Drop the entries that were not used for longest, with their kernels, until there are `limit` of them."""
        if len(self._entries) <= limit:
            return
        self._history.warn(limit)
        in_order = sorted(self._entries.items(), key=lambda item: item[1].used)
        self._entries = dict(in_order[-limit:])
        kept = {id(entry.kernel) for entry in self._entries.values()}
        dropped = {id(entry.kernel) for _, entry in in_order[:-limit]} - kept
        for content in [content for content, kernel in _kernels.items() if id(kernel) in dropped]:
            del _kernels[content]
        self._held = {identity: kernel for identity, kernel in self._held.items() if identity not in dropped}
        self._lookup.forget()

    def explain(self) -> Recompiles:
        """Return why each kernel of this function was compiled: what changed, and which annotation would avoid it."""
        return Recompiles(self._history.function, self._history.explanations)

    def usual_options(self) -> Options:
        """Return the decorator's options; with ``MLIRTRI_INTERPRET`` set, the pipeline is the interpreter."""
        interpreted = Options(pipeline=INTERPRETER if settings.get("MLIRTRI_INTERPRET") else None)
        return interpreted.over(self.options)

    def compile(
        self,
        *arguments: object,
        target: Any = _UNSET,
        pipeline: Any = _UNSET,
        schedule: Any = _UNSET,
        **keywords: object,
    ) -> Kernel:
        """Return the kernel for these arguments: real ones, or abstract `Tensor`s that need no memory.

        Parameters annotated with a full `Tensor` may be left out. A `pipeline` given here is used even while
        MLIRTRI_INTERPRET is on. Raises the `KernelError` of the first lowering that refuses. Keyword arguments are the
        function's own, compile-time constants among them: of a function with a parameter called `target`, `pipeline`
        or `schedule` that name is the parameter's, and `jit` takes the option.
        """
        options = {"target": target, "pipeline": pipeline, "schedule": schedule}
        keywords |= {name: value for name, value in options.items() if value is not _UNSET}
        try:
            return self.compile_with(arguments, *options_in(keywords, self.signature.parameters))
        except KernelError as error:
            hide_frames(error)
            raise

    def compile_with(self, arguments: tuple[object, ...], keywords: Mapping[str, object], options: Options) -> Kernel:
        """Do what `compile` does, with options that are apart from the function's keyword arguments."""
        named = self.signature.bind(arguments, dict(keywords), abstract=True)
        named = dict(zip(named, _without_dlpack(tuple(named.values())), strict=True))
        with COMPILING:
            return self._held_kernel(self._compiled(named, options.over(self.usual_options())).kernel)

    def _held_kernel(self, kernel: Kernel) -> Kernel:
        """Keep a kernel that `compile` gave, so that a call finds it when the caller has dropped it."""
        self._held.pop(id(kernel), None)
        self._held[id(kernel)] = kernel
        while len(self._held) > settings.get("MLIRTRI_MAX_KERNELS"):
            del self._held[next(iter(self._held))]
        return kernel

    def get_tir(self, *arguments: object, **keywords: object) -> str:
        """Return the scheduled TIR of the kernel that `compile` gives for these arguments."""
        return self.compile(*arguments, **keywords).get_tir()

    def get_source(self, *arguments: object, **keywords: object) -> str:
        """Return the generated code of the kernel that `compile` gives for these arguments: CUDA, or LLVM IR."""
        return self.compile(*arguments, **keywords).get_source()

    def _compiled(self, named: dict[str, Any], options: Options) -> Entry:
        request = self._request(named, options)
        return self._entry(request, compile_cached(request, _kernels))

    def _request(self, named: dict[str, Any], options: Options) -> Request:
        specialization = self.signature.specialize(named, options.semantics)
        return Request(self.__mlirtri_function__, self.signature.annotations, specialization, options)

    def _entry(self, request: Request, compiled: Compiled) -> Entry:
        self.compiles += compiled.is_new
        facts = facts_of(self.signature, request.specialization, compiled.kernel, compiled.captures)
        if (explanation := self._history.add(facts, compiled.is_new)) is not None:
            compiled.kernel.explanation = explanation
        compiled.kernel.annotatable = self.signature.parameters
        return Entry(compiled.kernel, run_time_paths(request.specialization.parameters), compiled.captures)

    @public
    def par_compile(
        self,
        configs: Iterable[object],
        *,
        executor: Executor | None = None,
        workers: int | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> list[Kernel | KernelError]:
        """Return a kernel for each configuration, in order, compiled by several processes at the same time.

        A configuration is what `compile` takes: a dictionary of keyword arguments and options, a `Config`, or a tuple
        of positional arguments, the last of which may be one of the two. Where a kernel cannot be compiled, its
        `KernelError` is in its place: a `CompileTimeoutError` after `timeout` seconds of compiling.
        There are `workers` processes, by default one for each CPU; or an `executor` of `concurrent.futures`, or of a
        cluster, runs the compilations. `progress` shows two bars on stderr, by default where that is a terminal.
        Raises `KernelTypeError` for what is no configuration, `KernelValueError` for workers and times that are none.
        """
        from mlirtri.kernels.parallel import Means, compile_all  # loads MLIR

        means, parameters = Means(executor, workers, timeout, progress), self.signature.parameters
        return compile_all([self.job(*arguments_of(config, parameters)) for config in configs], means)

    def job(self, arguments: tuple[object, ...], keywords: dict[str, Any], options: Options) -> Job | KernelError:
        """Return what `compile_all` compiles for these arguments, or the error that they are."""
        from mlirtri.kernels.parallel import Job  # as above

        try:
            named = self.signature.bind(arguments, keywords, abstract=True)
            request = self._request(named, options.over(self.usual_options()))
        except KernelError as error:
            return error
        return Job(request, _kernels, lambda compiled: self._enter(named, request, compiled))

    def _enter(self, named: dict[str, Any], request: Request, compiled: Compiled) -> None:
        """Let calls with such arguments find the kernel, if they are to have one compiled with these options."""
        with COMPILING:
            entry = self._entry(request, compiled)
            if request.options != self.usual_options() or self.signature.has_strides:
                return
            arguments = tuple(stand_in(value, request.specialization.semantics) for value in named.values())
            if not any(isinstance(argument, Tensor) for argument in arguments):
                self._add(self._key(arguments), entry)

    def __repr__(self) -> str:
        return f"<mlirtri.jit function {self.__name__}>"


def _without_dlpack(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with torch tensors in place of those of other libraries; themselves if there are none."""
    if not any(map(is_dlpack, leaves(arguments))):
        return arguments
    from mlirtri.calls.arrays import of_dlpack  # loads torch

    return tuple([mapped(argument, of_dlpack) for argument in arguments])


def _graph_of(arguments: tuple[Any, ...]) -> Any:
    """Return the graph that records a call with these arguments; None for a call that runs."""
    return next((a.__mlirtri_graph__ for a in leaves(arguments) if hasattr(type(a), "__mlirtri_value__")), None)


@public
def jit(
    function: Callable[..., object] | None = None,
    *,
    target: str | None = None,
    pipeline: str | Pipeline | None = None,
    schedule: str | None = None,
    print_ir: bool | tuple[str, ...] | None = None,
    semantics: str | None = None,
    unroll: int | None = None,
    inline_depth: int | None = None,
    debug: bool | None = None,
) -> Any:
    """Make a kernel of a plain Python function over tensors. The function is read, never run.

    `target` is ``"cpu"`` (default), ``"gpu"``, ``"cuda"``, ``"cuda:sm_90"`` or ``"cuda:emulated"``; `pipeline` is
    ``"linalg"`` (default), ``"relax"``, ``"mlir"``, ``"poly"``, ``"upstream"`` or a `Pipeline`; `schedule` is
    ``"default"``, ``"none"``, or ``"meta"``, which measures schedules for up to a minute and remembers the best
    (``"meta:trials=200,seconds=30"``). `print_ir` prints to stderr the IR after each pass of all stages (True) or of
    those named. `semantics` is ``"numpy"`` or ``"torch"``, whose dtype rules and defaults hold; by default NumPy's
    where all tensors of a call are NumPy arrays, else torch's.
    Loops of up to `unroll` iterations (4) are unrolled, and calls inlined `inline_depth` (500) deep: recursion ends on
    values known at compile time. With `debug` `assert` and `device_print` take effect,
    and kernels on CUDA check indices, as those on CPUs always do.
    """
    options = Options(target, pipeline, schedule, print_ir, semantics, unroll, inline_depth, debug)
    resolved(options)
    language_options(options)
    if function is None:
        return lambda decorated: JitFunction(decorated, options)
    return JitFunction(function, options)
