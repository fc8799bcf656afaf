"""The practice cluster as a whole: clock, controller, SSH server, control socket, and the thread that drives them."""

import contextlib
import hmac
import itertools
import math
import os
import secrets
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from labtui.practice.command_line import MIN_JOB_AGE_S, Answer, Invocation
from labtui.practice.commands import answer
from labtui.practice.controller import Controller
from labtui.practice.layout import Layout, StateFile, make_layout, program_environment
from labtui.practice.programs import PracticeClock
from labtui.practice.request import practice_site
from labtui.practice.runner import JobRunner, find_bash
from labtui.practice.sshd import PracticeSSHServer

MAX_REQUEST = 8 * 2**20


def serve_calls(secret: str, answer: Callable[[str, Invocation], Answer]) -> socketserver.ThreadingTCPServer:
    """Listen on 127.0.0.1 and pass each call of a program to `answer(program, call)`.

    A call is the secret, the program, its folder, the number of arguments and of variables, then these, each followed
    by a NUL, and standard input. The answer is a line (exit status, bytes of standard output), then both streams.
    """

    class Handler(socketserver.StreamRequestHandler):
        timeout = 60

        def handle(self) -> None:
            with contextlib.suppress(OSError, ValueError, KeyError):
                given, *head, rest = self.rfile.read(MAX_REQUEST).split(b"\0", 5)
                if not hmac.compare_digest(given, secret.encode()):
                    return
                program, folder, argv, variables = (field.decode("utf-8", "replace") for field in head)
                *fields, stdin = rest.split(b"\0", int(argv) + int(variables))
                texts = (field.decode("utf-8", "replace") for field in fields)
                asked = tuple(itertools.islice(texts, int(argv)))
                call = Invocation(asked, folder, dict(text.split("=", 1) for text in texts), stdin)
                status, *streams = answer(program, call)
                out, err = (stream.encode("utf-8", "surrogateescape") for stream in streams)
                self.wfile.write(b"%d %d\n" % (status, len(out)) + out + err)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.5,), name="practice-control", daemon=True).start()
    return server


DEFAULT_FACTOR = 20.0
"""Cluster seconds per second: the lab's longest run (five epochs on the CPU, 18 minutes) takes under a minute."""

HEARTBEAT_S = 0.2


class PracticeCluster(contextlib.AbstractContextManager["PracticeCluster"]):
    """A running practice cluster. Close it, or use it as a context manager."""

    def __init__(
        self, folder: Path | None = None, *, factor: float | None = None, train: bool = False
    ) -> None:
        """Start in `folder`, which is kept afterwards, or in a temporary folder.

        A kept one goes on as it was, with the same `factor` or training, unless one of them is given.

        Raises:
            UsageError: there is no bash, which runs the job scripts.
        """
        find_bash()
        keep = folder is not None
        folder = Path(os.path.realpath(folder or tempfile.mkdtemp(prefix="labtui-practice-")))
        self.layout, self.site = Layout(folder), practice_site()
        self._state_file = StateFile(folder) if keep else None
        saved = self._state_file.load() if self._state_file else None
        if saved and not (factor or train):
            factor, train = saved.factor, saved.train
        self.train, began, speed = train, time.time(), 1.0 if train else factor or DEFAULT_FACTOR
        # it shows the real time, or a later one if it was saved with that: no record lies in its future
        self.clock = PracticeClock(began, speed, max(0.0, saved.clock - began) if saved else 0.0)
        self._stop, secret = threading.Event(), secrets.token_hex(16)
        self._control = serve_calls(secret, self._answer)
        environment = self._environment(f"{self._control.server_address[1]}:{secret}")
        make_layout(self.layout, environment, real_data=train)
        self.runner = JobRunner(self.layout.spool, environment, self._ended, "" if keep else str(folder))
        # In real seconds, because labtui polls the queue in real seconds however fast this clock runs.
        min_job_age_s = MIN_JOB_AGE_S * self.clock.factor
        self.controller = Controller(self.site, self.runner, min_job_age_s=min_job_age_s)
        if saved:
            self.controller.restore(saved.jobs, saved.clock)
            self._save()
        environment["PATH"] = os.environ.get("PATH", os.defpath)
        self._ssh = PracticeSSHServer(self.layout, self.site.user, environment, self._refuses_writes)
        self._ssh.client_key.write_private_key_file(str(self.layout.identity))
        self._beating = threading.Thread(target=self._beat, name="practice-scheduler", daemon=True)
        self._beating.start()

    def close(self, *_error: object) -> None:
        """End jobs, connections and listeners; the watchdog removes a folder that is not kept."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._ssh.close()
        self._control.shutdown()
        self._control.server_close()
        self._beating.join()
        self._save(ended=True)  # before the jobs are killed: they did not fail, their cluster ended
        self.runner.close()
        if self._state_file:
            self._state_file.close()

    __exit__ = close

    def settings(self, scripts: Iterable[str] = ()) -> dict[str, Any]:
        """The settings of a `lab.toml` for this cluster.

        A lab with PyTorch `scripts` gets the PyTorch container and the image folders.
        """
        layout, torch = self.layout, any(name.startswith("pytorch/") for name in scripts)
        return {
            "host": "127.0.0.1",
            "port": self._ssh.port,
            "user": self.site.user,
            "identity": str(layout.identity),
            "host_key": self._ssh.host_key.fingerprint,
            "account": self.site.account,
            "root": str(layout.scratch / "labtui"),
            "data_dir": str(layout.data_sets if torch else layout.data),
            "container": str(layout.pytorch if torch else layout.container),
            "profile": "practice",
        }

    def drop_connections(self) -> None:
        """Cut every SSH connection, as a lost network would."""
        self._ssh.drop_connections()

    def fill_disk(self, seconds: float) -> None:
        """Refuse writes for `seconds` on the cluster's clock, from the first refused one."""
        self.controller.full_until, self.controller.full_for = math.inf, seconds

    # ------------------------------------------------------------------ inside

    def _refuses_writes(self) -> bool:
        return self.controller.refuses_writes(self.clock.now())

    def _environment(self, control: str) -> dict[str, str]:
        kept = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(self.layout.home),
            "USER": self.site.user,
            "LOGNAME": self.site.user,
            "SHELL": "/bin/bash",
            "CIFAR10_DATA": str(self.layout.data),
            "LABTUI_PRACTICE": "yes",  # a job script's header prints it, whatever profile it was made with
            **self.clock.environment,
            **program_environment(self.layout),
            "LABTUI_PRACTICE_TRAIN": "yes" if self.train else "no",
            "LABTUI_PRACTICE_CONTROL": control,
        }

    def _answer(self, program: str, call: Invocation) -> Answer:
        now = self.clock.now()
        if program == "bsc_quota":
            used = "1.0 TB" if now < self.controller.full_until else "12.0 GB"
            return 0, f"group {self.site.account}\ngpfs_projects GRP {used} 1.0 TB 1.1 TB 0 KB\n", ""
        self.controller.advance(now)
        reply = answer(program, call, self.controller, now)
        self._save()  # so that the answer still holds after a crash
        return reply

    def _ended(self, job_id: int, status: int, number: int) -> None:
        self.controller.record_exit(job_id, status, number, self.clock.now())

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            with contextlib.suppress(Exception):  # one job must not stop all others
                self.controller.advance(self.clock.now())
                self._save()

    def _save(self, *, ended: bool = False) -> None:
        """Update the state file. A full disk is ignored: the next change tries again."""
        if self._state_file:
            with contextlib.suppress(OSError):
                kept = {"clock": self.clock.now(), "factor": self.clock.factor, "train": self.train}
                self._state_file.save(self.controller, ended=ended, **kept)
