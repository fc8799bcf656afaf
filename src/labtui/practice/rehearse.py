"""`python ResNet50.py ...` inside a practice job: the script really runs, only the training is rehearsed.

The student's script is executed as it is, with a TensorFlow and a NumPy of our own in front (`rehearsal/`): a wrong
path, a pasted dash, a curly quote, a missing file fail as on the cluster. `model.fit` prints what Keras prints, at the
pace of `timing`, on a clock that runs faster. Runs in a process of its own and imports nothing else of labtui.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import time
import traceback
from pathlib import Path

STUBS = Path(__file__).parent / "rehearsal"


class RehearsedTime:
    """A clock that `advance` moves, and that lets real time pass at `1/factor`.

    `advance` is exact: an epoch of 13.600 s takes 13.600 s on this clock, whatever the laptop does meanwhile.
    """

    def __init__(self, factor: float, now: float) -> None:
        self.factor = max(factor, 1e-6)
        self._now = now
        self._elapsed = 0.0
        self._real_start = time.monotonic()
        self._real_sleep = time.sleep
        self._real_monotonic = time.monotonic

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass on the rehearsed clock."""
        self._elapsed += max(0.0, seconds)
        behind = self._elapsed / self.factor - (self._real_monotonic() - self._real_start)
        if behind > 0:
            self._real_sleep(behind)

    def time(self) -> float:
        """UNIX seconds on the rehearsed clock."""
        return self._now + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the process began, on the rehearsed clock."""
        return self._elapsed

    def install(self) -> None:
        """Replace the functions of `time` in this process."""
        time.time = self.time
        time.monotonic = time.perf_counter = self.monotonic
        time.sleep = self.advance  # type: ignore[assignment]  # the parameter's name differs


def clock_from_environment() -> RehearsedTime:
    """The clock of the practice cluster that started this process."""
    factor = float(os.environ.get("LABTUI_PRACTICE_FACTOR", "1"))
    began = float(os.environ.get("LABTUI_PRACTICE_BEGAN", time.time()))
    ahead = float(os.environ.get("LABTUI_PRACTICE_AHEAD", "0"))
    return RehearsedTime(factor, began + ahead + (time.time() - began) * factor)


CLOCK: RehearsedTime | None = None
"""The clock of this process, for `rehearsal/tensorflow`."""


def _without_our_frames(error: BaseException) -> list[str]:
    """The traceback as the script's own interpreter would print it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (
        __file__,
        runpy.__file__,
        "<frozen runpy>",
    ):
        frames = frames.tb_next
    return traceback.format_exception(type(error), error, frames)


def main(arguments: list[str]) -> int:
    """Run ``[options] script.py arguments`` and return the exit status."""
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[1:]
    script = arguments[0]
    if not Path(script).is_file():
        print(
            f"python: can't open file '{Path.cwd() / script}': [Errno 2] No such file or directory",
            file=sys.stderr,
        )
        return 2
    global CLOCK  # noqa: PLW0603  one process, one clock; the stub packages have no other way to it
    CLOCK = clock_from_environment()
    sys.modules["labtui.practice.rehearse"] = sys.modules[__name__]
    sys.path[:0] = [str(Path(script).resolve().parent), str(STUBS)]
    sys.argv = arguments
    CLOCK.install()
    # A traceback shows no frame of ours, as if python itself had run the script.
    try:
        source = Path(script).read_bytes()
        code = compile(source, script, "exec")
        module = type(sys)("__main__")
        module.__dict__.update(__file__=script, __builtins__=builtins)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)  # noqa: S102  the student's own script is what this process is for
    except SystemExit as end:
        return _exit_status(end)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # the interpreter's last resort, as python's own
        sys.stdout.flush()
        sys.stderr.writelines(_without_our_frames(error))
        return 1
    return 0


def _exit_status(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stdout.flush()
    print(end.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # as in the course's container
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the rehearsed clock has nothing to wind up
