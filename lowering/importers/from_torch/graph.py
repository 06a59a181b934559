"""A torch.fx graph as the importer takes it: tensors in, tensors out, no state.

Placeholders are the run-time arguments in order, then the bound tensors. The output is a flat tuple of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TorchGraph:
    """What the room `graph_to_torch` takes."""

    module: Any
    """The `torch.fx.GraphModule`, of ATen operators."""
    bound: Mapping[str, str]
    """Placeholders that stand for tensors of the program's own, with the names that those have there."""

    @property
    def arguments(self) -> list[Any]:
        """The nodes of the run-time arguments, in order."""
        return [node for node in self.module.graph.nodes if node.op == "placeholder" and node.name not in self.bound]

    @property
    def results(self) -> list[Any]:
        """The nodes of the results, in order."""
        [output] = [node for node in self.module.graph.nodes if node.op == "output"]
        return list(output.args[0])
