"""The command `mlirtri lsp`."""

from __future__ import annotations

import click

from mlirtri.errors import KernelTypeError


@click.command()
def lsp() -> None:
    """Check kernels in an editor: a server of the Language Server Protocol on stdin and stdout.

    Diagnostics while typing, the type of every expression, and the IR of each stage. Runs the imports, definitions and
    assignments of the files that are open. Needs the extra `mlirtri[lsp]`.
    """
    try:
        from mlirtri.lsp.server import new_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise KernelTypeError("mlirtri lsp needs pygls", help="pip install 'mlirtri[lsp]'") from None
    new_server().start_io()
