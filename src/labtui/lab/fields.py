"""The types of an edition's single values, with their msgspec constraints, and the base class of its tables."""

from typing import Annotated

import msgspec
from msgspec import Meta

from labtui.training_logs.runs import PROGRAM

_ID = r"\A[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?\Z"
_TASK_ID = r"\A[A-Za-z0-9](?:[A-Za-z0-9.-]{0,14}[A-Za-z0-9])?\Z"
_NAME = r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"
_PATH = r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z"
_PYTHON = r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.py\Z"
_FILE = r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z"
MAX_NUMBER = 1_000_000_000
"""Larger than any number of a training. As an upper bound it also excludes infinity and NaN."""

# `description` says in an error message what the pattern allows.
Id = Annotated[str, Meta(pattern=_ID, description="lowercase letters, digits, dots and dashes")]
TaskId = Annotated[str, Meta(pattern=_TASK_ID, description="a task's number, like 6 or 10.5")]
Name = Annotated[str, Meta(pattern=_NAME, description="a name of letters, digits, dots, dashes, underscores")]
ScriptPath = Annotated[str, Meta(pattern=_PATH, description="a plain file name: letters, digits . _ - and /")]
PythonPath = Annotated[str, Meta(pattern=_PYTHON, description="a plain file name that ends in .py")]
LabFile = Annotated[str, Meta(pattern=_FILE, description="a file in the lab folder itself, not below it")]
Size = Annotated[str, Meta(pattern=rf"\A{PROGRAM['size']}\Z", description="a number, or two joined by x")]
Word = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]{0,30}\Z", description="one word in lowercase letters")]
Identifier = Annotated[str, Meta(pattern=r"\A[^\W\d]\w*\Z", description="a name as Python's code has them")]
Count = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Epochs = Annotated[int, Meta(ge=1, le=10_000)]
Gpus = Annotated[int, Meta(ge=0, le=100_000)]
Minutes = Annotated[int, Meta(ge=1, le=30 * 24 * 60)]
Positive = Annotated[float, Meta(gt=0, le=MAX_NUMBER)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Range = tuple[Positive, Positive]
"""(lowest, highest)."""


Place = tuple[str | int, ...]
"""A path into an edition's data: ``("tasks", 0, "sweeps", 1, "epochs")``."""
Problem = tuple[Place, str]
"""Where a mistake is, and the sentence about it."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of an edition's file; unknown fields are refused."""
