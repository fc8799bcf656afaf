"""Why a training ended: the error texts of `errors.toml`, tracebacks, and how processes ended.

One process often prints the same error many times; each kind is reported once per *episode* (until the next run or the
next separate traceback).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Literal

import msgspec

from labtui.domain.model import Diagnosis, DiagnosisKind, Outcome, Stream
from labtui.training_logs.runs import Failure, is_worse

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
    msgspec.convert(row | {"pattern": re.compile(row["pattern"])}, ErrorPattern) for row in _FILE["errors"]
)
_HARMLESS = re.compile("|".join(_FILE["harmless"]))
_PASSED_ON = re.compile("|".join(_FILE["passed_on"]))
SUSPECT: tuple[str, ...] = (
    *dict.fromkeys(word for rule in RULES for word in rule.near),
    *("Traceback (most", 'File "', "SyntaxError: ", "IndentationError: ", "TabError: "),
    *("above exception", "Exception ignored", "Logging error"),
)
"""A quick look: a line without any of these needs no rule."""
NO_GPU_SIGN = "There are non-GPU devices in"
"""TensorFlow's own word that a MirroredStrategy runs on the CPU."""

_IN_CONTAINER = " Start the container with `singularity exec --nv ...`, which gives it the GPUs."
_CONTAINER = re.compile(r"\b(?:singularity|apptainer)\b|^(?:INFO|WARNING|FATAL): {3}")
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_HARMLESS_TRACE = re.compile(r"Exception ignored in|--- Logging error ---")
_RAISED = re.compile(
    r"(?:[A-Za-z_][\w.]{0,200}\.)?[A-Za-z_]\w{0,100}(?:Error|Exception|Interrupt|Exit|Warning)?\b(?::|\Z)"
)
_UNPARSED = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
_FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d{1,9})(?:, in (.{1,100}))?')
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^<")
_ENDED = re.compile(r"error: this training ended with exit status \d")
_ENDING = re.compile(
    r"srun: (?:Job step aborted|forcing job termination|launch/slurm: _step_signal: Terminating)"
)
_TASK_ENDED = re.compile(r"srun: error: \S{1,200}: tasks? [\d,-]{1,80}: (?:Killed|Terminated)\b")
_STEP_CANCELLED = re.compile(r"\*\*\* STEP \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40} \*\*\*")


def holds(text: str, words: Sequence[str]) -> bool:
    for word in words:  # noqa: SIM110 (`any` costs twice as much, and this is asked of every line)
        if word in text:
            return True
    return False


def is_hint(found: Diagnosis) -> bool:
    """Whether a line that there is no GPU is also printed on a node that has none and needs none."""
    return any(rule.hint and rule.kind == found.kind and rule.pattern.search(found.text) for rule in RULES)


class Diagnoser:
    """Reads the lines that are no training lines, in order. `failures` are those of processes, one for each."""

    def __init__(self, stream: Stream = "out") -> None:
        self._stream: Stream = stream
        self._found: list[Diagnosis] = []
        self.failures: list[Failure] = []
        self.in_trace = False  # until it ends, every line may matter
        self._reported: dict[str, tuple[int, Diagnosis]] = {}  # in this episode, with the rule's place
        self._run = 0
        self._first = 0  # the place in `_found` where this run's begin
        self._frame = ""  # the last place the traceback names, the program's own before a library's
        self._frame_own = False
        self._traced = self._chained = self._skip_trace = False
        # line, text and advice of a traceback: no news if the training goes on after it
        self._waiting: tuple[int, str, str] | None = None
        self._last = (0, "")
        self._open_failure = False  # the last failure belongs to this episode
        self._failed = False  # a process of this run has failed
        self._ending = False  # srun ends the other processes of the step: no failures of their own
        self._container = False  # the log shows a container

    @property
    def found(self) -> tuple[Diagnosis, ...]:
        """All diagnosis so far, in the order of the log."""
        return tuple(sorted(self._found, key=lambda one: one.line))

    def take(self, number: int, text: str, run: int) -> Failure | None:
        """Look at one line of the run number `run`; gives the failure it shows, if it does."""
        self._enter(run)
        self._container = self._container or _CONTAINER.search(text) is not None
        if self.in_trace:
            return self._inside_trace(number, text)
        if not holds(text, SUSPECT):
            return None
        if match := _FRAME.match(text):
            self._see_frame(match)
            return None
        if _TRACEBACK in text:
            self.in_trace, self._frame, self._frame_own = True, "", False
            if self._traced and not self._chained and not self._skip_trace:
                self._new_episode()
            self._chained = False
            return None
        self._chained = self._chained or _CHAINED.search(text) is not None
        self._skip_trace = self._skip_trace or _HARMLESS_TRACE.search(text) is not None
        self._ending = self._ending or _ENDING.match(text) is not None
        if (self._ending and _TASK_ENDED.match(text)) or (self._failed and _STEP_CANCELLED.search(text)):
            return None
        return self._judge(number, text)

    def continued(self) -> None:
        """An epoch was read: a traceback before it did not end the training."""
        self._waiting = None

    def finish(self) -> Failure | None:
        """The log is complete: the traceback it ends in, if it does, and the failure when it was cut short."""
        failure = None
        if self.in_trace and self._frame and not self._skip_trace:
            number, text = self._last
            place = f"The log ends inside a traceback at {self._frame}"
            self._wait_for(number, text, f"{place}: its last line, which names the error, is missing.")
            failure = self._fail("failed", number)
        self._settle()
        return failure

    def note_command(self, text: str) -> None:
        """An echoed command: what it runs in decides what is advised."""
        self._container = self._container or _CONTAINER.search(text) is not None

    def without_gpu_flag(self, number: int, text: str, run: int) -> None:
        """The echoed command starts a container without GPU access although it asks for GPUs."""
        self._enter(run)
        self._container = True
        self._tell(next(rule for rule in RULES if rule.add_in_container), number, text)

    def add(self, kind: DiagnosisKind, line: int, text: str, advice: str) -> None:
        """A finding that rests on more than one line."""
        if len(self._found) < _LIMIT:
            text = text.strip()[:TEXT_LIMIT]
            self._found.append(Diagnosis(kind=kind, line=line, text=text, advice=advice, stream=self._stream))

    # ------------------------------------------------------------------ tracebacks

    def _inside_trace(self, number: int, text: str) -> Failure | None:
        self._last = (number, text)
        if text[:1] in (" ", "\t"):
            if match := _FRAME.match(text):
                self._see_frame(match)
            return None
        self.in_trace = False
        if not _RAISED.match(text):
            return self._judge(number, text)  # glued or cut: read it as any other line
        if self._skip_trace:
            self._skip_trace = False
            return None
        self._traced = True
        failure = self._judge(number, text)
        if failure is None:
            if not _HARMLESS.search(text):
                self._stopped(number, text)
            failure = self._fail("failed", number)
        return failure

    def _see_frame(self, match: re.Match[str]) -> None:
        own = _LIBRARY.search(match[1]) is None
        if own or not self._frame_own:
            where = f" ({match[3].strip()})" if match[3] else ""
            self._frame, self._frame_own = f"{match[1]}, line {match[2]}{where}", own

    def _stopped(self, number: int, text: str) -> None:
        place = f" at {self._frame}" if self._frame else ""
        advice = f"The program stopped{place}; the lines above the error in the log show how it got there."
        self._wait_for(number, text, advice)

    def _wait_for(self, number: int, text: str, advice: str) -> None:
        """Keep a traceback that no rule explains. What only passes on another's failure explains nothing."""
        if self._waiting is None or not _PASSED_ON.match(text):
            self._waiting = number, text, advice

    def _settle(self) -> None:
        """Tell the traceback that waited, unless something better explains this run."""
        waiting, self._waiting = self._waiting, None
        explained = {found.kind for found in self._found[self._first :]}
        lost = explained & {"process-lost", "node-lost", "rendezvous"}
        if waiting is not None and not lost and not (explained and _PASSED_ON.match(waiting[1])):
            self.add("traceback", *waiting)

    def _enter(self, run: int) -> None:
        if run != self._run:
            self._run = run
            self._settle()
            self._new_episode()
            self._failed = self._ending = False
            self._first = len(self._found)

    def _new_episode(self) -> None:
        self._reported.clear()
        self._frame, self._frame_own = "", False
        self._traced = self._open_failure = False

    # ------------------------------------------------------------------ rules

    def _judge(self, number: int, text: str) -> Failure | None:
        if _HARMLESS.search(text):
            return None
        rule = next((one for one in RULES if holds(text, one.near) and one.pattern.search(text)), None)
        if rule is None and _UNPARSED.match(text):
            self._stopped(number, text)
            return self._fail("failed", number)
        if rule is None:
            return None
        failure = None if not rule.outcome else self._fail(rule.outcome, number, rule.job_level)
        if rule.kind:
            self._tell(rule, number, text)
        elif _ENDED.match(text):
            self._new_episode()  # what follows is another process
        return failure

    def _tell(self, rule: ErrorPattern, number: int, text: str) -> None:
        key, trust = f"{rule.kind} hint" if rule.hint else str(rule.kind), RULES.index(rule)
        told = self._reported.get(key)
        if not rule.kind or (told is not None and (told[0] <= trust or rule.kind != "process-lost")):
            return
        if len(self._found) >= _LIMIT:
            return
        if told is not None:  # this line names who was lost
            self._found.remove(told[1])
        match = rule.pattern.search(text)
        parts = match.groupdict() if match is not None else {}
        advice = rule.advice.format(**parts) if parts else rule.advice
        if rule.add_in_container and self._container:
            advice += _IN_CONTAINER
        # a sentence after a traceback is not its last line
        spoken = text.startswith(("error: ", "srun: ", " "))
        if self._frame and self._traced and not spoken:
            advice += f" It was raised at {self._frame}."
        self.add(rule.kind, number, text, advice)
        self._reported[key] = (trust, self._found[-1])

    def _fail(self, outcome: Outcome, number: int, job_level: bool = False) -> Failure:
        failure = Failure(outcome, number, job_level)
        if job_level:
            if not any(old.job_level and old.outcome == outcome for old in self.failures):
                self.failures.append(failure)
            return failure
        self._failed = True
        if self._open_failure:
            place = max(index for index, old in enumerate(self.failures) if not old.job_level)
            if is_worse(outcome, self.failures[place].outcome):
                self.failures[place] = failure
        elif len(self.failures) < _LIMIT:
            self.failures.append(failure)
            self._open_failure = True
        return failure
