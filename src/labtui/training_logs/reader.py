"""The log reader: turns bytes, in chunks of any size, into runs, epochs and diagnosis.

Runs are a pure function of a log's bytes: `parse_log`, for a whole log, uses `LogReader`, for a log that grows. Memory
does not grow with the log, and no bytes raise an error.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from labtui.domain.model import Program, Stream
from labtui.training_logs import diagnosis, forms, run_headers
from labtui.training_logs.fold import TAKERS, Fold
from labtui.training_logs.keras import FirstStep
from labtui.training_logs.lines import BINARY_LOOK, LineCutter, LogLine, Writer, readings, sure_part
from labtui.training_logs.patterns import OwnPattern
from labtui.training_logs.runs import EXPRESSIONS, LogReport, ParsedRun, RunFacts
from labtui.training_logs.said import TRAINS, Batch, Begins, Said


class LogReader:
    """Reads one stream of one job as it grows.

    `stream` is noted in each finding. `job_name` is Slurm's, when known: it gives the model and device of runs whose
    lines do not. `plan` are the runs that the job's script starts, in order: they fill gaps as well. `patterns` are the
    user's own (`patterns.own_pattern`), `programs` those whose times the log may have.
    """

    def __init__(
        self, *, stream: Stream = "out", job_name: str = "", plan: Sequence[RunFacts] = (),
        patterns: Sequence[OwnPattern] = (), programs: Sequence[Program] = (),
    ) -> None:  # fmt: skip
        self._cutter = LineCutter()
        self._forms = forms.Forms(patterns, programs)
        self._cutter.every_line = self._forms.every_line
        self._diagnoser = diagnosis.Diagnoser(stream)
        self._folds = [Fold(self._diagnoser)]  # of lines without a rank, and of the lowest rank that trains
        self._chief: Writer | None = None
        self._read: deque[str] = deque(maxlen=64)  # the last lines that a form read
        self._mention = (0, 0, "")  # of an unread line: how likely it has an epoch or a rate, number, text
        self._changed = False
        self._cpu_warnings = 0
        if (hint := run_headers.facts_of_name(job_name)).model:
            self._fold.hints = hint
        self._fold.plan.update(enumerate(plan, start=1))

    def feed(self, data: bytes) -> bool:
        """Take the next bytes of the log; return whether the report may have changed."""
        self._changed = False
        for line in self._cutter.feed(data):
            self._take(line)
        return self._changed

    def finish(self, *, job_known: bool = False) -> None:
        """Call once, at the end of the log: read a last line without newline and close the last run.

        `job_known`: how the job ended is known, and decides how a run ended whose log does not say.
        """
        for line in self._cutter.finish():
            self._take(line, whole=False)
        self._diagnoser.settle()
        self._fold.close(job_known=job_known)

    @property
    def _fold(self) -> Fold:
        return self._folds[-1]

    @property
    def runs(self) -> tuple[ParsedRun, ...]:
        """The runs as of now; the last one may be unfinished."""
        fold = self._fold
        return (*fold.closed, fold.open.view()) if fold.open else tuple(fold.closed)

    @property
    def report(self) -> LogReport:
        """Everything read so far."""
        return LogReport(
            runs=self.runs,
            diagnosis=tuple(sorted(self._diagnoser.found, key=lambda finding: finding.line)),
            failures=tuple(self._diagnoser.failures.values()),
            cpu_warnings=self._cpu_warnings,
            strategies=tuple(self._fold.strategies),
            gpu_kind=self._fold.hints.gpu_kind,
            mention=self._mention[1:] if self._mention[0] else None,
            lines=self._cutter.lines,
            size=self._cutter.size,
            binary=self.binary,
        )

    @property
    def binary(self) -> bool:
        """Whether the log is not text, as far as it was read."""
        zeros, size = self._cutter.zeros, self._cutter.size
        told = self._fold.closed or self._fold.open or self._diagnoser.found
        return zeros > 0 and (zeros * 50 > min(size, BINARY_LOOK) or not told)

    def _take(self, line: LogLine, *, whole: bool = True) -> None:
        text = line.text
        if not text:
            return
        for rest, writer in readings(text, marked=not self._forms.every_line):
            if (said := self._forms.read(line, rest if whole else sure_part(rest, self._read))) is not None:
                self._read.append(rest)
                self._deliver(line.number, rest, said, writer)
                return
        for fold in self._folds if "poch" in rest else ():
            fold.see_epoch(rest)
        may = self._mention[0] < 2 and ("po" in rest or "/s" in rest or "er sec" in rest or rest[:1] == "[")
        if may and EXPRESSIONS["mention"].search(rest):
            likely = 2 if EXPRESSIONS["likely"].search(rest) else 1
            if likely > self._mention[0]:
                self._mention = (likely, line.number, text.strip()[: diagnosis.MAX_TEXT])
                self._changed = True
        if diagnosis.WITHOUT_GPU.pattern.search(text):
            self._cpu_warnings += 1
            for fold in self._folds:
                fold.mark_without_gpu()
        # a time stamp without a rank stays: known error texts may come with one
        failure = self._diagnoser.take(line.number, rest if writer else text, len(self._fold.closed))
        self._cutter.every_line = self._forms.every_line or self._diagnoser.in_trace
        if failure is not None:
            self._changed = True
            for fold in self._folds:
                fold.fail(failure)

    # ------------------------------------------------------------------ ranks

    def _deliver(self, number: int, text: str, said: Sequence[Said], writer: Writer) -> None:
        """Give what a line says to the folds that it concerns; lines of higher ranks only repeat the lowest one's."""
        if writer and any(isinstance(one, TRAINS) for one in said):
            self._note_rank(writer)
        if writer and self._chief is not None and writer > self._chief:
            return
        folds = self._folds[1:] if writer and self._chief is not None else self._folds
        for one in said:
            self._changed |= not (isinstance(one, FirstStep) or (isinstance(one, Batch) and one.index > 1))
            if isinstance(one, Begins) and one.by == "command":
                self._diagnoser.take_command(number, text, len(self._fold.closed), without_gpu=one.masked)
            for fold in folds:
                TAKERS[type(one)](fold, number, one)

    def _note_rank(self, writer: Writer) -> None:
        """Note a rank that trains: the lines of the lowest one count for all."""
        before = self._chief
        if before is None or writer < before:
            self._chief, self._folds[1:] = writer, [self._folds[0].fork()]
        if before not in (None, writer) and self._fold.open is not None:
            self._fold.open.interleaved = True


def parse_log(data: bytes | Iterable[bytes], **options: Any) -> LogReport:
    """Read a whole log, given at once or in chunks; `options` are those of a `LogReader`.

    Binary data is not read to its end, as it may be endless.
    """
    reader = LogReader(**options)
    for chunk in (data,) if isinstance(data, bytes) else data:
        reader.feed(chunk)
        if reader._cutter.size > BINARY_LOOK and reader.binary:
            break
    reader.finish()
    return reader.report
