"""Device regions of a kernel: ``with mt.device("gpu"):``.

What stands in a region runs on its device; values from elsewhere are copied there, and results come home.
Refuses other context managers, and ``as``.
"""

from __future__ import annotations

import ast
from typing import Any

from mlirtri.errors import UnsupportedSyntaxError
from mlirtri.lowering.external.devices import Device
from mlirtri.lowering.frontend.language.builder import describe
from mlirtri.lowering.frontend.python_to_ast import span_of_node


class DeviceRegions:
    """The method of `with` statements."""

    def visit_With(self, node: ast.With) -> Any:
        first, *others = node.items
        if others or first.optional_vars is not None:
            span = span_of_node(self.file, (others[0].context_expr if others else first.optional_vars))
            raise UnsupportedSyntaxError("a device region names one device and no variable", span, help="nest regions")
        device = self.visit(first.context_expr)
        if not isinstance(device, Device):
            raise UnsupportedSyntaxError(
                f"a kernel cannot enter {describe(device)}",
                help='leave context managers outside of the kernel; regions are `with mlirtri.device("gpu"):`',
            )
        with self.b.tri.placement.on(device):
            return self.block(node.body)
