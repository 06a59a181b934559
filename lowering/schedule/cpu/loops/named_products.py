"""Names for products of sizes in indices, so that the strides of the loops inside are known.

    for i:                                           for i:
        total = 0                                        start = i * chunk
        for j:                                 ──►       total = 0
            total += a[i * chunk + j]                    for j:
                                                             total += a[start + j]

A chunk whose length is known at run time only is read as one of a constant length.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.schedule.imperative.interchange import with_parts
from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.tir.statements import depends_on, nodes_in, sequence, with_body
from mlirtri.lowering.toolchain.tvm_names import Node, Stmt, structural_equal, structural_map, tirx


def with_named_products(statement: Stmt) -> Stmt:
    """Return the statement with a name for each product of sizes that loops inside of a loop use."""
    if not isinstance(statement, tirx.For):
        return with_parts(statement, with_named_products)
    body = with_named_products(statement.body)
    # A loop that only contains another one stays one nest with it.
    return with_body(statement, _named(body) if isinstance(body, tirx.SeqStmt) else body)


def _named(body: Stmt) -> Any:
    """Return the body of a loop, which begins with names of products that the loops in it do not change."""
    loops = nodes_in(body, tirx.For)
    changed = [loop.loop_var for loop in loops] + [node.var for node in nodes_in(body, tirx.Bind, tirx.Let)]
    names: list[Any] = []
    for loop in loops:
        for node in nodes_in(loop.body, tirx.Mul):
            known = any(structural_equal(name.value, node) for name in names)
            if not known and _is_of_sizes(node) and not depends_on(node, changed):
                names.append(tirx.Bind(tirx.Var("start", "int64"), node))
    if not names:
        return body

    def named(node: Node) -> Any:
        return next((name.var for name in names if structural_equal(name.value, node)), node)

    return sequence(*names, *structural_map(body, (tirx.Mul, named), order="post").seq)


def _is_of_sizes(node: Node) -> bool:
    is_known = isinstance(node.a, tirx.IntImm) or isinstance(node.b, tirx.IntImm)
    return not is_known and str(node.ty) == "int64" and not reads_memory(node)
