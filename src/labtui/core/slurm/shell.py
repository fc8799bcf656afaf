"""Pieces of shell that several Slurm commands share: a pinned environment, a time limit, section marks.

What may not enter: values from outside, except through `shlex.quote`.
"""

from __future__ import annotations

import re

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

TIMED_OUT = 124
NOT_FOUND = 127


def mark_function(nonce: str) -> str:
    """A shell function `mark NAME` that begins a section on both streams. `nonce` is random hex."""
    return f"mark() {{ printf '\\035%s %s\\n' {nonce} \"$1\"; printf '\\035%s %s\\n' {nonce} \"$1\" >&2; }}"


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
    told = sections.get(name, "").strip()
    return int(told) if told.isdigit() else None


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
