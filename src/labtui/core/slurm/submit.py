"""`sbatch`, sent so that it happens once or not at all, whatever is cut on the way.

Each submission has a directory of its own. In it, every try to submit first makes the directory
``.labtui/attempt-N``; making a directory is atomic, so one N runs sbatch at most once, and whoever looks for
a lost answer can take the next N away from a try that is still on its way. sbatch's answer goes into that
directory before it goes over the line: a receipt that survives a cut.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from labtui.core.remote import RemoteCommand
from labtui.core.slurm.shell import LIMIT, UNSET

CONTROL_DIR = ".labtui"
SBATCH_LIMIT_S = 240
"""sbatch retries by itself for about two minutes when the controller is busy."""

NO_DIRECTORY = 74
TAKEN_AWAY = 76

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,79}")
_JOB_ID = re.compile(r"(\d+)(?:;\S*)?")


COMMENT_PREFIX = "labtui:"


def comment_of(token: str) -> str:
    """The text that marks a job as ours in ``--comment``. Raises ValueError for a token that is none."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token is 4 to 80 letters, digits, dots, dashes")
    return f"{COMMENT_PREFIX}{token}"


def names_token(job_name: str, token: str) -> bool:
    """True when the job name carries the end of the token (four characters or more), as ours do."""
    return len(token) >= 4 and token[-4:] in job_name


def submit_command(
    remote_dir: str,
    script_name: str,
    token: str,
    job_name: str,
    options: Sequence[str],
    *,
    attempt: int,
) -> RemoteCommand:
    """Submit `script_name` in `remote_dir`; try number `attempt` of this submission."""
    words = [
        "sbatch",
        "--parsable",
        "--no-requeue",
        f"--comment={comment_of(token)}",
        f"--job-name={job_name}",
        *options,
        script_name,
    ]
    lock = f"{CONTROL_DIR}/attempt-{attempt:d}"
    script = "\n".join(
        (
            UNSET,
            LIMIT,
            f"cd -- {shlex.quote(remote_dir)} >/dev/null || exit {NO_DIRECTORY}",
            f"mkdir -p -m 700 {CONTROL_DIR} || exit {NO_DIRECTORY}",
            f"mkdir {lock} || {{ [ -d {lock} ] && exit {TAKEN_AWAY}; exit {NO_DIRECTORY}; }}",
            "trap '' HUP PIPE",
            f"limit {SBATCH_LIMIT_S} {shlex.join(words)} >{lock}/out 2>{lock}/err </dev/null",
            f"status=$?; echo $status >{lock}/status.part && mv {lock}/status.part {lock}/status",
            f"cat {lock}/out; cat {lock}/err >&2; exit $status",
        )
    )
    told = {
        "dir": remote_dir,
        "script": script_name,
        "token": token,
        "job_name": job_name,
        "options": list(options),
        "attempt": attempt,
    }
    return RemoteCommand("submit", script, told)


def parse_submit(stdout: str) -> str | None:
    """The job id in the last line that is one (``id`` or ``id;cluster``): sites print banners above it."""
    for line in reversed(stdout.splitlines()):
        told = _JOB_ID.fullmatch(line.strip())
        if told:
            return told[1]
    return None


def cancel_command(job_id: str) -> RemoteCommand:
    """Cancel one job."""
    return RemoteCommand("cancel", f"{UNSET}\nscancel -- {shlex.quote(job_id)}", {"job_id": job_id})


def early_end_command(job_id: str, minutes: int) -> RemoteCommand:
    """Give one job a time limit of so many minutes, counted from its start: Slurm then ends it, labtui or not."""
    words = ["scontrol", "update", f"JobId={job_id}", f"TimeLimit={minutes:d}"]
    return RemoteCommand("early-end", f"{UNSET}\n{shlex.join(words)}", {"job_id": job_id})


def already_over(stderr: str) -> bool:
    """True when scancel says that there is nothing (left) to cancel."""
    return bool(re.search(r"invalid job id|already completing or completed|not found", stderr, re.IGNORECASE))
