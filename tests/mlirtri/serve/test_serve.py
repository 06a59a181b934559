"""A command that a server runs prints what it prints by itself, and ends as it ends by itself."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from mlirtri.serve.server import is_running

KERNELS = """
import gc
import os
import sys
import mlirtri as mt

@mt.jit
def add(a: mt.Tensor[[4, 8], mt.float32]):
    return a + 1

@mt.jit
def wrong(a: mt.Tensor[[4, 8], mt.float32]):
    return a.nothing

if os.environ.get("END") == "frozen":
    sys.exit(gc.get_freeze_count() > 100_000)
if os.environ.get("END") == "signal":
    os.kill(os.getpid(), 9)
if os.environ.get("END") == "exit":
    sys.exit(7)
if os.environ.get("END") == "wait":
    import time
    print("waiting", flush=True)
    time.sleep(20)
"""
MLIR = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of commands that have a server, which ends with the tests."""
    folder = tmp_path_factory.mktemp("serve")
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "broken.mlir").write_text(MLIR.replace("return", "retrun"))
    served = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "MLIRTRI_CACHE": "0", "MLIRTRI_SERVE": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "mlirtri.cli", "serve", "--idle", "60"],
        env=served, cwd=folder, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    assert server.stdout.readline().startswith("serving at ")
    yield served, folder
    server.terminate()
    server.wait()


def _run(environment, *arguments, module="mlirtri.cli", given=None, served=True, **variables):
    variables = {**environment[0], **variables, "MLIRTRI_SERVE": "1" if served else "0"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, env=variables, cwd=environment[1], capture_output=True, text=True, input=given, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "given", "variables"),
    [
        (["emit", "kernels.py::add", "--stage=tri,tir"], None, {}),
        (["emit", "kernels.py::wrong"], None, {}),
        (["emit", "kernels.py::add", "--stage=nix"], None, {}),
        (["emit", "kernels.py", "--nothing"], None, {}),
        (["run", "kernels.py::add", "--pipeline=mlir"], None, {}),
        (["run", "none.py"], None, {}),
        (["emit", "-", "--from=linalg", "--stage=fused"], MLIR, {}),
        (["emit", "kernels.py::add", "--stage=tri"], None, {"MLIRTRI_PIPELINE": "nix"}),
        (["emit", "kernels.py::add", "--stage=tri"], None, {"END": "exit"}),
        (["emit", "kernels.py::add", "--stage=tri"], None, {"END": "signal"}),
    ],
)
def test_output_and_status_are_those_of_a_process_of_its_own(environment, arguments, given, variables):
    served = _run(environment, *arguments, given=given, **variables)
    alone = _run(environment, *arguments, given=given, served=False, **variables)
    assert (served.returncode, served.stdout, served.stderr) == (alone.returncode, alone.stdout, alone.stderr)


@pytest.mark.parametrize(
    ("arguments", "given", "status"),
    [(["--cse", "-"], MLIR, 0), (["broken.mlir"], None, 1), (["none.mlir"], None, 1)],
)
def test_mlirtri_opt_too(environment, arguments, given, status):
    served = _run(environment, *arguments, module="mlirtri.opt", given=given)
    alone = _run(environment, *arguments, module="mlirtri.opt", given=given, served=False)
    assert (served.returncode, served.stdout, served.stderr) == (status, alone.stdout, alone.stderr)
    assert alone.returncode == status


def test_collections_of_a_command_pass_over_what_the_server_has_loaded(environment):
    assert _run(environment, "emit", "kernels.py::add", "--stage=tri", END="frozen").returncode == 1


def test_a_command_runs_in_a_process_of_the_server(environment):
    start = os.times().children_user
    assert _run(environment, "emit", "kernels.py::add", "--stage=asm").returncode == 0
    assert os.times().children_user - start < 0.6  # TVM and MLIR take more


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_end_the_command(environment, number):
    command = [sys.executable, "-m", "mlirtri", "emit", "kernels.py::add"]
    variables = {**environment[0], "END": "wait"}
    process = subprocess.Popen(command, env=variables, cwd=environment[1], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    process.send_signal(number)
    printed = "interrupted\n" if number == signal.SIGINT else ""
    assert process.stderr.read().lstrip() == printed  # its end: the process that writes has ended, too
    assert process.wait() == (130 if number == signal.SIGINT else -number)


def test_the_socket_is_the_users_alone_and_others_get_no_answer(environment):
    (path,) = (environment[1] / "cache" / "mlirtri").glob("serve-*.sock")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"nonsense")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(2) == b"R"
        assert connection.recv(1) == b""
    again = _run(environment, "serve")
    assert again.stdout == f"a server runs at {path}\n"


def test_where_python_would_start_otherwise_the_command_runs_by_itself(environment):
    assert _run(environment, "emit", "kernels.py::add", "--stage=tri", PYTHONHASHSEED="7").returncode == 0


@pytest.fixture
def short_path():
    """Return a folder whose name leaves room for a socket's, of which the system takes 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="serve") as folder:
        yield Path(folder)


def test_a_server_ends_when_it_is_idle_and_leaves_no_socket(short_path):
    variables = {**os.environ, "XDG_CACHE_HOME": str(short_path)}
    done = subprocess.run([sys.executable, "-m", "mlirtri.cli", "serve", "--idle", "1"], env=variables, check=False)
    assert done.returncode == 0
    assert list((short_path / "mlirtri").iterdir()) == []


def _served_from(folder):
    """Start a server with its cache in a folder; return it, the environment of its commands, and its socket."""
    variables = {**os.environ, "XDG_CACHE_HOME": str(folder), "MLIRTRI_CACHE": "0", "MLIRTRI_SERVE": "1"}
    command = [sys.executable, "-m", "mlirtri.cli", "serve", "--idle", "60"]
    server = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline().startswith("serving at ")
    (path,) = (folder / "mlirtri").glob("serve-*.sock")
    return server, variables, path


def test_commands_run_by_themselves_beside_a_server_that_was_killed_or_is_stopped(short_path):
    (short_path / "kernels.py").write_text(KERNELS)
    server, variables, path = _served_from(short_path / "cache")
    for number, remains in ((signal.SIGSTOP, True), (signal.SIGKILL, True)):
        server.send_signal(number)
        assert _run((variables, short_path), "emit", "kernels.py::add", "--stage=ast").returncode == 0
        assert path.exists() == remains
    server.wait()
    server, _, again = _served_from(short_path / "cache")  # in place of the socket that the killed one left
    assert again == path
    server.terminate()
    assert server.wait() == 0
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_an_error_before_anything_is_loaded(short_path):
    (short_path / "file").touch()
    variables = {**os.environ, "XDG_CACHE_HOME": str(short_path / "file")}
    command = [sys.executable, "-m", "mlirtri.cli", "serve"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "there can be no socket" in done.stderr
    assert "help: XDG_CACHE_HOME names another folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_whose_sources_have_changed_is_none(tmp_path):
    """It closes the connection and ends: `mlirtri serve` then starts another one."""
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            for text in (b"", b"R"):
                with listening.accept()[0] as connection:
                    connection.sendall(text)

        thread = threading.Thread(target=answer)
        thread.start()
        assert [is_running(path), is_running(path)] == [False, True]
        thread.join()
    assert not is_running(path)
