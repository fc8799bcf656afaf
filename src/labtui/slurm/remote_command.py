"""Questions for the cluster as data, the frame that keeps shell noise out of their answers, and shared shell code.

The frame runs a script with the environment of a login shell, between random markers, so that output of start-up files
before it and of background programs after it is never taken for the answer. Values from outside are positional
arguments. Nothing here sends.
"""

import base64
import re
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import ConnectionLost
from labtui.slurm.values import number

T = TypeVar("T")


class CommandResult(msgspec.Struct, frozen=True):
    """What a command printed between the markers. `status` None: unknown, neither success nor failure.

    `began`: the script was started; `noise`: what the shell printed before it;
    `timed_out`: the deadline passed; `nonce`: the number that marks the sections of this answer.
    """

    stdout: bytes
    stderr: bytes
    status: int | None
    began: bool = True
    noise: bytes = b""
    timed_out: bool = False
    nonce: str = ""

    @property
    def out(self) -> str:
        """Standard output as text; undecodable bytes are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Standard error as text; undecodable bytes are replaced."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def sections(self) -> dict[str, str]:
        """The sections of standard output by name."""
        return cut_sections(self.out, self.nonce)

    @property
    def remarks(self) -> dict[str, str]:
        """The sections of standard error by name."""
        return cut_sections(self.err, self.nonce)

    def section_status(self, name: str) -> int | None:
        """The exit status of the program of section `name`; None if it is missing."""
        return number(self.sections.get(f"{name}-status", ""))

    def refused(self, *names: str) -> dict[str, str]:
        """The sections whose program failed (``NAME-status`` is not 0), each with its last line of standard error."""
        failed = (name for name in names if self.section_status(name) != 0)
        lines = ((name, self.remarks.get(name, "").strip().splitlines()) for name in failed)
        return {name: said[-1].strip() if said else "no answer" for name, said in lines}


# --------------------------------------------------------------------------- the frame


def frame(script: str, marker: str) -> str:
    """The exec request that runs `script` between markers, in a shell that a login shell becomes.

    `marker` is random lower-case hex. The script is sent as base64, so that nothing in it is interpreted on the way,
    whatever shell the account has (csh and fish quote differently). It has no standard input: an end of input sent by
    labtui could reach the server after its channel was closed, and OpenSSH then closes the whole connection.

    The second shell has the environment of the login shell, and none of its aliases, functions, options, traps and
    variable attributes: with `alias mkdir='mkdir -p'` two attempts would both make their directory. ``-p`` also ignores
    exported functions, SHELLOPTS and BASH_ENV, but passes them on: a job needs an exported `module`.
    """
    body = (
        "set +p; umask u=rwx\n"  # a job inherits the mask and, by an exported SHELLOPTS, the option
        f"printf '\\n%s\\n' '{marker}<'; printf '\\n%s\\n' '{marker}<' >&2\n"
        f"(\n{script}\n) && labtui_status=0 || labtui_status=$?\n"
        f"printf '\\n%s %s\\n' '{marker}>' \"$labtui_status\" >&2\n"
        f"printf '\\n%s %s\\n' '{marker}>' \"$labtui_status\"\n"
    )
    text = base64.b64encode(body.encode()).decode()
    return rf"""bash -lc '\exec "$BASH" --norc -pc "eval \"\$(printf %s {text} | base64 -d)\""' </dev/null"""


def cut_frame(data: bytes, marker: str) -> CommandResult:
    """Cut one stream (all bytes so far) at its markers, into `stdout`; `status` is None without the end marker."""
    before, began, rest = data.partition(b"\n" + marker.encode() + b"<\n")
    if not began:
        return CommandResult(b"", b"", None, began=False, noise=data)
    noise = before.removeprefix(b"\n")
    end = re.search(rb"\n" + marker.encode() + rb"> ([0-9]{1,3})\n", rest)
    if end is None:
        return CommandResult(rest, b"", None, noise=noise)
    return CommandResult(rest[: end.start()], b"", int(end[1]), noise=noise)


UNSET = 'unset "${!SQUEUE_@}" "${!SACCT_@}" "${!SBATCH_@}" "${!SALLOC_@}" SLURM_CLUSTERS SCANCEL_VERBOSE'
"""Unsets what a student's start-up files may have set that changes Slurm's output."""

PINNED = f"{UNSET}\nexport LC_ALL=C TZ=UTC SLURM_TIME_FORMAT=%s"
"""A fixed environment for queries. Not for `sbatch`: a job inherits the environment it was submitted from."""

PROGRAM_LIMIT_S = 25
"""How long squeue and sacct may each take on the cluster (Slurm's own message timeout is 10 s)."""

TIMED_OUT = 124
NOT_FOUND = 127


@cache
def shell_file(*names: str) -> str:
    """The joined text of files in the folder `sh`."""
    folder = Path(__file__).with_name("sh")
    return "\n".join((folder / f"{name}.sh").read_text(encoding="utf-8") for name in names)


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A question to the cluster: a bash script with its positional arguments, and the reader of the answer.

    The script may use ``limit SECONDS PROGRAM...`` (ends a program that hangs, on the cluster too), ``mark NAME``
    (begins a section on both streams) and ``$nonce``. `silence` is the sentence and hint if no answer came; without
    it `read` handles that case. `read` may raise a `LabError`.
    """

    name: str
    script: str
    read: Callable[[CommandResult], T]
    limit_s: float
    arguments: tuple[str, ...] = ()
    begin: str = PINNED
    silence: tuple[str, str] | None = None

    def text(self, nonce: str) -> str:
        """The whole script; `nonce` is random lower-case hex."""
        words = shlex.join(["set", "--", *self.arguments])
        return "\n".join((self.begin, f"nonce={nonce}", shell_file("begin"), words, self.script))

    def answer(self, result: CommandResult, nonce: str) -> T:
        """Read the answer. Raises ConnectionLost if none came, and what `read` raises."""
        if result.status is None and self.silence is not None:
            raise ConnectionLost(*self.silence)
        return self.read(replace(result, nonce=nonce))


def cut_sections(text: str, nonce: str) -> dict[str, str]:
    """Sections by name, as begun by `mark`. A mark with further words (``squeue-status 0``) maps its name to these."""
    found: dict[str, str] = {}
    for piece in text.split(f"\x1d{nonce} ")[1:]:
        head, _, content = piece.partition("\n")
        name, _, words = head.partition(" ")
        found[name] = words or content
    return found


_TROUBLE = re.compile(
    r"error|timed out|unable to contact|refused|failed|fatal|invalid|not found|problem", re.IGNORECASE
)


def trouble(stderr: str) -> str:
    """The first line of an answer's standard error that reports a failure, or "".

    Slurm can exit with 0 and report a failure only on standard error. Lines that neither name a failure nor come from
    Slurm are ignored: a harmless remark (a shell's locale warning) must not stop the updates.
    """
    for line in stderr.splitlines():
        words = line.strip()
        if words.startswith("bash: warning: setlocale"):
            continue
        if words.startswith(("squeue:", "sacct:", "slurm", "sbatch:", "scontrol:")) or _TROUBLE.search(words):
            return words
    return ""
