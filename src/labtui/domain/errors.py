"""The one tree of errors a student can meet.

    LabError                    a sentence and a hint
    ├── UsageError              wrong use: exit code 2
    ├── FolderError             the lab folder: missing, damaged, read-only, opened twice
    │   └── StoreError          its database
    ├── DataError               a file that cannot be read as what it should be (edition, profile, log)
    ├── TemplateError           a job script that cannot be rendered
    ├── ConnectionLost          the network or the server; may be tried again
    │   └── CannotConnect       never got as far as a login
    ├── LoginRefused            who you are; never tried again by itself
    ├── HostKeyProblem          unknown or changed host key; never tried again by itself
    ├── RemoteFailure           a remote command or file operation said no
    │   └── SubmitRefused       sbatch said no, `wait` tells whether later may help
    └── ExportError             a plot, table or deck that could not be written

Nothing reaches a screen as a traceback: what is not a `LabError` goes to the log file that the
error panel names.
"""


class LabError(Exception):
    """A sentence for the student (`str(error)`) and a hint that says what to do next.

    `reason` is the name of a failed connection or login in `labtui.cluster`'s table of failures: ``timeout``,
    ``password-expired`` ...
    """

    def __init__(self, sentence: str, hint: str = "", *, reason: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.reason = reason


class UsageError(LabError):
    """The command or the arguments do not fit; the process exits with 2."""


class FolderError(LabError):
    """The lab folder is missing, damaged, read-only or open elsewhere."""


class StoreError(FolderError):
    """The lab folder's database cannot be read or written."""


class NotWritable(StoreError):
    """The disk is full or read-only, or the folder's permissions let nothing be written."""


class FolderTaken(StoreError):
    """Another process writes the lab folder, or it is a copy: this process may only read it."""


class DataError(LabError):
    """A file is not what it should be; `line` says where in it, when known."""

    def __init__(self, sentence: str, hint: str = "", *, line: int | None = None) -> None:
        super().__init__(sentence, hint)
        self.line = line


class TemplateError(LabError):
    """A template names an unknown value or lacks one."""


class ConnectionLost(LabError):
    """The connection broke or does not answer; trying again may help."""


class CannotConnect(ConnectionLost):
    """No connection could be made: name, network, port or server."""


class LoginRefused(LabError):
    """The server did not accept the key, password or code. Never retried without the student."""


class HostKeyProblem(LabError):
    """The server's key is unknown and was not accepted, or has changed."""


class RemoteFailure(LabError):
    """A remote command or file operation failed.

    `wait` is true when the same may go well later: a full disk, a server that opens no further channel.
    """

    def __init__(self, sentence: str, hint: str = "", *, wait: bool = False) -> None:
        super().__init__(sentence, hint)
        self.wait = wait


class SubmitRefused(RemoteFailure):
    """`sbatch` refused. `wait` is true when the same submission may be accepted later."""


class ExportError(LabError):
    """A plot, a table or a deck could not be made or written."""
