"""Programs started in a copy of a Python that has imported TensorFlow or PyTorch already.

Importing either keeps a core busy for two to seven seconds, and these tests start some thirty programs that do. As a
program (`python warm.py SOCKET MODULE ...`, Python 3.8 or later) this file imports the modules, then forks once for
each connection. A fork is a whole process: its number, exit code, environment and memory limit are its own. What
depends on the import itself (torchrun's ranks, another Keras, a script with no TensorFlow) is not started here.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping, NoReturn, Sequence  # noqa: UP035  (Python 3.8)

IMPORT_LIMIT_S = 300
FORKS = sys.platform.startswith("linux")
"""Windows cannot fork, and macOS restricts forked processes: there each program does its own imports."""


class Process:
    """A running program with a part of the interface of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, order: dict[str, Any]) -> None:
        self._connection = connection
        self._stream = connection.makefile("rw", encoding="utf-8")
        self._stream.write(json.dumps(order) + "\n")
        self._stream.flush()
        self.pid = int(self._stream.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = int(self._stream.readline())
            self._stream.close()
            self._connection.close()
        return self.returncode

    def wait(self, timeout_s: float = 900) -> int:
        if self.returncode is None and not select.select([self._connection], [], [], timeout_s)[0]:
            raise TimeoutError(f"process {self.pid} still runs after {timeout_s} s")
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Warm:
    """A Python process with imported modules and the environment `env`; started on first use, ends with this one."""

    def __init__(self, python: str | Path, *modules: str, env: Mapping[str, str]) -> None:
        self._command = [str(python), __file__]
        self._modules, self._env = modules, dict(env)
        self._address = ""

    def start(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
        data_limit_kib: int = 0,
    ) -> Process | subprocess.Popen[bytes]:
        """Start `python WORDS` (a script and its options); standard output and standard error go into two files."""
        if not FORKS:
            return self._started_afresh(words, cwd, env, out, err, data_limit_kib)
        self._address = self._address or self._import()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        for file in (out, err):
            file.write_bytes(b"")  # there to be read at once
        order = {"words": list(words), "cwd": str(cwd), "env": dict(env), "out": str(out), "err": str(err)}
        return Process(connection, {**order, "data_limit_kib": data_limit_kib})

    def _started_afresh(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], out: Path, err: Path, limit_kib: int
    ) -> subprocess.Popen[bytes]:
        command = [self._command[0], *words]
        if limit_kib:
            command = ["sh", "-c", f'ulimit -d {limit_kib}; exec "$@"', "sh", *command]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            return subprocess.Popen(command, cwd=cwd, env=dict(env), stdout=stdout, stderr=stderr)

    def _import(self) -> str:
        folder = tempfile.mkdtemp(prefix="labtui-warm-")  # a socket's path is at most 107 bytes long
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        address = f"{folder}/socket"
        server = subprocess.Popen(
            [*self._command, address, *self._modules],
            env=self._env,
            stdin=subprocess.PIPE,  # its end is the server's
            stdout=subprocess.DEVNULL,
        )
        atexit.register(server.communicate)
        until = time.monotonic() + IMPORT_LIMIT_S
        while not Path(address).exists():
            if server.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{' and '.join(self._modules)} could not be imported")
            time.sleep(0.05)
        return address


def serve(address: str) -> dict[str, Any]:
    """Fork for each connection, and return in each copy the order it is to carry out."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen(64)
    Path(address + ".new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        stream = connection.makefile("rw", encoding="utf-8")
        order: dict[str, Any] = json.loads(stream.readline())
        pid = os.fork()
        if not pid:
            stream.close()
            connection.close()
            return order
        stream.write(f"{pid}\n")
        stream.flush()
        _keep(pid, stream)


def _keep(pid: int, stream: Any) -> NoReturn:
    """Wait for the program and send its exit code in the form that `subprocess` uses."""
    _, status = os.waitpid(pid, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    try:
        stream.write(f"{code}\n")
        stream.flush()
    finally:
        os._exit(0)


def become(order: dict[str, Any]) -> None:
    """Make this process look as if it had been started for the order."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.close(null)
    if order["data_limit_kib"]:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (order["data_limit_kib"] * 1024,) * 2)
    sys.argv = order["words"]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))


if __name__ == "__main__":
    sys.path.pop(0)  # this folder is not the program's
    for module in sys.argv[2:]:
        importlib.import_module(module)
    become(serve(sys.argv[1]))
    __file__ = sys.argv[0]
    program = compile(Path(__file__).read_bytes(), __file__, "exec", dont_inherit=True)
    exec(program, globals())  # here, not in a function: the interpreter itself ends it, as any program
