"""Why a training ended: the error texts of `errors.toml`, tracebacks, how processes ended, and both streams of a job.

One process often prints the same error many times; each kind is reported once per *episode* (until the next run or the
next separate traceback). The .out of a job has the runs, the .err often has the reason why one of them stopped.
"""

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Literal

import msgspec
from msgspec.structs import replace

from labtui.domain import decode
from labtui.domain.model import Diagnosis, DiagnosisKind, Outcome, Stream
from labtui.training_logs.runs import Failure, GpuCount, LogReport, ParsedRun, conflict, count_gpus, is_worse

TEXT_LIMIT = 300
"""Characters of a line that a diagnosis keeps."""
_LIMIT = 500  # of diagnosis and of failures: a log of nothing but errors must not grow without end


class ErrorPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of `errors.toml`, whose head says what its fields are."""

    kind: DiagnosisKind | Literal[""]
    near: tuple[str, ...]
    pattern: re.Pattern[str]
    advice: str = ""
    outcome: Outcome | Literal[""] = "failed"
    job_level: bool = False
    add_in_container: bool = False
    hint: bool = False


_FILE = tomllib.loads(resources.files("labtui.training_logs").joinpath("errors.toml").read_text("utf-8"))
RULES = tuple(
    decode.convert(row | {"pattern": re.compile(row["pattern"])}, ErrorPattern) for row in _FILE["errors"]
)
SUSPECT: tuple[str, ...] = tuple(
    dict.fromkeys((*_FILE["suspect"], *(word for rule in RULES for word in rule.near)))
)
"""A quick look: a line without any of these needs no rule."""
_SIGNS = {name: re.compile(text) for name, text in _FILE["signs"].items()}
_FOLLOWS = {"ending": "task_ended", "failed": "step_cancelled"}
"""What Slurm does to the other processes of a step, and after which sign: no failures of their own."""
_HARMLESS, _PASSED_ON = (re.compile("|".join(_FILE[name])) for name in ("harmless", "passed_on"))
NO_GPU_SIGN = "There are non-GPU devices in"
"""TensorFlow's own word that a MirroredStrategy runs on the CPU."""
_IN_CONTAINER = " Start the container with `singularity exec --nv ...`, which gives it the GPUs."


def holds(text: str, words: Sequence[str]) -> bool:
    for word in words:  # noqa: SIM110 (`any` costs twice as much, and this is asked of every line)
        if word in text:
            return True
    return False


def _shows(sign: str, text: str) -> bool:
    return _SIGNS[sign].search(text) is not None


class Diagnoser:
    """Reads the lines that are no training lines, in order. `failures` are those of processes, one for each."""

    def __init__(self, stream: Stream = "out") -> None:
        self._stream: Stream = stream
        self._found: list[Diagnosis] = []
        self.failures: list[Failure] = []
        self.in_trace = False  # until it ends, every line may matter
        self._run = 0
        self._first = 0  # the place in `_found` where this run's begin
        self._signs: set[str] = set()  # that change how what follows is read
        # line, text and advice of a traceback: no news if the training goes on after it
        self._waiting: tuple[int, str, str] | None = None
        self._container = False  # the log shows a container
        self._new_episode()

    def _new_episode(self) -> None:
        self._reported: dict[str, tuple[int, Diagnosis]] = {}  # with the rule's place
        self._frame = ""  # the last place the traceback names, the program's own before a library's
        self._frame_own = self._traced = False
        self._failure: int | None = None  # the place of the failure in `failures`

    @property
    def found(self) -> tuple[Diagnosis, ...]:
        """All diagnosis so far, in the order of the log."""
        return tuple(sorted(self._found, key=lambda one: one.line))

    def take(self, number: int, text: str, run: int) -> Failure | None:
        """Look at one line of the run number `run`; gives the failure it shows, if it does."""
        self._enter(run)
        self._container |= _shows("container", text)
        if self.in_trace:
            return self._inside_trace(number, text)
        if not holds(text, SUSPECT) or self._see_frame(text):
            return None
        if _shows("traceback", text):
            self.in_trace, self._frame, self._frame_own = True, "", False
            if self._traced and not self._signs & {"chained", "harmless_trace"}:
                self._new_episode()
            self._signs.discard("chained")
            return None
        self._signs.update(sign for sign in ("chained", "harmless_trace", "ending") if _shows(sign, text))
        if any(_shows(sign, text) for since, sign in _FOLLOWS.items() if since in self._signs):
            return None
        return self._judge(number, text)

    def continued(self) -> None:
        """An epoch was read: a traceback before it did not end the training."""
        self._waiting = None

    def take_command(self, number: int, text: str, run: int, *, without_gpu: bool) -> None:
        """An echoed command: what it runs in decides what is advised; it may ask for GPUs that its container lacks."""
        self._container |= without_gpu or _shows("container", text)
        if without_gpu:
            self._enter(run)
            self._tell(next(rule for rule in RULES if rule.add_in_container), number, text)

    def add(self, kind: DiagnosisKind, line: int, text: str, advice: str) -> None:
        """A finding that rests on more than one line."""
        if len(self._found) < _LIMIT:
            if len(text := text.strip()) > TEXT_LIMIT:
                text = f"{text[:TEXT_LIMIT].rsplit(' ', 1)[0]} …"
            self._found.append(Diagnosis(kind=kind, line=line, text=text, advice=advice, stream=self._stream))

    # ------------------------------------------------------------------ tracebacks

    def _inside_trace(self, number: int, text: str) -> Failure | None:
        if text[:1] in (" ", "\t"):
            self._see_frame(text)
            return None
        self.in_trace = False
        if not _shows("raised", text):
            return self._judge(number, text)  # glued or cut: read it as any other line
        if "harmless_trace" in self._signs:
            self._signs.discard("harmless_trace")
            return None
        self._traced = True
        failure = self._judge(number, text)
        if failure is None and not _HARMLESS.search(text):
            self._stopped(number, text)
        return failure or self._fail("failed", number)

    def _see_frame(self, text: str) -> bool:
        """Whether the line is a traceback's that names a place."""
        match = _SIGNS["frame"].search(text)
        own = match is not None and not _shows("library", match[1])
        if match is not None and (own or not self._frame_own):
            where = f" ({match[3].strip()})" if match[3] else ""
            self._frame, self._frame_own = f"{match[1]}, line {match[2]}{where}", own
        return match is not None

    def _stopped(self, number: int, text: str) -> None:
        place = f" at {self._frame}" if self._frame else ""
        advice = f"The program stopped{place}; the lines above the error in the log show how it got there."
        self._wait_for(number, text, advice)

    def _wait_for(self, number: int, text: str, advice: str) -> None:
        """Keep a traceback that no rule explains. What only passes on another's failure explains nothing."""
        if self._waiting is None or not _PASSED_ON.match(text):
            self._waiting = number, text, advice

    def settle(self) -> None:
        """Tell the traceback that waited, unless something better explains this run."""
        waiting, self._waiting = self._waiting, None
        explained = {found.kind for found in self._found[self._first :]}
        lost = explained & {"process-lost", "node-lost", "rendezvous"}
        if waiting is not None and not lost and not (explained and _PASSED_ON.match(waiting[1])):
            self.add("traceback", *waiting)

    def _enter(self, run: int) -> None:
        if run != self._run:
            self.settle()
            self._new_episode()
            self._signs -= _FOLLOWS.keys()
            self._run, self._first = run, len(self._found)

    # ------------------------------------------------------------------ rules

    def _judge(self, number: int, text: str) -> Failure | None:
        if _HARMLESS.search(text):
            return None
        rule = next((one for one in RULES if holds(text, one.near) and one.pattern.search(text)), None)
        if rule is None:
            if not _shows("unparsed", text):
                return None
            self._stopped(number, text)
            return self._fail("failed", number)
        failure = self._fail(rule.outcome, number, rule.job_level) if rule.outcome else None
        if rule.kind:
            self._tell(rule, number, text)
        elif _shows("ended", text):
            self._new_episode()  # what follows is another process
        return failure

    def _tell(self, rule: ErrorPattern, number: int, text: str) -> None:
        key, trust = f"{rule.kind} hint" if rule.hint else str(rule.kind), RULES.index(rule)
        told = self._reported.get(key)
        again = told is not None and (told[0] <= trust or rule.kind != "process-lost")
        if not rule.kind or again or len(self._found) >= _LIMIT:
            return
        if told is not None:  # this line names who was lost
            self._found.remove(told[1])
        match = rule.pattern.search(text)
        advice = rule.advice.format(**match.groupdict()) if match is not None else rule.advice
        if rule.add_in_container and self._container:
            advice += _IN_CONTAINER
        # a sentence after a traceback is not its last line
        if self._frame and self._traced and not text.startswith(("error: ", "srun: ", " ")):
            advice += f" It was raised at {self._frame}."
        self.add(rule.kind, number, text, advice)
        self._reported[key] = (trust, self._found[-1])

    def _fail(self, outcome: Outcome, number: int, job_level: bool = False) -> Failure:
        failure, place = Failure(outcome, number, job_level), self._failure
        if job_level:
            if all(old.outcome != outcome for old in self.failures if old.job_level):
                self.failures.append(failure)
            return failure
        self._signs.add("failed")
        if place is None and len(self.failures) < _LIMIT:
            self._failure = len(self.failures)
            self.failures.append(failure)
        elif place is not None and is_worse(outcome, self.failures[place].outcome):
            self.failures[place] = failure
        return failure


# --------------------------------------------------------------------------- both streams of a job


def join_streams(out: LogReport, err: LogReport | None) -> LogReport:
    """Outcome and diagnosis of both streams. Line numbers stay those of the stream a diagnosis names.

    Runs of the .err count only where the .out has none (a program that logs to stderr). TensorFlow tells the devices
    it uses in the .err: they count for the runs of the .out.
    """
    if err is None:
        return replace(out, diagnosis=_of_runs(out.runs, out.diagnosis))
    warned = out.cpu_warnings + err.cpu_warnings
    if err.gpu_kind is not None and out.gpu_kind is None:
        named = tuple(replace(run, gpu_kind=run.gpu_kind or err.gpu_kind) for run in out.runs)
        out = replace(out, runs=named, gpu_kind=err.gpu_kind)
    if out.runs and warned < len(out.runs):  # else they trained on the CPU
        out = _with_gpu_lines(out, err.strategies)
    runs = _blame(out.runs, err.failures) if out.runs else err.runs
    if runs and warned >= len(runs):  # a run that asked for GPUs and had none is a CPU run
        runs = tuple(
            run if run.mark else replace(run, device="cpu", n_gpus=0, contradictions=()) for run in runs
        )
    diagnosis = out.diagnosis + tuple(replace(found, stream="err") for found in err.diagnosis)
    return replace(
        out,
        runs=runs,
        diagnosis=_of_runs(runs, diagnosis),
        failures=out.failures + err.failures,
        binary=out.binary or err.binary,
    )


def _blame(runs: tuple[ParsedRun, ...], failures: Sequence[Failure]) -> tuple[ParsedRun, ...]:
    """Give the .err's failures to the runs that did not end, in order; the job's end is the last run's."""
    result = list(runs)
    waiting = [place for place, run in enumerate(result) if run.outcome in ("unfinished", "failed")]
    blamed = list(zip(waiting, (one for one in failures if not one.job_level), strict=False))
    if result[-1].outcome != "completed":
        blamed += [(-1, one) for one in failures if one.job_level]
    for place, failure in blamed:
        if result[place].outcome == "unfinished" or is_worse(failure.outcome, result[place].outcome):
            result[place] = replace(result[place], outcome=failure.outcome)
    return tuple(result)


def _with_gpu_lines(report: LogReport, reported: Sequence[GpuCount]) -> LogReport:
    """The report with each run's surest number of GPUs, where a line of the .err tells one, and what contradicts it.

    Known where there is one line for each run, or where more lines than that (each process prints its own) all
    say the same. Else it is open which run a line belongs to, and none is taken.
    """
    runs = list(report.runs)
    lines = [replace(line, stream="err") for line in reported]
    if len(lines) > len(runs) and len({(line.source, line.count, line.device) for line in lines}) == 1:
        lines = lines[:1] * len(runs)
    for place, line in enumerate(lines if len(lines) == len(runs) else ()):
        run = runs[place]
        if run.mark or run.device == "cpu":
            continue  # CPU devices that stand in for GPUs, and a CPU, which is one replica, too
        runs[place] = count_gpus(replace(run, gpu_lines=(*run.gpu_lines, line)))
    return replace(report, runs=tuple(runs))


def _of_runs(runs: Sequence[ParsedRun], diagnosis: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """With what the runs contradict, without what is no news: a CPU run has no GPU; a job out of time was ended."""
    diagnosis += tuple(filter(None, map(conflict, runs)))
    if any(found.kind == "time-limit" for found in diagnosis):
        diagnosis = tuple(found for found in diagnosis if not _shows("ended_by_signal", found.text))
    others = tuple(found for found in diagnosis if not _is_hint(found))
    wanted = any(run.device != "cpu" and not run.mark for run in runs) if runs else not others
    return diagnosis if wanted and all(found.kind != "no-gpu" for found in others) else others


def _is_hint(found: Diagnosis) -> bool:
    """Whether a line that there is no GPU is also printed on a node that has none and needs none."""
    return any(rule.hint and rule.kind == found.kind and rule.pattern.search(found.text) for rule in RULES)
