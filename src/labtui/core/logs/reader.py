"""The log reader: bytes in any chunks in, runs, epochs and diagnosis out.

The order of trust for an epoch's time: MLPerf records, then Keras's lines, then other trainers' grammars.
Memory does not grow with the log, and no bytes make it raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from labtui.core.logs.diagnosis import Diagnoser
from labtui.core.logs.encoding import Utf8
from labtui.core.logs.events import DiagnosisFound, LogEvent, LogReport
from labtui.core.logs.heads import (
    Command,
    facts_of_job_name,
    is_batch_line,
    read_banner,
    read_command,
    read_head,
    read_job_name,
    read_model,
    read_replicas,
    read_said,
    read_samples,
    stopped_early,
)
from labtui.core.logs.keras import read_header, read_summary
from labtui.core.logs.keras_runs import take_header, take_summary
from labtui.core.logs.lines import BINARY_LOOK, RANK, Line, LineCutter
from labtui.core.logs.mllog import read_record
from labtui.core.logs.mlruns import take_record
from labtui.core.logs.rules import NO_GPU_SIGN, SUSPECT
from labtui.core.logs.runs import RunTracker
from labtui.core.logs.trainers import Trainers

if TYPE_CHECKING:
    from labtui.core.model import Diagnosis, ParsedRun, Stream

WORDS = (
    *("/step", "/epoch", "/sample", "/batch", "/Unknown", "s - ", "] - ", "Epoch", "EPOCH", ":::ML"),
    *("Model", "size: ", "SIZE: ", "eplicas: ", "EPLICAS: ", "evices: ", "EVICES: ", "Train on"),
    *("ob Name", "ob name", "OB NAME", "Number of ", "practice: ", "job: ", "run-", ".py", "Device: "),
    *("images/sec", "img/sec", "imgs/s", "### ", "@1 ", ">>>", "finished", "Time: ", "\\"),
    *SUSPECT,
)  # fmt: skip
"""Every grammar's lines hold one of these; lines with none are not even cut."""

_COMMAND = 4000
"""Characters of the longest command that is read."""
_PIECES = 50
_RANK = re.compile(RANK.pattern.decode())


class LogReader:
    """Reads one stream of one job as it grows.

    `stream` is kept in each diagnosis. `job_name` is Slurm's, when known: it tells the model and device of
    runs that say nothing better.
    """

    def __init__(self, *, stream: Stream = "out", job_name: str = "") -> None:
        self._utf8 = Utf8()
        self._cutter = LineCutter(WORDS)
        self._tracker = RunTracker()
        self._diagnoser = Diagnoser(stream)
        self._trainers = Trainers(self._tracker)
        self._chief: int | None = None
        self._finished = False
        self._cpu_warnings = 0
        self._pieces: list[str] = []  # of a command echoed over several lines
        if job_name and (hint := facts_of_job_name(job_name)):
            self._tracker.hint(hint)

    def feed(self, data: bytes) -> list[LogEvent]:
        """Take the next bytes of the log; any cutting of the bytes gives the same events."""
        for line in self._cutter.feed(self._utf8.feed(data)):
            self._take(line)
            self._cutter.every_line = self._diagnoser.in_trace or bool(self._pieces)
        return self._drain()

    def finish(self) -> list[LogEvent]:
        """The log is complete: read a last line without newline and close the last run."""
        if self._finished:
            return []
        self._finished = True
        for line in (*self._cutter.feed(self._utf8.finish()), *self._cutter.finish()):
            self._take(line)
        self._trainers.finish()
        self._tracker.close()
        return self._drain()

    @property
    def runs(self) -> tuple[ParsedRun, ...]:
        """The runs as of now; the last one may be unfinished."""
        return self._tracker.runs

    @property
    def diagnosis(self) -> tuple[Diagnosis, ...]:
        """What went wrong, in the order of the log."""
        return self._diagnoser.found

    @property
    def report(self) -> LogReport:
        """Everything read so far."""
        cutter = self._cutter
        silent = not self.runs and not self.diagnosis
        binary = cutter.zeros > 0 and (silent or cutter.zeros * 50 > min(cutter.size, BINARY_LOOK))
        return LogReport(
            runs=self.runs,
            diagnosis=self.diagnosis,
            failures=self._diagnoser.failures,
            cpu_warnings=self._cpu_warnings,
            lines=cutter.lines,
            size=cutter.size,
            binary=binary,
        )

    def _drain(self) -> list[LogEvent]:
        events, self._tracker.events = self._tracker.events, []
        return events

    def _take(self, line: Line) -> None:
        text = line.text
        if self._continued(line.number, text) or not text:
            return
        if self._training(line, text, rank=None):
            return
        match = _RANK.match(text)
        if match is not None:
            rank = int(match["torch"] or match["srun"] or match["mpi"])
            if self._training(line, text[match.end() :], rank=rank):
                return
            text = text[match.end() :]
        self._diagnose(line, text)

    def _continued(self, number: int, text: str) -> bool:
        """A command echoed over several lines, each but the last ending in a backslash: read as one."""
        if text.endswith("\\") and len(text) < _COMMAND and len(self._pieces) < _PIECES:
            self._pieces.append(text[:-1].strip())
            return True
        if not self._pieces:
            return False
        joined, self._pieces = " ".join([*self._pieces, text.strip()]), []
        command = read_command(joined) if len(joined) < _COMMAND else None
        if command is not None:
            self._command(number, joined, command)
        return command is not None

    def _training(self, line: Line, text: str, rank: int | None) -> bool:
        """Whether the line is one of a training; those of higher ranks repeat the chief's and are dropped."""
        takeover = False
        if rank is not None:
            if not _speaks_of_training(text):
                return False
            takeover = self._chief is not None and rank < self._chief
            if self._chief is not None and rank != self._chief and self._tracker.current is not None:
                self._tracker.current.interleaved = True
            if self._chief is not None and rank > self._chief:
                return True
            self._chief = rank
        return self._dispatch(line, text, takeover)

    def _dispatch(self, line: Line, text: str, takeover: bool) -> bool:
        tracker, number = self._tracker, line.number
        if ":::ML" in text:
            record = read_record(text)
            if record is not None:
                take_record(tracker, number, record)
                return True
        if "Epoch" in text and (header := read_header(text)):
            take_header(tracker, number, header, takeover=takeover)
        elif summary := read_summary(text):
            take_summary(tracker, number, summary, continues=line.continues)
        elif self._trainers.take(number, text):
            return True
        else:
            return self._announcement(number, text, takeover)
        return True

    def _announcement(self, number: int, text: str, takeover: bool) -> bool:
        """Lines of a head: banners, batch sizes, job headers, echoed commands."""
        tracker = self._tracker
        if banner := read_banner(text):
            tracker.banner(number, banner, takeover=takeover)
        elif head := read_head(text):
            tracker.tell(number, head, batch_line=is_batch_line(text), samples=read_samples(text))
        elif (replicas := read_replicas(text)) is not None:
            tracker.replicas(number, replicas)
        elif stopped_early(text):
            tracker.stopped_early(number)
        elif name := read_job_name(text):
            tracker.hint(name)
        elif said := read_said(text):
            tracker.hint(said.facts, run=said.run)
        elif command := read_command(text):
            self._command(number, text, command)
        elif named := read_model(text):
            tracker.foretell(named)
        else:
            return False
        return True

    def _command(self, number: int, text: str, command: Command) -> None:
        tracker = self._tracker
        tracker.command(number, command.facts, command.text, masked=command.no_gpu_flag)
        if command.no_gpu_flag:
            self._note(self._diagnoser.without_gpu_flag(number, text, tracker.index))

    def _diagnose(self, line: Line, text: str) -> None:
        if NO_GPU_SIGN in text:
            self._cpu_warnings += 1
            self._tracker.without_gpu()
        finding = self._diagnoser.take(line.number, text, self._tracker.index)
        self._note(finding.diagnosis)
        if finding.failure is not None:
            self._tracker.fail(finding.failure)

    def _note(self, diagnosis: Diagnosis | None) -> None:
        if diagnosis is not None:
            self._tracker.events.append(DiagnosisFound(diagnosis))


def _speaks_of_training(text: str) -> bool:
    return bool(
        ":::ML" in text
        or read_header(text)
        or read_summary(text)
        or Trainers.speaks(text)
        or read_banner(text)
        or read_head(text)
        or read_replicas(text) is not None
    )


def parse_log(data: bytes | Iterable[bytes], *, stream: Stream = "out", job_name: str = "") -> LogReport:
    """Read a whole log, given at once or in chunks."""
    reader = LogReader(stream=stream, job_name=job_name)
    for chunk in (data,) if isinstance(data, bytes) else data:
        reader.feed(chunk)
    reader.finish()
    return reader.report


def diagnose(data: bytes | Iterable[bytes], *, stream: Stream = "err") -> tuple[Diagnosis, ...]:
    """What a log says went wrong, without its runs."""
    return parse_log(data, stream=stream).diagnosis
