"""Write a kernel's stages as files in a folder, and read those that a user has edited since.

    DUMP_DIR/add-1f2e3d4c/03_fused.mlir        the complete text of a stage
    DUMP_DIR/add-1f2e3d4c/03_fused/002_cse.mlir     the text after one of its passes, for reading
    DUMP_DIR/add-1f2e3d4c/params.npz           the tensors that an imported program is bound to, in the manifest's order
    DUMP_DIR/add-1f2e3d4c/manifest.json        versions, times, interface, a digest of each stage's file

Tensors are bit-exact: dtypes that NumPy's format lacks are stored as integers. Texts depend on neither machine nor
date, so that two dumps of one kernel can be compared; such facts are in the manifest.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirtri.compiler.printing import RESUMABLE, SUFFIXES
from mlirtri.compiler.versions import versions
from mlirtri.errors import DumpError, ParseError, Span, nearest, offer
from mlirtri.lowering.core.interface import TensorParameter
from mlirtri.lowering.core.stage import PassRecord, Stage
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.lowering.runtime.stored_tensors import storable

if TYPE_CHECKING:
    from mlirtri.compiler.records import Compilation, StageRecord

MANIFEST = "manifest.json"
PARAMS = "params.npz"
EDITABLE = (*RESUMABLE, "cuda")
"""Kinds of text that an edited file may have."""


def write_dump(root: Path, name: str, pipeline: Pipeline, compilation: Compilation, facts: dict[str, Any]) -> Path:
    """Write `root`/`name` atomically, replacing an existing dump; raises `DumpError`."""
    temporary = root / f".{name}-{os.getpid()}-{threading.get_ident()}"
    try:
        temporary.mkdir(parents=True)
        _write(temporary, pipeline, compilation, facts)
        return _put_in_place(temporary, root / name)
    except OSError as problem:
        raise DumpError(f"the IR could not be written to {root}: {problem}", help="set MLIRTRI_DUMP_DIR anew") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, final: Path) -> Path:
    for _ in range(10):
        shutil.rmtree(final, ignore_errors=True)
        try:
            return temporary.rename(final)
        except OSError:
            # Another process has written its dump of the same kernel.
            continue
    return temporary.rename(final)


def file_name(pipeline: Pipeline, stage: Stage) -> str:
    """Return the file name of a stage, numbered in the order of the pipeline."""
    return f"{pipeline.names.index(stage.name):02}_{stage.name}.{SUFFIXES.get(stage.kind, 'txt')}"


def _write(folder: Path, pipeline: Pipeline, compilation: Compilation, facts: dict[str, Any]) -> None:
    digests = {}
    for name, record in compilation.records.items():
        file = file_name(pipeline, record.stage)
        text = record.complete()
        (folder / file).write_text(text, encoding="utf-8")
        digests[file] = digest_of(text)
        _write_passes(folder / Path(file).stem, record, compilation.context.passes.get(name, ()))
    if compilation.context.interface is not None:
        write_params(folder, compilation.context.interface.bound, compilation.context.params)
    command = [os.path.basename(sys.argv[0]), *sys.argv[1:]] if sys.argv else []
    manifest = {**facts, "files": digests, "seconds": compilation.seconds, "versions": versions(), "command": command}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _write_passes(folder: Path, record: StageRecord, passes: Sequence[PassRecord]) -> None:
    if passes:
        folder.mkdir()
    for step, pass_ in enumerate(passes):
        safe = "".join(c if c.isalnum() or c in "-_#" else "_" for c in pass_.name)[:80]
        # The lowering from MLIR to Relax has passes on both sides.
        is_mlir = record.stage.kind == "tvmscript" and "@I.ir_module" not in pass_.text
        suffix = "mlir" if is_mlir else SUFFIXES.get(record.stage.kind, "txt")
        (folder / f"{step:03}_{safe}.{suffix}").write_text(pass_.text, encoding="utf-8")


def digest_of(text: str) -> str:
    """Return a digest that detects edited files."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a dump; None if there is none. Raises `ParseError` for a broken one."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise ParseError(f"this manifest cannot be read: {problem}", Span(str(path), 1, 1)) from None
    except json.JSONDecodeError as problem:
        raise ParseError(
            f"this manifest is not JSON: {problem.msg}", Span(str(path), problem.lineno, problem.colno)
        ) from None
    if not isinstance(manifest, dict) or "kernel" not in manifest or "interface" not in manifest:
        raise ParseError("this is not the manifest of a dump", Span(str(path), 1, 1), help="remove it")
    return manifest


def edited_file(
    root: Path, kernel: str, pipeline: Pipeline, stage: Stage, facts: dict[str, Any]
) -> tuple[Path, str] | None:
    """Return the file that replaces a stage, with its text; None without one.

    It is in `root`, or an edited file of a dump there of the same kernel, interface, pipeline and target.
    """
    names = (file_name(pipeline, stage), f"{stage.name}.{SUFFIXES[stage.kind]}")
    for folder, manifest in _folders(root, kernel, facts):
        for name in names:
            if not (path := folder / name).is_file():
                continue
            text = read_text(path)
            if manifest is None or manifest.get("files", {}).get(name) != digest_of(text):
                return path, text
    return None


def left_aside(root: Path, stages: Mapping[str, str]) -> list[str]:
    """Return a sentence for each file in a folder of edited files that looks like a stage and is never taken.

    `stages` has the kind of text of every stage. In dumps (folders with a manifest) these are edited files alone.
    """
    taken = {name: f"{name}.{SUFFIXES[kind]}" for name, kind in stages.items() if kind in EDITABLE}
    sentences = []
    for path in sorted(file for file in (*root.glob("*"), *root.glob("*/*")) if file.is_file()):
        name = path.name.lstrip("0123456789").removeprefix("_")
        stage = path.stem.lstrip("0123456789").removeprefix("_")
        manifest = read_manifest(path.parent)
        digest = (manifest or {}).get("files", {}).get(path.name)
        if name in taken.values() or (path.parent != root and digest is None):
            continue
        if digest is not None and digest == digest_of(read_text(path)):
            continue
        near = [taken[stage]] if stage in taken else [taken[each] for each in nearest(stage, taken)]
        if stage in stages and stage not in taken:
            sentences.append(f"{path} is not taken: stage {stage!r} is not made of text; edit {', '.join(taken)}")
        elif near:
            sentences.append(f"{path} is not taken: {offer(near)}".rstrip())
    return sentences


def _folders(root: Path, kernel: str, facts: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    manifest = read_manifest(root)
    if manifest is None or _is_of(manifest, facts):
        yield root, manifest
    for folder in sorted(root.glob(f"{kernel}-*")):
        if (manifest := read_manifest(folder)) is not None and _is_of(manifest, facts):
            yield folder, manifest


def _is_of(manifest: dict[str, Any], facts: dict[str, Any]) -> bool:
    return all(manifest.get(name) == value for name, value in facts.items())


def read_text(path: Path) -> str:
    """Return the text of a file; raises `ParseError` when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ParseError(f"{path} cannot be read: {problem}") from None


def write_params(folder: Path, bound: Sequence[TensorParameter], params: Mapping[str, object]) -> None:
    """Write the kernel's bound tensors; nothing if there are none, or not all are known."""
    if bound and all(parameter.name in params for parameter in bound):
        np.savez(folder / PARAMS, *(storable(params[parameter.name]) for parameter in bound))


def read_params(folder: Path, bound: Sequence[TensorParameter]) -> dict[str, Any]:
    """Return the bound tensors of the kernel dumped in `folder`; none without a file. Raises `ParseError`."""
    path = folder / PARAMS
    if not bound or not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[f"arr_{index}"] for index in range(len(bound))]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise ParseError(f"these parameters cannot be read: {problem}", Span(str(path), 1, 1)) from None
    return {parameter.name: _param(array, parameter, path) for parameter, array in zip(bound, arrays, strict=True)}


def _param(array: np.ndarray, parameter: TensorParameter, path: Path) -> np.ndarray:
    dtype, shape = parameter.type.dtype.numpy, tuple(parameter.type.shape)
    if array.shape != shape or array.dtype.itemsize != dtype.itemsize:
        contents = f"{array.dtype}{list(array.shape)}"
        raise ParseError(f"{parameter.name!r} is a {parameter.type}, this file has {contents}", Span(str(path), 1, 1))
    return array if array.dtype == dtype else array.view(dtype)
