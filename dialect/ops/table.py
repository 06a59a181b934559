"""The op table: one `Op` per function of the language, in the order of the files that define them."""

from __future__ import annotations

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.ops import arrays, contractions, elementwise, indexing, normalizations, reductions, shapes, windows
from mlirtri.dialect.ops.op import Op

TABLE: Registry[str, Op] = Registry("op")
for _rows in (
    elementwise, reductions, shapes, contractions, normalizations, indexing, arrays, windows,
):  # fmt: skip
    for _op in _rows.rows():
        TABLE.add(_op.name, _op)


def dialect_ops() -> list[Op]:
    """Return the ops that are operations of the `tri` dialect, in the order of the table."""
    return [op for op in TABLE.values() if not op.derived]
