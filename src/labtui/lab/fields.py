"""What a single value of an edition's file may be, as msgspec constraints, and what all its tables share."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

ProgramChart = Literal[
    "program-time", "program-speedup", "program-efficiency", "weak-time", "weak-efficiency"
]
"""Charts of programs that are timed without epochs: the first three of strong scaling."""

ChartKey = Literal[
    "epoch-time",
    "throughput",
    "speedup",
    "efficiency",
    "tuning",
    "learning-rate",
    "error",
    "batch-accuracy",
    ProgramChart,
]
Law = Literal["amdahl", "gustafson"]
PageKind = Literal["title", "overview", "task", "conclusions", "sources"]
PageChart = Literal[ChartKey, "cpu-gpu", "efficiency-loss", "laws", "accuracy", "epochs"]
PageTable = Literal["results", "fractions", "acceleration"]

_ID = r"\A[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?\Z"
_TASK_ID = r"\A[A-Za-z0-9](?:[A-Za-z0-9.-]{0,14}[A-Za-z0-9])?\Z"
_NAME = r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"
_PATH = r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z"
_PYTHON = r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.py\Z"
_FILE = r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z"
_SIZE = r"\A\d{1,15}(?:x\d{1,15})?\Z"
_WORD = r"\A[a-z][a-z0-9-]{0,30}\Z"
_IDENTIFIER = r"\A[^\W\d]\w*\Z"
PATTERNS = {
    _ID: "lowercase letters, digits, dots and dashes",
    _TASK_ID: "a task's number, like 6 or 10.5",
    _NAME: "a name of letters, digits, dots, dashes and underscores",
    _PATH: "a plain file name below the lab folder (letters, digits, . _ - and /)",
    _PYTHON: "a plain file name below the lab folder that ends in .py",
    _FILE: "a file in the lab folder itself, not in a folder below it",
    _SIZE: "a number, or two with x between them",
    _WORD: "one word in lowercase letters",
    _IDENTIFIER: "a name as Python's code has them",
}
MAX_NUMBER = 1_000_000_000
"""Beyond any training; no number is larger, infinite, or none at all."""

Id = Annotated[str, Meta(pattern=_ID)]
TaskId = Annotated[str, Meta(pattern=_TASK_ID)]
Name = Annotated[str, Meta(pattern=_NAME)]
ScriptPath = Annotated[str, Meta(pattern=_PATH)]
PythonPath = Annotated[str, Meta(pattern=_PYTHON)]
LabFile = Annotated[str, Meta(pattern=_FILE)]
Size = Annotated[str, Meta(pattern=_SIZE)]
Word = Annotated[str, Meta(pattern=_WORD)]
Identifier = Annotated[str, Meta(pattern=_IDENTIFIER)]
Count = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Epochs = Annotated[int, Meta(ge=1, le=10_000)]
Gpus = Annotated[int, Meta(ge=0, le=100_000)]
Minutes = Annotated[int, Meta(ge=1, le=30 * 24 * 60)]
Positive = Annotated[float, Meta(gt=0, le=MAX_NUMBER)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Range = tuple[Positive, Positive]
"""From ... to ..."""


Place = tuple[str | int, ...]
"""A path into an edition's data: ``("tasks", 0, "sweeps", 1, "epochs")``."""
Problem = tuple[Place, str]
"""Where a mistake stands, and the sentence about it."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of an edition's file: a field that it does not have is refused."""
