"""The folders of the disk cache without a compiler: whole or not at all, checked, small enough, shared by processes."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from mlirtri.cache import store as stores
from mlirtri.cache import writes
from mlirtri.cache.digests import describe, readable
from mlirtri.cache.store import DamagedError, Store, read, stamp
from mlirtri.cli.main import run_command
from mlirtri.errors import CacheWarning

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache", 1 << 30)


def filled(text="text", size=100):
    def fill(folder: Path):
        (folder / "below").mkdir()
        (folder / "below" / "code").write_bytes(text.encode() * size)
        (folder / "stages.json").write_text(json.dumps({"text": text}))
        facts = {"source": text, "arguments": [["x", "tensor", []], ["n", "constant", ["int", "3"]]]}
        return {"kernel": f"module.{text}", "facts": facts, "captures": [], "pipeline": "mlir",
                "interface": {"parameters": [{"name": "x", "type": ["float32", 2, None]}]}}  # fmt: skip

    return fill


def names(store, key="k"):
    return [entry.manifest["kernel"] for entry in store.entries(key)]


def test_entries_are_read_as_they_were_written(store):
    first = store.write("k", "a", filled("one"))
    store.write("k", "b", filled("two"))
    assert store.write("k", "a", filled("never")) == first, "what is there stays"
    assert names(store) == ["module.one", "module.two"]
    [entry, _] = store.entries("k")
    assert entry.files["below/code"] == b"one" * 100
    assert store.all_folders() == [first, first.parent / "b"]
    assert list((store.root / "unfinished").iterdir()) == []
    assert names(store, "other") == []


@pytest.mark.parametrize("file", ["manifest.json", "below/code", "stages.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_damaged_entries_are_moved_aside_and_written_anew(store, file, damage):
    folder = store.write("k", "a", filled())
    path = folder / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-3] if damage == "cut" else content.replace(b"t", b"u", 1))
    with pytest.raises(DamagedError, match=file):
        read(folder)
    assert names(store) == []
    assert not folder.exists()
    assert len(list((store.root / "damaged").iterdir())) == 1
    store.write("k", "a", filled())
    assert names(store) == ["module.text"]


def test_the_least_recently_used_go_first(store):
    folders = [store.write("k", name, filled(name)) for name in "abc"]
    for age, folder in zip((30, 20, 10), folders, strict=True):
        os.utime(folder / stores.USED, (time.time() - age,) * 2)
    stamp(folders[0])
    size = stores.size_of(folders[0])
    store.limit = int(3.5 * size)
    store.write("l", "d", filled("d"))
    assert names(store) + names(store, "l") == ["module.a", "module.c", "module.d"]
    assert [folder.name for folder in store.prune(2 * size)] == ["c"]
    assert store.prune(0) == [folders[0], store.root / "l" / "d"]
    assert store.all_folders() == []


def test_a_full_disk_costs_one_warning(store, recwarn):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    assert store.write("k", "a", full) is None
    assert store.write("k", "b", full) is None
    [warning] = [warning for warning in recwarn if warning.category is CacheWarning]
    assert "No space left on device" in str(warning.message)
    assert list((store.root / "unfinished").iterdir()) == []


def test_one_process_at_a_time_holds_a_lock(store):
    lock, other = store.lock("k"), store.lock("k")
    assert lock.acquire()
    assert not other.acquire(patience=0.02)
    child = FORK.Process(target=time.sleep, args=(30,))
    child.start()
    lock.release()
    assert other.acquire(patience=0.02), "also while a forked process has the file open"
    other.release()
    os.kill(child.pid, signal.SIGKILL)
    child.join()


def test_who_waits_for_another_process_writes_its_own_first(store):
    lock, written = store.lock("k"), []
    assert lock.acquire()
    with writes.COMPILING:  # nothing is written in the background meanwhile
        writes.write_later(lambda: (written.append("k"), lock.release()))
        assert store.lock("k").acquire(patience=0.02)
    assert written == ["k"]


@pytest.mark.parametrize("value", [3, True, -0.0, "a", None, (1,), [1, (2.5, "x")], {"a": False}], ids=str)
def test_descriptions_are_shown_as_python_writes_values(value):
    assert readable(describe(value)) == repr(value)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLIRTRI_CACHE", "1")
    monkeypatch.setenv("MLIRTRI_CACHE_DIR", str(tmp_path))
    store = Store.of_settings()
    folders = [store.write(key, "0123456789", filled(key)) for key in ("aaaa", "bbbb", "cccc")]
    store.refuse("module.other", "it reads an object")

    def run(*arguments, status=0):
        assert run_command(["cache", *arguments]) == status
        return "".join(capsys.readouterr())

    listed = run("ls")
    assert "module.aaaa" in listed
    assert f"3 kernels, {sum(map(stores.size_of, folders)):,} of" in listed
    assert {row["kernel"] for row in json.loads(run("ls", "--json"))} == {"module.aaaa", "module.bbbb", "module.cccc"}
    assert "source: bbbb" in run("explain", "bbbb")
    assert "source: bbbb\n  arguments: x: float32[2, ?], n = 3\n" in run("explain", "module.bbbb")
    assert run("explain", "other") == "module.other is not kept: it reads an object\n"
    assert "the disk cache has no entry 'nothing'" in run("explain", "nothing", status=1)
    (folders[1] / "stages.json").write_text("{}")
    assert "stages.json is damaged; moved aside" in run("verify", status=1)
    assert run("verify") == "2 of 2 entries are as they were written\n"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", _on_a_disk_that_is_read_only)
        assert "0 entries removed\nError: 1 remain" in run("rm", "aaaa", status=1)
        assert run("prune", "--bytes", "0") == "0 entries removed, 2 kept\n"
    assert run("rm", "aaaa") == "1 entries removed\n"
    assert run("prune", "--bytes", "0") == "1 entries removed, 0 kept\n"
    assert "say which entries" in run("rm", status=2)
    monkeypatch.setenv("MLIRTRI_CACHE", "0")
    assert "the disk cache is off" in run("ls", status=1)


def _on_a_disk_that_is_read_only(*_):
    raise OSError(errno.EROFS, "Read-only file system")


# --- processes that end ----------------------------------------------------------------------------------------------


def _write_for_ever(root, seed):
    store, generator = Store(root, 200_000), random.Random(seed)
    while True:
        key = f"k{generator.randrange(4)}"
        lock = store.lock(key)
        if lock.acquire():
            store.write(key, f"e{generator.randrange(3)}", filled("x" * generator.randrange(1, 50), 400))
            lock.release()
        if generator.random() < 0.2:
            store.remove(store.root / key / "e0")


@pytest.mark.slow
def test_processes_killed_at_a_hundred_moments_leave_a_usable_store(store):
    generator = random.Random(0)
    for moment in range(100):
        writers = [FORK.Process(target=_write_for_ever, args=(store.root, 2 * moment + each)) for each in range(2)]
        for writer in writers:
            writer.start()
        time.sleep(generator.uniform(0.005, 0.06))
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
        for folder in store.all_folders():
            read(folder)  # raises for one that is not whole
        lock = store.lock("k0")
        assert lock.acquire(patience=0.5)
        lock.release()
        assert store.write("k9", f"e{moment}", filled()) is not None
    assert not (store.root / "damaged").exists()
