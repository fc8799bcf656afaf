"""The log reader: bytes in any chunks in, runs, epochs and diagnosis out.

The order of trust for an epoch's time: MLPerf records, then Keras's lines, then other trainers' grammars.
Memory does not grow with the log, and no bytes make it raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from labtui.training_logs.diagnosis import TEXT_LIMIT, Diagnoser, holds
from labtui.training_logs.error_patterns import NO_GPU_SIGN, SUSPECT
from labtui.training_logs.keras import read_first_step, read_header, read_summary
from labtui.training_logs.keras_runs import take_first_step, take_header, take_summary
from labtui.training_logs.lines import BINARY_LOOK, RANK, LineCutter, LogLine, Utf8
from labtui.training_logs.mlperf import read_records, take_record
from labtui.training_logs.patterns import PatternReader, ProgramReader
from labtui.training_logs.run_headers import (
    PROCESS_WORDS,
    TrainingCommand,
    facts_of_job_name,
    is_batch_line,
    read_banner,
    read_command,
    read_gpus,
    read_head,
    read_job_gpus,
    read_job_header,
    read_job_name,
    read_model,
    read_samples,
    read_shortage,
    starts_process,
    stopped_early,
)
from labtui.training_logs.run_tracker import RunTracker
from labtui.training_logs.runs import DiagnosisFound, LogEvent, LogReport, RunFacts
from labtui.training_logs.trainers import Trainers

if TYPE_CHECKING:
    from labtui.domain.model import Diagnosis, Program, Stream
    from labtui.training_logs.runs import ParsedRun

WORDS = (
    *("Epoch", "/step", "/epoch", "/sample", "/batch", "/Unknown", "s - ", "] - ", "EPOCH", ":::ML"),
    *("Model", "size: ", "SIZE: ", "eplicas: ", "EPLICAS: ", "evices: ", "EVICES: ", "Train on"),
    *("ob Name", "ob name", "OB NAME", "Number of ", "practice: ", "job: ", "run-", ".py", "Device: "),
    *("images/sec", "img/sec", "imgs/s", "### ", "@1 ", ">>>", "finished", "Time: ", "\\"),
    *("trategy with", "=> ", "epoch", "100%", " \u2022 ", "Num ", "batch size", "Trainer", "distributed proc"),
    *("GPU available", "topping", "Train: ", "ran out of data", "GPU memory reserved", "Tokens/s", "GPU Memory"),
    *PROCESS_WORDS,
    *SUSPECT,
)  # fmt: skip
"""Every grammar's lines hold one of these, the most frequent first; lines with none are not even cut."""

_HEAD_WORDS = (
    *(
        "odel",
        "MODEL",
        "atch",
        "BATCH",
        "eplicas",
        "EPLICAS",
        "evice",
        "EVICES",
        "Train on",
        "gpus: ",
        "ob Name",
        "ob name",
    ),
    *("OB NAME", "practice: ", "job: ", "run-", ".py", "trategy with", "=> ", "ran out of data", "arly"),
    *PROCESS_WORDS,
)
"""Every line of a head holds one of these."""
_COMMAND = 4000
"""Characters of the longest command that is read."""
_PIECES = 50
_MENTION = re.compile(r"(?i)\bepochs?\b\W{0,8}\d|\b(?:img|images|samples|examples|tokens|it)/s")
"""What looks like an epoch or a rate, in a line that no grammar reads."""
_GROUP_DONE = "worker group successfully finished"
"""torchrun's last word about a training whose processes all ended well."""
_PREFIX = re.compile(
    RANK.pattern.decode() + r"|\s*\((?:[\w.:]{1,80} )?pid=(?P<ray>\d{1,9})(?:, ip=[\w.:]{1,60})?\) "  # Ray
    r"|\[(?P<kube>pod/[\w./-]{1,200})\] "  # kubectl logs --prefix
    r"|(?P<pod>[a-z0-9][\w.-]{0,100}-\d{1,5})(?: +\| ?| [a-z][\w-]{0,60} (?=\d{4}-|Epoch |:::ML))"  # compose, stern
    r"|(?P<zulu>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?):? "
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?: ?[-|:,] ?| )"  # Python's logging
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?: |(?=\[))"
    r"|[IW]\d{4} \d\d:\d\d:\d\d\.\d{1,6} +\d{1,9} [\w.]{1,80}:\d{1,6}\] "  # absl
    r"|(?:\[?[\w.]{1,80}\]? ?[-|:] ?)?\[?(?:INFO|DEBUG|WARNING)\]?(?::[\w.]{1,80}:| ?[-|:] ?| +)"
)
"""What may stand before a line: the rank, worker or pod that wrote it, a time stamp, a logger's level."""
_RANK = re.compile(RANK.pattern.decode())
_MARKS = " [0123456789"
"""How a rank's mark begins."""
_PREFIXES = 4
"""Most prefixes of one line: ``3: [default0]:2026-11-21 10:00:00,123 - INFO - ``."""

Writer = tuple[tuple[int, str], ...]
"""Who wrote a line: number and name at each level (node, process), empty for one that bears no mark."""


class LogReader:
    """Reads one stream of one job as it grows.

    `stream` is kept in each diagnosis. `job_name` is Slurm's, when known: it tells the model and device of
    runs that say nothing better. `plan` are the runs that the job's script starts, in order: they fill gaps, too.
    `patterns` are a person's own forms of lines (`patterns.own_pattern`), `programs` those whose times it may hold.
    """

    def __init__(
        self,
        *,
        stream: Stream = "out",
        job_name: str = "",
        plan: Sequence[RunFacts] = (),
        patterns: Sequence[re.Pattern[str]] = (),
        programs: Sequence[Program] = (),
    ) -> None:
        self._utf8 = Utf8()
        self._cutter = LineCutter(WORDS)
        self._tracker = RunTracker()
        self._diagnoser = Diagnoser(stream)
        self._trainers = Trainers(self._tracker)
        self._patterns = PatternReader(self._tracker, patterns)
        self._programs = ProgramReader(self._tracker, programs) if programs else None
        self._read_all = bool(patterns or programs)
        self._cutter.every_line = self._read_all
        self._chief: Writer | None = None
        self._mention: tuple[int, str] | None = None
        self._finished = False
        self._cpu_warnings = 0
        self._groups_done = 0
        self._pieces: list[str] = []  # of a command echoed over several lines
        if job_name and (hint := facts_of_job_name(job_name)):
            self._tracker.hint(hint)
        for number, facts in enumerate(plan, start=1):
            self._tracker.hint(facts, run=number)

    def feed(self, data: bytes) -> list[LogEvent]:
        """Take the next bytes of the log; any cutting of the bytes gives the same events."""
        for line in self._cutter.feed(self._utf8.feed(data)):
            self._take(line)
            self._cutter.every_line = self._read_all or self._diagnoser.in_trace or bool(self._pieces)
        return self._drain()

    def finish(self) -> list[LogEvent]:
        """The log is complete: read a last line without newline and close the last run."""
        if self._finished:
            return []
        self._finished = True
        for line in (*self._cutter.feed(self._utf8.finish()), *self._cutter.finish()):
            self._take(line)
        self._trainers.finish()
        ending = self._diagnoser.finish()
        if ending.failure is not None:
            self._tracker.fail(ending.failure)
        self._note(ending.diagnosis)
        self._tracker.close()
        self._note_findings()
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
            groups_done=self._groups_done,
            gpus=self._tracker.run_gpus,
            strategies=tuple(self._tracker.strategies),
            mention=self._mention,
            lines=cutter.lines,
            size=cutter.size,
            binary=binary,
        )

    def _drain(self) -> list[LogEvent]:
        events, self._tracker.events = self._tracker.events, []
        return events

    def _note_findings(self) -> None:
        """What the runs themselves show to be wrong."""
        if self._tracker.stored:
            self._tracker.stored = False
            self._diagnoser.went_on()
        waiting, self._tracker.findings = self._tracker.findings, []
        for kind, line, text, advice in waiting:
            self._note(self._diagnoser.add(kind, line, text, advice))

    def _take(self, line: LogLine) -> None:
        text = line.text
        if self._continued(line.number, text) or not text:
            return
        rest, writer, marked = text, Writer(), False
        if not self._read_all and text[0] in _MARKS and (match := _RANK.match(text)) is not None:
            rest, writer, marked = text[match.end() :], _writer(match), True
        for _ in range(_PREFIXES):
            if self._training(line, rest, writer):
                self._note_findings()
                return
            match = _PREFIX.match(rest)
            if match is None:
                break
            rest, level = rest[match.end() :], _writer(match)
            writer += level
            marked = marked or bool(level) or match["zulu"] is not None
        if self._mention is None and ("poch" in rest or "/s" in rest) and _MENTION.search(rest):
            self._mention = (line.number, text.strip()[:TEXT_LIMIT])
        # a time stamp alone is left: the programs whose texts are known print one, too
        self._diagnose(line, rest if marked else text)

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

    def _training(self, line: LogLine, text: str, writer: Writer) -> bool:
        """Whether the line is one of a training; those of higher ranks repeat the chief's and are dropped."""
        takeover = False
        if writer and _mentions_training(text):
            takeover = self._chief is not None and writer < self._chief
            if self._chief is not None and writer != self._chief and self._tracker.current is not None:
                self._tracker.current.interleaved = True
            if self._chief is not None and writer > self._chief:
                return True
            self._chief = writer
        elif writer and self._chief is not None and writer > self._chief and _mentions_header(text):
            return True
        return self._dispatch(line, text, takeover)

    def _dispatch(self, line: LogLine, text: str, takeover: bool) -> bool:
        tracker, number = self._tracker, line.number
        if self._read_all and self._declared(number, text):
            return True
        if text.startswith(("Epoch: [", "Test: [")) and self._trainers.take(number, text):
            return True  # by far the most lines of a log of PyTorch's ImageNet example
        if ":::ML" in text:
            records = read_records(text)
            for record in records:
                take_record(tracker, number, record)
            if records:
                return True
        if "Epoch" in text and (header := read_header(text)):
            take_header(tracker, number, header, takeover=takeover)
        elif summary := read_summary(text, line.head, line.before):
            take_summary(tracker, number, summary, continues=line.continues)
        elif "1/" in text and (first := read_first_step(text)):
            take_first_step(tracker, first)
        elif self._trainers.take(number, text) or self._patterns.take(number, text):
            return True
        else:
            return self._announcement(number, text, takeover)
        return True

    def _declared(self, number: int, text: str) -> bool:
        """Whether an edition's program or a person's own pattern describes the line."""
        programs = self._programs
        return (programs is not None and programs.take(number, text)) or self._patterns.take_own(number, text)

    def _announcement(self, number: int, text: str, takeover: bool) -> bool:
        """Lines of a head: banners, batch sizes, job headers, echoed commands."""
        tracker = self._tracker
        if not holds(text, _HEAD_WORDS):
            return False
        if banner := read_banner(text):
            tracker.banner(number, banner, text, takeover=takeover)
        elif head := read_head(text):
            tracker.assign(number, head, batch_line=is_batch_line(text), samples=read_samples(text))
        elif gpus := read_gpus(number, text):
            tracker.gpus(gpus)
        elif name := read_job_name(text):
            tracker.hint(name)
        elif job := read_job_gpus(number, text):
            tracker.job_gpus = job
        elif header := read_job_header(text):
            tracker.hint(header.facts, run=header.run)
        elif command := read_command(text):
            self._command(number, text, command)
        elif named := read_model(text):
            tracker.announce_next_run(named)
        else:
            return self._event(number, text)
        return True

    def _event(self, number: int, text: str) -> bool:
        """What a framework or a launcher says about a process: that it begins, has all its data, ended well."""
        tracker = self._tracker
        if _GROUP_DONE in text:
            tracker.succeeded()
            self._groups_done += 1
        elif "ran out of data" in text and (batches := read_shortage(text)) is not None:
            tracker.out_of_data(batches)
        elif stopped_early(text):
            tracker.stopped_early(number)
        else:
            if holds(text, PROCESS_WORDS) and starts_process(text):
                tracker.process_started()
            return False
        return True

    def _command(self, number: int, text: str, command: TrainingCommand) -> None:
        tracker = self._tracker
        tracker.command(number, command.facts, command.text, masked=command.no_gpu_flag)
        if command.no_gpu_flag:
            self._note(self._diagnoser.without_gpu_flag(number, text, tracker.index))

    def _diagnose(self, line: LogLine, text: str) -> None:
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


def _mentions_training(text: str) -> bool:
    return text.startswith(("Epoch: [", "Test: [")) or bool(
        ":::ML" in text
        or read_header(text)
        or read_summary(text)
        or Trainers.matches(text)
        or PatternReader.matches(text)
        or read_banner(text)
        or read_head(text)
        or read_gpus(0, text)
    )


def _mentions_header(text: str) -> bool:
    """Whether the line announces a run, as every rank does; the chief's word is enough."""
    return bool(read_model(text) or read_job_header(text) or read_command(text))


def _writer(match: re.Match[str]) -> Writer:
    """Who wrote the line, by this prefix; nothing for a time stamp."""
    for name in ("torch", "srun", "mpi", "ray"):
        if match[name] is not None:
            return ((int(match[name]), name),)
    pod = match["kube"] or match["pod"]
    if pod is None:
        return ()
    number = re.search(r"(\d+)\D*\Z", pod)
    first = re.search(r"master|chief|launcher|leader", pod) is not None
    return ((-1 if first else int(number[1]) if number else 0, pod),)


def parse_log(
    data: bytes | Iterable[bytes],
    *,
    stream: Stream = "out",
    job_name: str = "",
    patterns: Sequence[re.Pattern[str]] = (),
    programs: Sequence[Program] = (),
) -> LogReport:
    """Read a whole log, given at once or in chunks."""
    reader = LogReader(stream=stream, job_name=job_name, patterns=patterns, programs=programs)
    for chunk in (data,) if isinstance(data, bytes) else data:
        reader.feed(chunk)
    reader.finish()
    return reader.report


def diagnose(data: bytes | Iterable[bytes], *, stream: Stream = "err") -> tuple[Diagnosis, ...]:
    """What a log says went wrong, without its runs."""
    return parse_log(data, stream=stream).diagnosis
