"""From error texts to a diagnosis with its line and advice, and to how processes ended.

One process often says the same thing many times; each kind is told once per *episode* (until the
next run or the next separate traceback). What may not enter: the texts themselves (`rules`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from labtui.core.logs.events import GRAVITY, Failure
from labtui.core.logs.rules import HARMLESS, RULES, SUSPECT, WEAK_NO_GPU, Rule
from labtui.core.model import Diagnosis, Outcome, Stream

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
_LIMIT = 500  # of diagnosis and of failures: a log of nothing but errors must not grow without end
_ENDED = re.compile(r"error: this training ended with exit status \d")
_SPOKEN = re.compile(r"(?:[\w./-]{1,80}: )?error: ")
TEXT_LIMIT = 300
"""Characters of a line that a diagnosis keeps."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one line gave: a diagnosis, a failure, both or neither."""

    diagnosis: Diagnosis | None = None
    failure: Failure | None = None


def _holds(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 (`any` costs twice as much, and this is asked of every line)
        if word in text:
            return True
    return False


class Diagnoser:
    """Reads the lines that are no training lines, in order."""

    def __init__(self, stream: Stream = "out") -> None:
        self._stream: Stream = stream
        self._found: list[Diagnosis] = []
        self._told: set[tuple[str, int]] = set()
        self._episode = 0
        self._run = 0
        self._in_trace = False
        self._traced = False  # this episode has had its traceback
        self._skip_trace = False
        self._chained = False
        self._failures: list[Failure] = []
        self._open_failure = False  # the last failure belongs to this episode

    @property
    def found(self) -> tuple[Diagnosis, ...]:
        """All diagnosis so far, in the order of the log."""
        return tuple(self._found)

    @property
    def in_trace(self) -> bool:
        """Whether a traceback is being read: until it ends, every line may matter."""
        return self._in_trace

    @property
    def failures(self) -> tuple[Failure, ...]:
        """How processes ended badly, in the order of the log; one per process."""
        return tuple(self._failures)

    def take(self, number: int, text: str, run: int) -> Finding:
        """Look at one line; `run` is the index of the run it stands in."""
        self._enter(run)
        if self._in_trace:
            return self._inside_trace(number, text)
        if not _holds(text, SUSPECT):
            return Finding()
        if _TRACEBACK in text:
            self._begin_trace()
            return Finding()
        if _CHAINED.search(text):
            self._chained = True
        if _HARMLESS_TRACE.search(text):
            self._skip_trace = True
        return self._judge(number, text)

    def without_gpu_flag(self, number: int, text: str, run: int) -> Diagnosis | None:
        """The echoed command starts a container without GPU access although it asks for GPUs."""
        self._enter(run)
        rule = next(rule for rule in RULES if rule.kind == "no-gpu")
        return self._tell(rule, number, text)

    # ------------------------------------------------------------------ tracebacks

    def _begin_trace(self) -> None:
        self._in_trace = True
        if self._traced and not self._chained and not self._skip_trace:
            self._new_episode()
        self._chained = False

    def _inside_trace(self, number: int, text: str) -> Finding:
        if text[:1] in (" ", "\t") or not _RAISED.match(text):
            if text[:1] not in (" ", "\t"):
                self._in_trace = False  # glued or cut: read it as any other line
                return self._judge(number, text)
            return Finding()
        self._in_trace = False
        if self._skip_trace:
            self._skip_trace = False
            return Finding()
        self._traced = True
        finding = self._judge(number, text)
        if finding.failure is None:
            return replace(finding, failure=self._fail("failed", number, False))
        return finding

    def _enter(self, run: int) -> None:
        if run != self._run:
            self._run = run
            self._new_episode()

    def _new_episode(self) -> None:
        self._episode += 1
        self._told.clear()
        self._traced = self._open_failure = False

    # ------------------------------------------------------------------ rules

    def _judge(self, number: int, text: str) -> Finding:
        if HARMLESS.search(text):
            return Finding()
        for rule in RULES:
            if _holds(text, rule.near) and rule.pattern.search(text):
                failure = None if rule.outcome is None else self._fail(rule.outcome, number, rule.job_level)
                return Finding(self._tell(rule, number, text), failure)
        if _ENDED.match(text):
            failure = self._fail("failed", number, False)
            self._new_episode()  # what follows is another process
            return Finding(failure=failure)
        spoken = _SPOKEN.match(text) and not text.startswith(("slurmstepd", "srun", "sbatch"))
        if spoken or _DIED.search(text):
            return Finding(failure=self._fail("failed", number, False))
        return Finding()

    def _tell(self, rule: Rule, number: int, text: str) -> Diagnosis | None:
        hint = rule.kind == "no-gpu" and WEAK_NO_GPU.search(text) is not None
        key = (rule.kind + " hint" * hint, self._episode)
        if key in self._told or len(self._found) >= _LIMIT:
            return None
        self._told.add(key)
        diagnosis = Diagnosis(
            kind=rule.kind,
            line=number,
            text=text.strip()[:TEXT_LIMIT],
            advice=rule.advice,
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
        if self._open_failure:
            place = max(index for index, old in enumerate(self._failures) if not old.job_level)
            if GRAVITY[outcome] > GRAVITY[self._failures[place].outcome]:
                self._failures[place] = failure
        elif len(self._failures) < _LIMIT:
            self._failures.append(failure)
            self._open_failure = True
        return failure
