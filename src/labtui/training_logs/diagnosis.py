"""From error texts to a diagnosis with its line and advice, to how processes ended, and to both streams of a job.

One process often prints the same error many times; each kind is reported once per *episode* (until the
next run or the next separate traceback). The .out of a job has the runs, the .err often has the reason why one of them
stopped. The texts are in `error_patterns`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labtui.domain.model import Diagnosis, DiagnosisKind, Outcome, Stream
from labtui.training_logs.error_patterns import (
    HARMLESS,
    IN_CONTAINER,
    RULES,
    SUSPECT,
    WEAK_NO_GPU,
    ErrorPattern,
)
from labtui.training_logs.runs import (
    GRAVITY,
    Failure,
    GpuCount,
    LogReport,
    ParsedRun,
    contradiction,
    most_reliable,
)

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_HARMLESS_TRACE = re.compile(r"Exception ignored in|--- Logging error ---")
_RAISED = re.compile(
    r"(?:[A-Za-z_][\w.]{0,200}\.)?[A-Za-z_]\w{0,100}(?:Error|Exception|Interrupt|Exit|Warning)?\b(?::|\Z)"
)
_DIED = re.compile(
    r": line \d+: +\d+ (?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)"
    r"|srun: error: .{0,200}: task.{0,80}: (?:Exited with exit code [1-9]|Segmentation fault|Aborted)"
)
_FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d{1,9})(?:, in (.{1,100}))?')
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^<")
_WRAPPER = re.compile(
    r"(?:[\w.]+\.)?(?:ChildFailedError|CalledProcessError|DistBackendError|ConnectionResetError|BrokenPipeError)\b"
)
_UNPARSED = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
_LIMIT = 500  # of diagnosis and of failures: a log of nothing but errors must not grow without end
_LAUNCHER = re.compile(
    r"(?:[\w.]+\.)?(?:ChildFailedError\b|SignalException: Process \d+ got signal: 15|RendezvousConnectionError\b"
    r"|UnavailableError: .{0,400}Error reported from /job:worker/task:\d)"
)
"""What torchrun or TensorFlow's other workers raise when a process has ended: the reason stands elsewhere."""
_NEVER_CAME = re.compile(r"(?:[\w.]+\.)?RendezvousTimeoutError\b")
_ROW = re.compile(r"\s*(host|rank|exitcode)\s+: (\S{1,200})")
_ENDING = re.compile(
    r"srun: (?:Job step aborted|forcing job termination|launch/slurm: _step_signal: Terminating)"
)
_TASK = re.compile(
    r"srun: error: (\S{1,200}): tasks? [\d,-]{1,80}: (Killed|Terminated|Exited with exit code)\b"
)
_CONTAINER = re.compile(r"\b(?:singularity|apptainer)\b|^(?:INFO|WARNING|FATAL): {3}")
_KILLED = re.compile(r"\bKilled\b")
_STEP_CANCELLED = re.compile(r"\*\*\* STEP \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40} \*\*\*")
_ENDED = re.compile(r"error: this training ended with exit status \d")
_SPOKEN = re.compile(r"(?:[\w./-]{1,80}: )?error: ")
TEXT_LIMIT = 300
"""Characters of a line that a diagnosis keeps."""


@dataclass(frozen=True, slots=True)
class LogDiagnosis:
    """What one line gave: a diagnosis, a failure, both or neither."""

    diagnosis: Diagnosis | None = None
    failure: Failure | None = None


def holds(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 (`any` costs twice as much, and this is asked of every line)
        if word in text:
            return True
    return False


class StepEnd:
    """How srun and torchrun end the other processes of a step after one has failed; that is no failure of its own.

    `ending`: srun has begun to end the step. `exited` are nodes with tasks that ended themselves, `ended` those with
    tasks that srun had to end.
    """

    def __init__(self) -> None:
        self.ending = False
        self.exited: list[str] = []
        self.ended: list[str] = []
        self._row: dict[str, str] = {}
        self._ends: list[tuple[str, str, int, int, str]] = []  # rank, host, exit code, line, its text

    def take(self, number: int, text: str, failed: bool) -> bool:
        """Whether the line is only about this; `failed` says that a process has failed before it."""
        if _ENDING.match(text):
            self.ending = True
        elif (match := _TASK.match(text)) and match[2].startswith("Exited"):
            self.exited.append(match[1])
        elif match and self.ending:
            self.ended.append(match[1])
            return True
        elif match := _ROW.match(text):
            self._note(number, text, match[1], match[2])
            return True
        return failed and _STEP_CANCELLED.search(text) is not None

    def _note(self, number: int, text: str, name: str, value: str) -> None:
        """A row of torchrun's table; where two nodes' tables mix, nothing is taken from them."""
        if name in self._row:
            self._row = {"mixed": ""}
        self._row[name] = value
        if name != "exitcode":
            return
        code = re.fullmatch(r"-?\d{1,4}", value)
        if self._row.keys() == {"host", "rank", "exitcode"} and code is not None:
            self._ends.append((self._row["rank"], self._row["host"], int(value), number, text))
        self._row = {}

    def killed(self) -> tuple[int, str, str] | None:
        """(line, its text, advice) of the first process that a signal ended; torchrun's own SIGTERM is none."""
        for rank, host, code, line, text in self._ends:
            if code < 0 and code != -15:
                signal = (
                    f"signal {-code}"
                    if code != -9
                    else "signal 9: by you, by the system, or because the memory was full"
                )
                return (
                    line,
                    text,
                    f"Rank {rank} on {host} was ended by {signal}; the others ended because of it.",
                )
        return None


class Diagnoser:
    """Reads the lines that are no training lines, in order."""

    def __init__(self, stream: Stream = "out") -> None:
        self._stream: Stream = stream
        self._found: list[Diagnosis] = []
        self._reported: set[tuple[str, int]] = set()
        self._episode = 0
        self._run = 0
        self._in_trace = False
        self._traced = False  # this episode has had its traceback
        self._frame = ""  # the last place the traceback names, the program's own before a library's
        self._frame_own = False
        self._waiting: Diagnosis | None = (
            None  # a traceback: of interest unless the training goes on after it
        )
        self._last = (0, "")
        self._skip_trace = False
        self._chained = False
        self._failures: list[Failure] = []
        self._open_failure = False  # the last failure belongs to this episode
        self._step = StepEnd()
        self._failed = False  # a process of this run has failed
        self._container = False  # the log shows a container
        self._first = 0  # the place in `_found` where this run's begin

    @property
    def found(self) -> tuple[Diagnosis, ...]:
        """All diagnosis so far, in the order of the log."""
        return tuple(sorted(self._found, key=lambda one: one.line))

    @property
    def in_trace(self) -> bool:
        """Whether a traceback is being read: until it ends, every line may matter."""
        return self._in_trace

    @property
    def failures(self) -> tuple[Failure, ...]:
        """How processes ended badly, in the order of the log; one per process."""
        return tuple(self._failures)

    def take(self, number: int, text: str, run: int) -> LogDiagnosis:
        """Look at one line; `run` is the index of the run it stands in."""
        self._enter(run)
        self._container = self._container or _CONTAINER.search(text) is not None
        if self._in_trace:
            return self._inside_trace(number, text)
        if not holds(text, SUSPECT):
            return LogDiagnosis()
        if match := _FRAME.match(text):
            self._see_frame(match)
            return LogDiagnosis()
        if _TRACEBACK in text:
            self._begin_trace()
            return LogDiagnosis()
        if self._step.take(number, text, self._failed):
            return LogDiagnosis()
        if _CHAINED.search(text):
            self._chained = True
        if _HARMLESS_TRACE.search(text):
            self._skip_trace = True
        return self._judge(number, text)

    def went_on(self) -> None:
        """An epoch was read: a traceback before it did not end the training."""
        self._waiting = None

    def finish(self) -> LogDiagnosis:
        """The log is complete: the traceback it ends in, if it does, and the failure when it was cut short."""
        failure = None
        if self._in_trace and self._frame and not self._skip_trace:
            number, text = self._last
            self._wait_for(number, text, cut=True)
            failure = self._fail("failed", number, False)
        return LogDiagnosis(self._settle(), failure)

    def see_command(self, text: str) -> None:
        """An echoed command: what it runs in decides what is advised."""
        self._container = self._container or _CONTAINER.search(text) is not None

    def without_gpu_flag(self, number: int, text: str, run: int) -> Diagnosis | None:
        """The echoed command starts a container without GPU access although it asks for GPUs."""
        self._enter(run)
        self._container = True
        rule = next(rule for rule in RULES if rule.in_container)
        return self._tell(rule, number, text)

    def add(self, kind: DiagnosisKind, line: int, text: str, advice: str) -> Diagnosis | None:
        """A finding that rests on more than one line; None when there are too many already."""
        if len(self._found) >= _LIMIT:
            return None
        found = Diagnosis(
            kind=kind, line=line, text=text.strip()[:TEXT_LIMIT], advice=advice, stream=self._stream
        )
        self._found.append(found)
        return found

    # ------------------------------------------------------------------ tracebacks

    def _begin_trace(self) -> None:
        self._in_trace = True
        self._frame, self._frame_own = "", False
        if self._traced and not self._chained and not self._skip_trace:
            self._new_episode()
        self._chained = False

    def _inside_trace(self, number: int, text: str) -> LogDiagnosis:
        self._last = (number, text)
        if text[:1] in (" ", "\t") or not _RAISED.match(text):
            if text[:1] not in (" ", "\t"):
                self._in_trace = False  # glued or cut: read it as any other line
                return self._judge(number, text)
            if match := _FRAME.match(text):
                self._see_frame(match)
            return LogDiagnosis()
        self._in_trace = False
        if self._skip_trace:
            self._skip_trace = False
            return LogDiagnosis()
        self._traced = True
        finding = self._judge(number, text)
        if finding.failure is None:
            if not HARMLESS.search(text):
                self._wait_for(number, text)
            return replace(finding, failure=self._fail("failed", number, False))
        return finding

    def _see_frame(self, match: re.Match[str]) -> None:
        own = _LIBRARY.search(match[1]) is None
        if own or not self._frame_own:
            where = f" ({match[3].strip()})" if match[3] else ""
            self._frame, self._frame_own = f"{match[1]}, line {match[2]}{where}", own

    def _wait_for(self, number: int, text: str, *, cut: bool = False) -> None:
        """Keep a traceback that no rule explains. What only passes on another's failure explains nothing."""
        if self._waiting is not None and _WRAPPER.match(text):
            return
        place = f" at {self._frame}" if self._frame else ""
        if cut:
            advice = (
                f"The log ends inside a traceback{place}: its last line, which names the error, is missing."
            )
        else:
            advice = (
                f"The program stopped{place}; the lines above the error in the log show how it got there."
            )
        self._waiting = Diagnosis(
            kind="traceback", line=number, text=text.strip()[:TEXT_LIMIT], advice=advice, stream=self._stream
        )

    def _settle(self) -> Diagnosis | None:
        """The traceback that waited, unless something better explains this run."""
        waiting, self._waiting = self._waiting, None
        explained = {found.kind for found in self._found[self._first :]}
        killed = self._step.killed()
        if killed is not None and not explained & {"process-lost", "node-lost", "host-memory", "oom"}:
            line, text, advice = killed
            return self.add("process-lost", line, text, advice)
        if waiting is None or len(self._found) >= _LIMIT or (explained and _LAUNCHER.match(waiting.text)):
            return None
        if _NEVER_CAME.match(waiting.text):
            return self.add("rendezvous", waiting.line, waiting.text, self._who_never_came())
        self._found.append(waiting)
        return waiting

    def _who_never_came(self) -> str:
        nodes = ", ".join(dict.fromkeys(n for n in self._step.ended if n not in self._step.exited))
        who = f"{nodes} never joined" if nodes else "Not all nodes joined"
        return (
            f"{who} the training in the time that torchrun waits (join_timeout). Read what went wrong there: "
            "a container that did not start, a disk that hangs, a first node whose name cannot be resolved."
        )

    def _enter(self, run: int) -> None:
        if run != self._run:
            self._run = run
            self._settle()
            self._new_episode()
            self._step, self._failed, self._first = StepEnd(), False, len(self._found)

    def _new_episode(self) -> None:
        self._episode += 1
        self._reported.clear()
        self._frame, self._frame_own = "", False
        self._traced = self._open_failure = False

    # ------------------------------------------------------------------ rules

    def _judge(self, number: int, text: str) -> LogDiagnosis:
        if HARMLESS.search(text):
            return LogDiagnosis()
        for rule in RULES:
            if holds(text, rule.near) and rule.pattern.search(text):
                return self._apply(rule, number, text)
        if _UNPARSED.match(text):
            self._wait_for(number, text)
            return LogDiagnosis(failure=self._fail("failed", number, False))
        if _ENDED.match(text):
            failure = self._fail("failed", number, False)
            self._new_episode()  # what follows is another process
            return LogDiagnosis(failure=failure)
        spoken = _SPOKEN.match(text) and not text.startswith(("slurmstepd", "srun", "sbatch"))
        if spoken or _DIED.search(text):
            return LogDiagnosis(failure=self._fail("failed", number, False))
        return LogDiagnosis()

    def _apply(self, rule: ErrorPattern, number: int, text: str) -> LogDiagnosis:
        if rule.kind == "process-lost" and not _KILLED.search(text):
            self._leave_killed_tasks_to_the_ranks()
        elif rule.kind == "process-lost" and _TASK.match(text) and self._a_rank_was_lost():
            return LogDiagnosis(failure=self._fail("failed", number, False))
        failure = None if rule.outcome is None else self._fail(rule.outcome, number, rule.job_level)
        return LogDiagnosis(self._tell(rule, number, text), failure)

    def _a_rank_was_lost(self) -> bool:
        mine = self._found[self._first :]
        return any(found.kind == "process-lost" and not _KILLED.search(found.text) for found in mine)

    def _leave_killed_tasks_to_the_ranks(self) -> None:
        """Their `Killed` may mean a full memory; the training names the rank, and both reasons."""
        mine = self._found[self._first :]
        killed = [found for found in mine if found.kind == "process-lost" and _TASK.match(found.text)]
        self._found[self._first :] = [found for found in mine if found not in killed]
        if killed:
            self._reported.discard(("process-lost", self._episode))
        lines = {found.line for found in killed}
        self._failures = [
            replace(old, outcome="failed") if old.line in lines else old for old in self._failures
        ]

    def _tell(self, rule: ErrorPattern, number: int, text: str) -> Diagnosis | None:
        hint = rule.kind == "no-gpu" and WEAK_NO_GPU.search(text) is not None
        key = (rule.kind + " hint" * hint, self._episode)
        if key in self._reported or len(self._found) >= _LIMIT:
            return None
        self._reported.add(key)
        spoken = text.startswith(("error: ", "srun: "))  # a sentence after a traceback, not its last line
        raised = f" It was raised at {self._frame}." if self._frame and self._traced and not spoken else ""
        diagnosis = Diagnosis(
            kind=rule.kind,
            line=number,
            text=text.strip()[:TEXT_LIMIT],
            advice=rule.advise(text)
            + (IN_CONTAINER if rule.in_container and self._container else "")
            + raised,
            stream=self._stream,
        )
        self._found.append(diagnosis)
        return diagnosis

    def _fail(self, outcome: Outcome, number: int, job_level: bool) -> Failure:
        failure = Failure(outcome, number, job_level)
        if job_level:
            if not any(old.job_level and old.outcome == outcome for old in self._failures):
                self._failures.append(failure)
            return failure
        self._failed = True
        if self._open_failure:
            place = max(index for index, old in enumerate(self._failures) if not old.job_level)
            if GRAVITY[outcome] > GRAVITY[self._failures[place].outcome]:
                self._failures[place] = failure
        elif len(self._failures) < _LIMIT:
            self._failures.append(failure)
            self._open_failure = True
        return failure


_ENDED_BY_SIGNAL = re.compile(r"terminated from outside|DUE to SIGNAL")


def join_streams(out: LogReport, err: LogReport | None) -> LogReport:
    """Outcome and diagnosis of both streams. Line numbers stay those of the stream a diagnosis names.

    Runs of the .err count only where the .out has none (a program that logs to stderr). TensorFlow tells the devices
    it uses in the .err: they count for the runs of the .out.
    """
    if err is None:
        return replace(out, diagnosis=_fitting(out.runs, out.diagnosis))
    warned = out.cpu_warnings + err.cpu_warnings
    if err.gpu_kind is not None and out.gpu_kind is None:
        named = tuple(replace(run, gpu_kind=run.gpu_kind or err.gpu_kind) for run in out.runs)
        out = replace(out, runs=named, gpu_kind=err.gpu_kind)
    if out.runs and warned < len(out.runs):  # else they trained on the CPU
        out = _weighed(out, _strategies(len(out.runs), err.strategies))
    runs = out.runs or err.runs
    diagnosis = out.diagnosis + tuple(replace(found, stream="err") for found in err.diagnosis)
    runs = _blame(runs, err.failures if out.runs else ())
    runs = _finished(runs, err.groups_done if out.runs and not err.failures else 0)
    runs = _unmask(runs, warned)
    return replace(
        out,
        runs=runs,
        gpus=out.gpus if out.runs else err.gpus,
        diagnosis=_fitting(runs, diagnosis),
        failures=out.failures + err.failures,
        binary=out.binary or err.binary,
    )


def _blame(runs: tuple[ParsedRun, ...], failures: Sequence[Failure]) -> tuple[ParsedRun, ...]:
    """Give the .err's failures to the runs that did not end, in order; the job's end is the last run's."""
    result = list(runs)
    waiting = [place for place, run in enumerate(result) if run.outcome in ("unfinished", "failed")]
    own = [found for found in failures if not found.job_level]
    for place, failure in zip(waiting, own, strict=False):
        result[place] = _more_severe(result[place], failure)
    for failure in failures:
        if failure.job_level and result and result[-1].outcome != "completed":
            result[-1] = _more_severe(result[-1], failure)
    return tuple(result)


def _finished(runs: tuple[ParsedRun, ...], done: int) -> tuple[ParsedRun, ...]:
    """A launcher says in the .err that a training ended well; which one is known when all of them did."""
    if not runs or done < len(runs):
        return runs
    return tuple(replace(run, outcome="completed") if run.outcome == "unfinished" else run for run in runs)


def _strategies(count: int, reported: Sequence[GpuCount]) -> tuple[GpuCount | None, ...]:
    """The line of the .err that tells TensorFlow's devices, for each of `count` runs.

    Known where there is one line for each run, or where more lines than that (each process prints its own) all
    say the same. Else it is open which run a line belongs to, and none is taken.
    """
    lines = [replace(line, stream="err") for line in reported]
    if len(lines) == count:
        return tuple(lines)
    if len(lines) > count and len({(line.source, line.count, line.device) for line in lines}) == 1:
        return (lines[0],) * count
    return (None,) * count


def _weighed(report: LogReport, strategies: Sequence[GpuCount | None]) -> LogReport:
    """The report with each run's surest number of GPUs, where a line of the .err tells one, and what contradicts it."""
    runs, gpus, found = list(report.runs), list(report.gpus), list(report.diagnosis)
    for place, line in enumerate(strategies):
        run = runs[place]
        if line is None or run.practice or run.device == "cpu":
            continue  # CPU devices that stand in for GPUs, and a CPU, which is one replica, too
        gpus[place] = (*gpus[place], line)
        best, other = most_reliable(gpus[place])
        if best is line and line.device == "gpu":
            runs[place] = replace(run, n_gpus=line.count, device="gpu")
        if other is not None and not run.contradictions:
            text, advice = contradiction(other, best)
            runs[place] = replace(runs[place], contradictions=(text,))
            found.append(
                Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream)
            )
    return replace(report, runs=tuple(runs), gpus=tuple(gpus), diagnosis=tuple(found))


def _more_severe(run: ParsedRun, failure: Failure) -> ParsedRun:
    if run.outcome == "unfinished" or GRAVITY[failure.outcome] > GRAVITY[run.outcome]:
        return replace(run, outcome=failure.outcome)
    return run


def _unmask(runs: tuple[ParsedRun, ...], warnings: int) -> tuple[ParsedRun, ...]:
    """A run that asked for GPUs and had none is a CPU run; claimed only when all of the job's runs warned."""
    if not runs or warnings < len(runs):
        return runs
    return tuple(
        run if run.practice else replace(run, device="cpu", n_gpus=0, contradictions=()) for run in runs
    )


def _fitting(runs: Sequence[ParsedRun], diagnosis: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """What is no news is left out: runs meant for the CPU find no GPU; a job out of time was terminated."""
    if any(found.kind == "time-limit" for found in diagnosis):
        diagnosis = tuple(found for found in diagnosis if not _ENDED_BY_SIGNAL.search(found.text))
    if _gpu_was_missed(runs, diagnosis):
        return diagnosis
    return tuple(found for found in diagnosis if not _is_hint(found))


def _gpu_was_missed(runs: Sequence[ParsedRun], diagnosis: Sequence[Diagnosis]) -> bool:
    """Whether hints that there is no GPU are news: a GPU was wanted, and nothing says more than they do."""
    if any(found.kind == "no-gpu" and not _is_hint(found) for found in diagnosis):
        return False
    if not runs:
        return all(_is_hint(found) for found in diagnosis)
    return any(run.device != "cpu" and not run.practice for run in runs)


def _is_hint(found: Diagnosis) -> bool:
    return found.kind == "no-gpu" and WEAK_NO_GPU.search(found.text) is not None
