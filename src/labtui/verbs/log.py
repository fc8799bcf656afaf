"""`labtui log RUN`: a run's output, from the mirror; with `--follow`, as it grows."""

from __future__ import annotations

import argparse
import codecs
import sys
import time
from pathlib import Path

from labtui.core.model import RunPhase, Stream
from labtui.core.state import LabState, RunState
from labtui.verbs.by_hand import add_show_commands, show_lessons
from labtui.verbs.terminal import Open, add_folder_argument, run_number, say

_OPEN = (RunPhase.WAITING, RunPhase.QUEUED, RunPhase.STARTING, RunPhase.RUNNING, RunPhase.UNKNOWN)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, which stream, whether to follow."""
    parser.add_argument("run", type=run_number, metavar="RUN", help="a number, as `labtui queue` shows")
    add_folder_argument(parser)
    parser.add_argument("--follow", action="store_true", help="go on as the log grows, until the job's end")
    stream = parser.add_mutually_exclusive_group()
    stream.add_argument("--err", dest="stream", action="store_const", const="err", help="standard error")
    stream.add_argument(
        "--gpu", dest="stream", action="store_const", const="gpu", help="the GPU sampler's CSV"
    )
    parser.set_defaults(stream="out")
    add_show_commands(parser)


def run(args: argparse.Namespace) -> int:
    """Copy the mirror to stdout: its bytes into a pipe, harmless text onto a terminal."""
    from labtui.engine.planning import run_of

    with Open(args, start=False) as lab:
        record = run_of(lab.state, args.run)
        if args.show_commands:
            from labtui.engine.lessons import lessons_of_log

            told = lessons_of_log(lab.session, lab.state.submissions[record.token], args.stream)
            return show_lessons([(f"the log of run {args.run}", told)])
        printer = _Printer()
        if args.follow:
            lab.session.start()
            lab.session.watch_logs({record.token})
            _follow(lab, record, args.stream, printer)
        path = lab.session.log_path(record.token, args.stream)
        if path is None:
            say(f"Nothing of run {args.run}'s log was read yet. `labtui watch` or --follow fetches it.")
            return 1
        printer.more(path)
        if not args.follow and not _complete(lab.state, record, args.stream):
            say("The log may have grown since; --follow fetches the rest.")
    return 0


def _follow(lab: Open, record: RunState, stream: Stream, printer: _Printer) -> None:
    for _ in lab.events(lambda state: _over(state, record, stream)):
        path = lab.session.log_path(record.token, stream)
        if path is not None:
            printer.more(path)
        lab.check_line(patient=True)


def _complete(state: LabState, record: RunState, stream: Stream) -> bool:
    log = state.submissions[record.token].logs.get(stream)
    return log is not None and log.complete


def _over(state: LabState, record: RunState, stream: Stream) -> bool:
    if _complete(state, record, stream):
        return True
    return state.runs[record.run_id].phase not in _OPEN and state.submissions[record.token].job is None


class _Printer:
    """Writes what was not written yet; a new segment is announced, never glued to the old one."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._offset = 0
        self._terminal = sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def more(self, path: Path) -> None:
        if path != self._path:
            if self._path is not None:
                say(f"-- the log began anew at {time.strftime('%H:%M:%S')} --")
            self._path, self._offset = path, 0
        with path.open("rb") as file:
            file.seek(self._offset)
            while data := file.read(1 << 20):
                self._offset += len(data)
                if self._terminal:
                    sys.stdout.write(_harmless(self._decoder.decode(data)))
                else:
                    sys.stdout.buffer.write(data)
        sys.stdout.flush()


def _harmless(text: str) -> str:
    """No escape sequence of a log reaches the terminal; line ends and tabs do."""
    return "".join(
        char if char.isprintable() or char in "\n\r\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
