"""`mlirtri cache`: look at the disk cache, check it, and free its space."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlirtri.cli.terminal import show, table
from mlirtri.errors import UnknownOptionError

if TYPE_CHECKING:
    from mlirtri.cache.store import Entry, Store


@click.group()
def cache() -> None:
    """Compiled kernels on disk: list them, explain one, check all, make room."""


def _store() -> Store:
    from mlirtri.cache.store import Store

    if (store := Store.of_settings()) is None:
        raise UnknownOptionError("the disk cache is off", help="unset MLIRTRI_CACHE, or set it to 1")
    return store


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def ls(as_json: bool) -> None:
    """List the kernels, the most recently used first: entry, kernel, pipeline, arguments, bytes, last use."""
    store = _store()
    rows = [_row(folder) for folder in store.all_folders()]
    rows.sort(key=lambda row: -row["used"])
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    shown = table("entry", "kernel", "pipeline", "arguments", "bytes", "used")
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["used"]))
        shown.add_row(row["entry"], row["kernel"], row["pipeline"], row["arguments"], f"{row['bytes']:,}", used)
    show(shown)
    total = sum(row["bytes"] for row in rows)
    print(f"{len(rows)} kernels, {total:,} of {store.limit:,} bytes in {store.root}")


def _row(folder: Path) -> dict[str, Any]:
    from mlirtri.cache.store import DamagedError, last_use, read, size_of

    row = {"entry": f"{folder.parent.name[:12]}/{folder.name[:8]}", "bytes": size_of(folder), "used": last_use(folder)}
    try:
        manifest = read(folder).manifest
        arguments = ", ".join(_parameter(parameter) for parameter in manifest["interface"]["parameters"])
        return {**row, "kernel": manifest["kernel"], "pipeline": manifest["pipeline"], "arguments": arguments}
    except (DamagedError, OSError, KeyError, TypeError) as problem:
        return {**row, "kernel": "", "pipeline": "", "arguments": str(problem)}


def _parameter(parameter: dict[str, Any]) -> str:
    dtype, *sizes = parameter["type"]
    return f"{parameter['name']}: {dtype}[{', '.join('?' if size is None else str(size) for size in sizes)}]"


@cache.command()
@click.argument("key", metavar="KEY|KERNEL")
def explain(key: str) -> None:
    """Print what an entry was compiled from, or why a kernel of that name is not kept."""
    from mlirtri.cache.store import find_entries

    store = _store()
    reasons = {name: reason for name, reason in store.refused().items() if key in (name, name.rpartition(".")[2])}
    for name, reason in reasons.items():
        print(f"{name} is not kept: {reason}")
    try:
        entries = find_entries(store, key)
    except UnknownOptionError:
        if reasons:
            return
        raise
    for entry in entries:
        _explain(entry)


def _explain(entry: Entry) -> None:
    from mlirtri.cache.captures import shown as shown_path
    from mlirtri.cache.digests import readable

    manifest, facts = entry.manifest, entry.manifest["facts"]
    print(f"entry {entry.name}: {manifest['kernel']}, pipeline {manifest['pipeline']}")
    print(f"  folder: {entry.folder}")
    for name, value in facts.items():
        lines = value.splitlines() if name == "source" else [_short(_shown_fact(name, value, manifest))]
        print(f"  {name}: {lines[0]}" if len(lines) == 1 else f"  {name}:")
        for line in lines if len(lines) > 1 else ():
            print(f"    | {line}")
    for path, value in manifest["captures"]:
        print(f"  reads {shown_path(path)}: {_short(readable(value))}")


def _shown_fact(name: str, value: Any, manifest: Mapping[str, Any]) -> str:
    from mlirtri.cache.digests import readable

    if name == "arguments" and manifest.get("interface"):
        constants = [f"{parameter[0]} = {readable(parameter[2])}" for parameter in value if parameter[1] == "constant"]
        return ", ".join([*map(_parameter, manifest["interface"]["parameters"]), *constants])
    if name == "stages":
        return " → ".join(stage[0] for stage in value)
    return value if isinstance(value, str) else readable(value)


def _short(text: str, longest: int = 400) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


@cache.command()
def verify() -> int:
    """Read every entry and compare its files with their digests; damaged ones are moved aside. Status 1 if any were."""
    from mlirtri.cache.store import DamagedError, read

    store, damaged = _store(), 0
    folders = store.all_folders()
    for folder in folders:
        try:
            read(folder)
        except DamagedError as problem:
            damaged += 1
            done = "moved aside" if store.set_aside(folder) else f"cannot be moved: {store.root} cannot be written"
            print(f"{folder.parent.name[:12]}/{folder.name[:8]}: {problem}; {done}")
    print(f"{len(folders) - damaged} of {len(folders)} entries are as they were written")
    return int(damaged > 0)


@cache.command()
@click.option("--bytes", "limit", type=click.IntRange(0), help="By default MLIRTRI_CACHE_BYTES.")
def prune(limit: int | None) -> None:
    """Remove the least recently used entries until the others fit, and what damaged or ended processes left."""
    store = _store()
    removed = store.prune(store.limit if limit is None else limit)
    print(f"{len(removed)} entries removed, {len(store.all_folders())} kept")


@cache.command()
@click.argument("keys", metavar="KEY|KERNEL…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All entries.")
def rm(keys: tuple[str, ...], everything: bool) -> None:
    """Remove entries, by the beginning of their names or by their kernel's name."""
    from mlirtri.cache.store import find_entries

    store = _store()
    if everything == bool(keys):
        raise click.UsageError("say which entries, or --all")
    folders = store.all_folders() if everything else [e.folder for key in keys for e in find_entries(store, key)]
    removed = [folder for folder in folders if store.remove(folder)]
    print(f"{len(removed)} entries removed")
    if len(removed) < len(folders):
        raise click.ClickException(f"{len(folders) - len(removed)} remain: {store.root} cannot be written")
