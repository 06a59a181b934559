"""``torch.compile(model, backend="mlirtri")``, which torch finds by the entry point group ``torch_dynamo_backends``.

AOTAutograd functionalises Dynamo's graphs and derives a second graph for gradients; both become kernels. One of dynamic
sizes is a kernel for all of them, or one per set of sizes. What cannot be compiled raises: nothing falls back to eager
mode silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from mlirtri.errors import UnknownOptionError, UnsupportedOperationError, did_you_mean
from mlirtri.lowering.importers.from_torch.decompositions.networks.layers import attention_unless_autocast
from mlirtri.lowering.importers.from_torch.decompositions.reductions import multilabel_margin
from mlirtri.lowering.importers.from_torch.decompositions.table import decompositions
from mlirtri.programs.torch_programs.compile_report import RECORDER
from mlirtri.programs.torch_programs.partitions import compiled_in_parts

OPTIONS = ("target", "pipeline", "schedule")


def _multilabel_margin_loss(
    input: torch.Tensor, target: torch.Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> torch.Tensor:
    if size_average is not None or reduce is not None:
        reduction = F._Reduction.legacy_get_string(size_average, reduce)
    return multilabel_margin(input, target, F._Reduction.get_enum(reduction))


REPLACED_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    F.scaled_dot_product_attention: attention_unless_autocast,
    F.multilabel_margin_loss: _multilabel_margin_loss,
}
"""Functions that torch decomposes for gradients before looking at decomposition tables, by what replaces them."""


def backend(
    graph: torch.fx.GraphModule,
    inputs: Sequence[object],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Any:
    """Compile a graph of Dynamo's; `options` are `target`, `pipeline` and `schedule`, as `Program.compile` takes them.

    Raises `KernelError`, which Dynamo shows as the cause of its own error.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.exc import exceptions_allowed_to_be_fallback

    if mode is not None:
        raise UnknownOptionError("the backend mlirtri has no modes", help=f"it has options={{}}: {', '.join(OPTIONS)}")
    chosen = _checked(options or {})
    RECORDER.watch()  # again: `torch._dynamo.reset` forgets it
    _replace_functions(graph)
    forward = partial(compiled, name="forward", options=chosen)
    backward = partial(compiled, name="backward", options=chosen)
    through_aot = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, inference_compiler=forward, decompositions=decompositions()
    )
    tracing = torch._guards.TracingContext.try_get()
    if tracing is not None and tracing.fake_mode is not None:
        # Loops over the rows of a mixture of experts read single elements. Dynamo has broken the graph at the user's.
        tracing.fake_mode.allow_scalar_outputs = True
    try:
        return through_aot(graph, inputs)
    except exceptions_allowed_to_be_fallback as error:
        # Dynamo would run the graph's operators eagerly, with a line in torch's log only.
        raise UnsupportedOperationError(f"the backend mlirtri cannot compile {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def compiled(
    graph: torch.fx.GraphModule, inputs: Sequence[object], *, name: str, options: Mapping[str, object]
) -> Callable[[list[Any]], list[Any]]:
    """Return what AOTAutograd calls in place of a functional graph of ATen operators."""
    from functorch.compile import make_boxed_func

    function = RECORDER.compiled(name, graph, lambda: compiled_in_parts(graph, name, options))
    return make_boxed_func(function)


# torch loads this file when `torch.compile` is called with the backend's name, before it traces anything.
RECORDER.watch()


def _replace_functions(graph: torch.fx.GraphModule) -> None:
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.target = REPLACED_FUNCTIONS.get(node.target, node.target)
    graph.recompile()


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in OPTIONS:
            raise UnknownOptionError(
                f"unknown option {name!r}", help=f"{did_you_mean(name, OPTIONS)}the options are {', '.join(OPTIONS)}"
            )
    return dict(options)
