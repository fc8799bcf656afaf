"""Finds why a training ended: the error texts of `errors.toml`, tracebacks, how processes ended; joins a job's streams.

One process often prints the same error many times; each kind is reported once per *episode* (until the next run or the
next separate traceback). The .out of a job has the runs, the .err often the reason why one of them stopped.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import re2
from msgspec.structs import replace

from labtui.domain import decode
from labtui.domain.model import Diagnosis, DiagnosisKind, Outcome, Stream, plural
from labtui.domain.run import GpuCount
from labtui.training_logs.runs import Failure, LogReport, ParsedRun, count_gpus, is_worse, most_reliable

MAX_TEXT = 300
"""How many characters of a line a diagnosis keeps."""
_MAX_FINDINGS = 500  # and as many failures: memory stays bounded for a log full of errors


class ErrorPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of `errors.toml`; the comment at the head of that file explains the fields."""

    kind: DiagnosisKind | Literal[""]
    near: tuple[str, ...]
    pattern: re.Pattern[str]
    advice: str = ""
    outcome: Outcome | Literal[""] = "failed"
    job_level: bool = False
    add_in_container: bool = False
    without_gpu: bool = False
    hint: bool = False


_FILE = decode.own_toml(__file__, "errors.toml")
_ROWS = (row | {"pattern": re.compile(row["pattern"])} for row in _FILE["errors"])
RULES = tuple(decode.convert(row, ErrorPattern) for row in _ROWS)
WITHOUT_GPU = next(rule for rule in RULES if rule.without_gpu)
"""The error text of a training on the CPU, whatever it asked for."""
_NEAR: tuple[str, ...] = (*_FILE["suspect"], *(word for rule in RULES for word in rule.near))
_SUSPECT = re2.compile("|".join(map(re.escape, _NEAR)))
"""A quick filter: no rule is tried on a line without any of these."""
_SIGNS = {name: re.compile(text) for name, text in _FILE["signs"].items()}
_FOLLOWS = {"ending": "task_ended", "failed": "step_cancelled"}
"""By sign: the lines that follow when Slurm ends a step's other processes, which did not fail themselves."""
_HARMLESS, _PASSED_ON = (re.compile("|".join(_FILE[name])) for name in ("harmless", "passed_on"))


def _shows(sign: str, text: str) -> bool:
    return _SIGNS[sign].search(text) is not None


class Diagnoser:
    """Reads the lines that are not about training, in order."""

    def __init__(self, stream: Stream = "out") -> None:
        self._stream: Stream = stream
        self.found: list[Diagnosis] = []
        self.failures: dict[int | str, Failure] = {}  # the gravest by process; a job's by its outcome
        self.in_trace = False  # every line may matter until it ends
        self._run = 0
        self._first = 0  # the index in `found` of this process's first finding
        self._signs: set[str] = set()  # signs seen that change how later lines are read
        # Line, text and advice of a traceback or an error; an epoch after it drops it: the training went on.
        self.kept: tuple[int, str, str] | None = None
        self._container = False  # the log shows that the training runs in a container
        self._episode = 0
        self._new_episode()

    def _new_episode(self) -> None:
        self._reported: dict[str, tuple[int, Diagnosis]] = {}  # by kind, with the rule's index
        self._frame = ""  # the traceback's last location, in the program rather than in a library
        self._frame_own = self._traced = False
        self._episode += 1

    def take(self, number: int, text: str, run: int) -> Outcome | None:
        """Read one line of the run with number `run`; return how the process failed, if it shows that."""
        self._enter(run)
        self._container |= _shows("container", text)
        if self.in_trace:
            return self._inside_trace(number, text)
        if not _SUSPECT.search(text) or self._see_frame(text):
            return None
        if _shows("traceback", text):
            self.in_trace, self._frame, self._frame_own = True, "", False
            if self._traced and not self._signs & {"chained", "harmless_trace"}:
                self._new_episode()
            self._signs.discard("chained")
            return None
        self._signs.update(sign for sign in ("chained", "harmless_trace", "ending") if _shows(sign, text))
        if any(_shows(sign, text) for cause, sign in _FOLLOWS.items() if cause in self._signs):
            return None
        return self._judge(number, text)

    def take_command(self, number: int, text: str, run: int, *, without_gpu: bool) -> None:
        """Read an echoed command, whose container affects the advice; `without_gpu`: the container lacks its GPUs."""
        self._container |= without_gpu or _shows("container", text)
        if without_gpu:
            self._enter(run)
            self._report(WITHOUT_GPU, number, text)

    def add(self, kind: DiagnosisKind, line: int, text: str, advice: str) -> None:
        """Add a finding, with its text shortened to `MAX_TEXT`."""
        if len(self.found) < _MAX_FINDINGS:
            if len(text := text.strip()) > MAX_TEXT:
                text = f"{text[:MAX_TEXT].rsplit(' ', 1)[0]} …"
            found = Diagnosis(kind=kind, line=line, text=text, advice=advice, stream=self._stream)
            if found not in self.found:
                self.found.append(found)

    # ------------------------------------------------------------------ tracebacks

    def _inside_trace(self, number: int, text: str) -> Outcome | None:
        if text[:1] in (" ", "\t"):
            self._see_frame(text)
            return None
        self.in_trace = False
        if not _shows("raised", text):
            return self._judge(number, text)  # merged with other output or cut off: read it as any other line
        if "harmless_trace" in self._signs:
            self._signs.discard("harmless_trace")
            return None
        self._traced = True
        failure = self._judge(number, text)
        if failure is None and not _HARMLESS.search(text):
            self._keep_traceback(number, text)
        return failure or self._fail("failed")

    def _see_frame(self, text: str) -> bool:
        """Remember the location in a traceback that the line names; return whether it names one."""
        match = _SIGNS["frame"].search(text)
        own = match is not None and not _shows("library", match[1])
        if match is not None and (own or not self._frame_own):
            where = f" ({match[3].strip()})" if match[3] else ""
            self._frame, self._frame_own = f"{match[1]}, line {match[2]}{where}", own
        return match is not None

    def _keep_traceback(self, number: int, text: str) -> None:
        """Keep a traceback or an error that no rule explains. One that is only passed on does not replace it."""
        if self.kept is None or not _PASSED_ON.match(text):
            at = f" at {self._frame}" if self._frame else ""
            advice = f"The program stopped{at}; the lines above the error in the log show how it got there."
            self.kept = number, text, advice

    def settle(self) -> None:
        """Report the traceback or the error that was kept, unless another finding explains this end better."""
        kept, self.kept = self.kept, None
        explained = {found.kind for found in self.found[self._first :] if not _is_hint(found)}
        lost = explained & {"process-lost", "node-lost", "rendezvous"}
        if kept is not None and not lost and not (explained and _PASSED_ON.match(kept[1])):
            self.add("traceback", *kept)
        self._first = len(self.found)

    def _enter(self, run: int) -> None:
        if run != self._run:
            self.settle()
            self._new_episode()
            self._signs -= _FOLLOWS.keys()
            self._run = run

    # ------------------------------------------------------------------ rules

    def _judge(self, number: int, text: str) -> Outcome | None:
        if _HARMLESS.search(text):
            return None
        near = (rule for rule in RULES if any(word in text for word in rule.near))
        rule = next((rule for rule in near if rule.pattern.search(text)), None)
        if rule is None:
            if not _shows("unparsed", text):
                return None
            self._keep_traceback(number, text)
            return self._fail("failed")
        failure = self._fail(rule.outcome, rule.job_level) if rule.outcome else None
        if rule.kind:
            self._report(rule, number, text)
        elif _shows("ended", text):
            self.settle()
            self._new_episode()  # the next lines are another process's
        elif not text.startswith("srun: "):
            self._keep_traceback(number, text)
        return failure

    def _report(self, rule: ErrorPattern, number: int, text: str) -> None:
        key = f"{rule.kind} hint" if rule.hint else str(rule.kind)
        rank = RULES.index(rule)
        earlier = self._reported.get(key)
        repeated = earlier is not None and (earlier[0] <= rank or rule.kind != "process-lost")
        if not rule.kind or repeated or len(self.found) >= _MAX_FINDINGS:
            return
        if earlier is not None:  # this line names the lost process
            self.found.remove(earlier[1])
        match = rule.pattern.search(text)
        advice = rule.advice.format(**match.groupdict()) if match is not None else rule.advice
        if rule.add_in_container and self._container:
            advice += f" {_FILE['in_container']}"
        # Slurm's sentence after a traceback is not the traceback's last line
        if self._frame and self._traced and not text.startswith(("error: ", "srun: ", " ")):
            advice += f" It was raised at {self._frame}."
        if match is not None and match.start() > 0 and match.end() > MAX_TEXT:  # keep what was found
            text = f"… {text[match.start() :]}"
        self.add(rule.kind, number, text, advice)
        self._reported[key] = (rank, self.found[-1])

    def _fail(self, outcome: Outcome, job_level: bool = False) -> Outcome:
        key = outcome if job_level else self._episode
        before = self.failures.get(key)
        if len(self.failures) < _MAX_FINDINGS and (before is None or is_worse(outcome, before.outcome)):
            self.failures[key] = Failure(outcome, job_level)
        if not job_level:
            self._signs.add("failed")
        return outcome


# --------------------------------------------------------------------------- both streams of a job


def runs_of_job(out: Sequence[ParsedRun], err: Sequence[ParsedRun]) -> tuple[ParsedRun, ...]:
    """A job's runs: those of the .out, or those of the .err where only they have epochs or a rate (tqdm's bars).

    What the .out tells about runs without epochs fills gaps there.
    """
    if not any(map(_has_result, err)) or any(map(_has_result, out)):
        return tuple(out)
    told = out if len(out) == len(err) else err
    return tuple(replace(e.with_others(o, sure=False), stream="err") for e, o in zip(err, told, strict=True))


def _has_result(run: ParsedRun) -> bool:
    return bool(run.epochs) or run.throughput is not None


def join_streams(out: LogReport, err: LogReport | None) -> LogReport:
    """The report of both streams. Each finding keeps its line number in the stream that it names.

    TensorFlow prints its devices to the .err: they count for the runs of the .out.
    """
    if err is None:
        return replace(out, diagnosis=_findings_of(out.runs, out.diagnosis))
    kind = err.gpu_kind if out.gpu_kind is None else None
    named = (replace(run, gpu_kind=run.gpu_kind or kind) for run in runs_of_job(out.runs, err.runs))
    out = replace(out, runs=tuple(named))
    others = out.failures if any(run.stream == "err" for run in out.runs) else err.failures
    cpu_warnings = out.cpu_warnings + err.cpu_warnings
    if others is err.failures and out.runs and cpu_warnings < len(out.runs):  # else they trained on the CPU
        out = _with_gpu_lines(out, err.strategies)
    runs = _assign_failures(out.runs, others) if out.runs else err.runs
    if runs and cpu_warnings >= len(runs):  # a run that asked for GPUs and had none is a CPU run
        on_cpu: dict[str, Any] = {"device": "cpu", "n_gpus": 0, "contradictions": ()}
        runs = tuple(run if run.mark else replace(run, **on_cpu) for run in runs)
    diagnosis = out.diagnosis + tuple(replace(found, stream="err") for found in err.diagnosis)
    failures, binary = out.failures + err.failures, out.binary or err.binary
    return replace(out, runs=runs, diagnosis=_findings_of(runs, diagnosis), failures=failures, binary=binary)


def _assign_failures(runs: tuple[ParsedRun, ...], failures: Sequence[Failure]) -> tuple[ParsedRun, ...]:
    """Assign the .err's failures to the runs that did not complete, in order; the job's failure to the last run."""
    result = list(runs)
    unexplained = [index for index, run in enumerate(result) if run.outcome in ("unfinished", "failed")]
    assigned = list(zip(unexplained, (item for item in failures if not item.job_level), strict=False))
    if result[-1].outcome != "completed":
        assigned += [(-1, item) for item in failures if item.job_level]
    for index, failure in assigned:
        if result[index].outcome == "unfinished" or is_worse(failure.outcome, result[index].outcome):
            result[index] = replace(result[index], outcome=failure.outcome)
    return tuple(result)


def _with_gpu_lines(report: LogReport, reported: Sequence[GpuCount]) -> LogReport:
    """The report with the numbers of GPUs that lines of the .err give to its runs, and contradictions to them.

    The lines are used where there is one for each run, or where there are more (each process prints its own) and all
    say the same. Otherwise it is unknown which run a line belongs to, and none is used.
    """
    runs = report.runs
    lines = [replace(line, stream="err") for line in reported]
    if len(lines) > len(runs) and len({(line.source, line.count, line.device) for line in lines}) == 1:
        lines = lines[:1] * len(runs)
    if len(lines) == len(runs):
        pairs = zip(runs, lines, strict=True)
        runs = tuple(count_gpus(replace(run, gpu_lines=(*run.gpu_lines, line))) for run, line in pairs)
    return replace(report, runs=runs)


def _findings_of(runs: Sequence[ParsedRun], diagnosis: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """The findings and the runs' contradictions, without two kinds that explain nothing.

    A missing GPU does not matter to runs on the CPU, and a signal is only how a time limit ends a process.
    """
    diagnosis += tuple(filter(None, map(_conflict, runs)))
    if any(found.kind == "time-limit" for found in diagnosis):
        diagnosis = tuple(found for found in diagnosis if not _shows("ended_by_signal", found.text))
    others = tuple(found for found in diagnosis if not _is_hint(found))
    wanted = any(run.device != "cpu" and not run.mark for run in runs) if runs else not others
    return diagnosis if wanted and all(found.kind != "no-gpu" for found in others) else others


def _conflict(run: ParsedRun) -> Diagnosis | None:
    """A finding about the two lines on a run's GPUs that cannot both be true; None where there are none."""
    if not (run.contradictions and run.gpu_lines):
        return None
    best, _ = most_reliable(run.gpu_lines)
    whom = "the job has" if best.source == "job" else "TensorFlow reports"
    advice = _FILE["contradiction"].format(gpus=plural(best.count, "GPU"), whom=whom)
    text = run.contradictions[-1]
    return Diagnosis(kind="contradiction", line=best.line, text=text, advice=advice, stream=best.stream)


def _is_hint(found: Diagnosis) -> bool:
    """Whether a finding is only a hint: nodes that need no GPU print such a line, too."""
    return any(rule.hint and rule.kind == found.kind and rule.pattern.search(found.text) for rule in RULES)
