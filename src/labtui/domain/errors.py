"""The errors that a student can see, as one tree.

    LabError                    a sentence and a hint
    ├── UsageError              wrong use: exit code 2
    ├── FolderError             the lab folder is missing, damaged, read-only or opened twice
    │   ├── NotTrusted          the user neither made nor trusted it
    │   └── StoreError          its database cannot be read or written
    │       ├── NotWritable     the disk or its permissions allow no writing
    │       └── FolderTaken     another process writes it, or it is a copy
    ├── DataError               a file is not a valid edition, profile or log
    ├── TemplateError           a job script cannot be rendered
    ├── ConnectionLost          the network or the server failed; may be retried
    │   └── CannotConnect       no connection could be made
    ├── LoginRefused            key, password or code not accepted; never retried by itself
    ├── HostKeyProblem          unknown or changed host key; never retried by itself
    ├── RemoteFailure           a remote command or file operation failed
    │   └── SubmitRefused       sbatch refused; `wait` says whether later may help
    └── ExportError             a plot, table or deck could not be written

No traceback reaches a screen: one of any other exception goes to the log file that the error panel names. Sentences
and hints stand in `failures.toml`, a table for each class.
"""

import contextlib
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any


def suggest(name: str, known: Iterable[str], form: str = "{!r}") -> str:
    """`` Did you mean 'ResNet50'?`` for a name that is almost one of these, and no nearer to it than to another."""
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.7)
    near = {difflib.SequenceMatcher(None, each, name).ratio() for each in close}
    return f" Did you mean {form.format(close[0])}?" if close and len(near) == len(close) else ""


class LabError(Exception):
    """A sentence for the student (`str(error)`) and a hint that says what to do next.

    `reason` is the key in `failures.toml`. `wait` is true when the same may succeed later: a full disk or queue, a
    server that opens no more channels.
    """

    def __init__(self, sentence: str, hint: str = "", *, reason: str = "", wait: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.reason = reason
        self.wait = wait


class UsageError(LabError):
    """A command or its arguments are wrong; the process exits with 2."""


class FolderError(LabError):
    """The lab folder is missing, damaged, read-only or open elsewhere."""


class NotTrusted(FolderError):
    """This user neither made nor trusted the lab folder, or it has changed since."""


class StoreError(FolderError):
    """The lab folder's database cannot be read or written."""


class NotWritable(StoreError):
    """The disk is full or read-only, or the folder's permissions forbid writing."""


class FolderTaken(StoreError):
    """Another process writes the lab folder, or the folder is a copy: this process may only read it."""


class DataError(LabError):
    """A file has the wrong content; `line` is where, when known."""

    def __init__(self, sentence: str, hint: str = "", *, line: int | None = None) -> None:
        super().__init__(sentence, hint)
        self.line = line


class TemplateError(LabError):
    """A template names an unknown value or lacks one."""


class ConnectionLost(LabError):
    """The connection broke or does not answer; a retry may help."""


class CannotConnect(ConnectionLost):
    """No connection could be made: wrong name, network, port or server."""


class LoginRefused(LabError):
    """The server did not accept the key, password or code. Never retried without the student."""


class HostKeyProblem(LabError):
    """The server's key is unknown and was not accepted, or has changed."""


class RemoteFailure(LabError):
    """A remote command or file operation failed."""


class SubmitRefused(RemoteFailure):
    """`sbatch` refused. `wait` is true when the same submission may be accepted later."""


class ExportError(LabError):
    """A plot, table or deck could not be made or written."""


@cache
def _failures() -> dict[str, tuple[Any, str, str]]:
    """The class of error, its sentence and its hint by reason."""
    tables = tomllib.loads(Path(__file__).with_name("failures.toml").read_text("utf-8"))
    kinds = ((globals()[name], table) for name, table in tables.items())
    return {reason: (kind, *texts) for kind, table in kinds for reason, texts in table.items()}


def failure(reason: str, *, wait: bool = False, **words: object) -> LabError:
    """The error for a reason in `failures.toml`, with `words` filled into its sentence and hint."""
    kind, sentence, hint = _failures()[reason]
    error: LabError = kind(sentence.format(**words), hint.format(**words).strip())
    error.reason, error.wait = reason, wait
    return error


@contextlib.contextmanager
def os_errors(reason: str, **words: Any) -> Iterator[None]:
    """Raise the error for a reason instead of an `OSError`, whose own words are the `text` of the sentence."""
    try:
        yield
    except OSError as error:
        raise failure(reason, text=error.strerror, **words) from error
