"""Commands for the cluster as data, the frame that keeps shell noise out of their output, and shared shell text.

A command is a small shell script with a name. The frame runs the script in a login shell between random markers:
what start-up files print before, and what background programs print after, can never be taken for output.
Values from outside enter only through `shlex.quote`. Nothing here sends.
"""

from __future__ import annotations

import base64
import re
import shlex
from dataclasses import dataclass
from functools import cache
from importlib import resources

from labtui.slurm.values import number


@dataclass(frozen=True, slots=True)
class RemoteCommand:
    """A script for a POSIX login node (run by bash), with a name for the panel that shows what was asked."""

    name: str
    script: str


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """One remote command, for the panel that shows what labtui asked the cluster.

    `at` is UNIX seconds of our clock; `status` is None when no answer came.
    """

    at: float
    name: str
    command: str
    seconds: float
    status: int | None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed between our markers. `status` None = unknown: neither success nor failure.

    `began` tells whether the script was started at all, `noise` what the shell printed before it,
    `truncated` that the byte cap was reached, `timed_out` that the deadline passed.
    """

    stdout: bytes
    stderr: bytes
    status: int | None
    seconds: float = 0.0
    began: bool = True
    noise: bytes = b""
    truncated: bool = False
    timed_out: bool = False

    @property
    def out(self) -> str:
        """Standard output as text; undecodable bytes are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Standard error as text; undecodable bytes are replaced."""
        return self.stderr.decode("utf-8", "replace")


# --------------------------------------------------------------------------- the frame


def frame(script: str, marker: str) -> str:
    """The exec request that runs `script` in a login shell between markers.

    `marker` is random lower-case hex. The script travels as base64, so that whatever shell the account has
    (csh and fish quote differently) and whatever the script contains, nothing is interpreted on the way.
    """
    body = (
        f"printf '\\n%s\\n' '{marker}<'; printf '\\n%s\\n' '{marker}<' >&2; set +eu\n"
        f"(\n{script}\n) && labtui_status=0 || labtui_status=$?\n"
        f"printf '\\n%s %s\\n' '{marker}>' \"$labtui_status\" >&2\n"
        f"printf '\\n%s %s\\n' '{marker}>' \"$labtui_status\"\n"
    )
    encoded = base64.b64encode(body.encode()).decode()
    return f"""bash -lc 'eval "$(printf %s {encoded} | base64 -d)"'"""


@dataclass(frozen=True, slots=True)
class Framed:
    """One stream, cut at the markers. `status` is None while the end marker is missing."""

    content: bytes
    status: int | None
    began: bool
    noise: bytes

    @property
    def ended(self) -> bool:
        """True when the end marker is here."""
        return self.status is not None


def cut_frame(data: bytes, marker: str) -> Framed:
    """Cut one stream (all bytes so far) at its markers."""
    before, began, rest = data.partition(b"\n" + marker.encode() + b"<\n")
    if not began:
        return Framed(b"", None, False, data)
    noise = before.removeprefix(b"\n")
    end = re.search(rb"\n" + marker.encode() + rb"> ([0-9]{1,3})\n", rest)
    if end is None:
        return Framed(rest, None, True, noise)
    return Framed(rest[: end.start()], int(end[1]), True, noise)


UNSET = 'unset "${!SQUEUE_@}" "${!SACCT_@}" "${!SBATCH_@}" "${!SALLOC_@}" SLURM_CLUSTERS SCANCEL_VERBOSE'
"""Takes away what a student's start-up files may have set to change Slurm's answers."""

PINNED = f"{UNSET}\nexport LC_ALL=C TZ=UTC SLURM_TIME_FORMAT=%s"
"""For commands that only ask. Not for `sbatch`: a job inherits the environment it was submitted from."""

LIMIT = (
    'limit() { if command -v timeout >/dev/null 2>&1; then timeout -k 2 "$@"; else shift; command "$@"; fi; }'
)
"""`limit SECONDS PROGRAM ...`: a program that hangs is ended on the cluster too, so that they never pile
up.
"""

PROGRAM_LIMIT_S = 25
"""How long squeue and sacct may take each on the cluster (Slurm's own message timeout is 10 s)."""

TIMED_OUT = 124
NOT_FOUND = 127


def mark_function(nonce: str) -> str:
    """A shell function `mark NAME` that begins a section on both streams. `nonce` is random hex."""
    return f"mark() {{ printf '\\035%s %s\\n' {nonce} \"$1\"; printf '\\035%s %s\\n' {nonce} \"$1\" >&2; }}"


@cache
def shell_file(name: str) -> str:
    """The text of a file of the folder `sh`."""
    return resources.files("labtui.slurm").joinpath("sh", f"{name}.sh").read_text(encoding="utf-8")


def shell_script(name: str, *arguments: str, begin: str, nonce: str = "") -> str:
    """A file of the folder `sh` with its arguments, `begin` and the functions `limit` and (with `nonce`) `mark`."""
    parts = (begin, LIMIT, mark_function(nonce) if nonce else "", shlex.join(["set", "--", *arguments]))
    return "\n".join((*(part for part in parts if part), shell_file(name)))


def cut_sections(text: str, nonce: str) -> dict[str, str]:
    """Sections by name, as `mark` began them. A mark with words (``squeue-status 0``) gives name -> words."""
    found: dict[str, str] = {}
    for piece in text.split(f"\x1d{nonce} ")[1:]:
        head, _, content = piece.partition("\n")
        name, _, words = head.partition(" ")
        found[name] = words if words else content
    return found


def section_status(sections: dict[str, str], name: str) -> int | None:
    """The exit status noted in section `name`; None when it is not there."""
    return number(sections.get(name, ""))


_TROUBLE = re.compile(
    r"error|timed out|unable to contact|refused|failed|fatal|invalid|not found|problem", re.IGNORECASE
)


def trouble(stderr: str) -> str:
    """The first line of an answer's standard error that tells of trouble, or an empty text.

    Slurm can exit 0 with the failure only on standard error. A harmless remark (a locale warning of the
    shell) must not freeze the display for ever, so lines that neither name a failure nor come from Slurm are
    let pass.
    """
    for line in stderr.splitlines():
        words = line.strip()
        if words.startswith("bash: warning: setlocale"):
            continue
        if words.startswith(("squeue:", "sacct:", "slurm", "sbatch:", "scontrol:")) or _TROUBLE.search(words):
            return words
    return ""
