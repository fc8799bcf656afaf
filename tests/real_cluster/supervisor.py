"""The parent of everything inside a cluster: process 1 of its namespace, and the control socket.

Started by `tests.real_cluster.cluster` under ``unshare``. When it ends, for whatever reason, the kernel ends every
process of the namespace and drops its mounts: nothing is left behind. It ends by itself when the pipe on
``--watch FD`` closes, that is when the process that started it (pytest) is gone, killed or not.

Protocol on ``control.sock``: one JSON object per connection, one JSON object back.
"""

import base64
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from tests.real_cluster.daemons import ENVIRONMENT, Daemons
from tests.real_cluster.network import Network
from tests.real_cluster.root import GROUP_GID, STUDENT_UID, build_root, run, set_noise
from tests.real_cluster.settings import ClusterSettings

PR_SET_PDEATHSIG = 1


class Supervisor:
    """Answers requests; every method named ``do_X`` is an operation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = ClusterSettings.load(folder / "settings.json")
        self.covered: list[str] = []

    def start(self) -> None:
        socket.sethostname(self.settings.hostname)
        self.network = Network(self.settings) if self.settings.separate_nodes else None
        if self.network is not None:
            self.network.build()
        self.root = build_root(self.folder, self.settings)
        self.daemons = Daemons(self.root, self.settings, self.network)
        self.daemons.start_all()

    def serve(self) -> None:
        path = self.folder / "control.sock"
        path.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        os.chdir(self.folder)
        server.bind("control.sock")
        server.listen(16)
        (self.folder / "ready").write_text("ready\n")
        while True:
            client, _ = server.accept()
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, client.makefile("rwb") as stream:
            try:
                request = json.loads(stream.readline())
                operation = getattr(self, "do_" + request.pop("op"))
                answer: dict[str, Any] = {"ok": True, "value": operation(**request)}
            except Exception as problem:  # any error is passed to the test that made the request
                answer = {"ok": False, "error": f"{problem}\n{traceback.format_exc()}"}
            try:
                stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()
            except OSError:
                return

    # ---------------------------------------------------------------- operations

    def do_exec(self, argv: list[str], user: str, stdin: str, timeout: float, cwd: str) -> dict[str, Any]:
        """Run a program inside, as ``root`` or as the student, without SSH."""
        identity = []
        environment = dict(ENVIRONMENT)
        if user != "root":
            identity = ["--userspec", f"{STUDENT_UID}:{GROUP_GID}"]
            environment |= {"HOME": self.settings.home, "USER": user, "LOGNAME": user}
        inside = ["env", "-C", cwd, *argv]
        done = subprocess.run(
            ["chroot", *identity, str(self.root), *inside], input=base64.b64decode(stdin),
            capture_output=True, timeout=timeout, env=environment, check=False,
        )  # fmt: skip
        return {
            "status": done.returncode, "stdout": base64.b64encode(done.stdout).decode(),
            "stderr": base64.b64encode(done.stderr).decode(),
        }  # fmt: skip

    def do_daemon(self, name: str, action: str) -> None:
        """``start``, ``stop``, ``pause`` or ``resume`` a daemon."""
        actions = {
            "start": self.daemons.start, "stop": self.daemons.stop,
            "pause": partial(self.daemons.signal, number=signal.SIGSTOP),
            "resume": partial(self.daemons.signal, number=signal.SIGCONT),
        }  # fmt: skip
        actions[action](name)

    def do_lose_node(self, index: int) -> None:
        assert self.network is not None
        for pid in self.network.pids(index, self.root / "proc"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.daemons.stop(f"slurmd_{index}", how=signal.SIGKILL)

    def do_limit(self, path: str, size: str) -> None:
        """Mount an empty tmpfs of `size` (``512k``) over a directory: a disk that fills up."""
        options = f"size={size},uid={STUDENT_UID},gid={GROUP_GID},mode=700"
        run("mount", "-t", "tmpfs", "-o", options, "small-disk", self.root / path.lstrip("/"))
        self.covered.append(path)

    def do_repair(self) -> None:
        while self.covered:
            run("umount", "--lazy", self.root / self.covered.pop().lstrip("/"))
        for name in self.daemons.commands:
            if self.daemons.alive(name):
                self.daemons.signal(name, signal.SIGCONT)
            else:
                self.daemons.start(name)
        set_noise(self.root, self.settings)
        (self.root / self.settings.home.lstrip("/") / ".bashrc").unlink(missing_ok=True)


def _watch(descriptor: int) -> None:
    """Block until the other end of the pipe is gone, then end this process (and with it the namespace)."""
    while os.read(descriptor, 1):
        pass
    os._exit(0)


def _be_process_one(child: int) -> None:
    """Reap whatever is handed to process 1 until the supervisor's own process ends."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except InterruptedError:
            continue
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def main(argv: list[str]) -> int:
    """``supervisor.py DIR [--watch FD]``, as process 1 of a fresh namespace."""
    folder = Path(argv[0])
    child = os.fork()
    if child:
        _be_process_one(child)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.umask(0o022)
    if len(argv) > 2:
        threading.Thread(target=_watch, args=(int(argv[2]),), daemon=True).start()
    supervisor = Supervisor(folder)
    try:
        supervisor.start()
    except Exception:
        (folder / "failed").write_text(traceback.format_exc())
        return 1
    supervisor.serve()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
