"""What `labtui doctor` asks the cluster, and how to read it: two read-only commands and their parsers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from labtui.core.remote import CommandResult, RemoteCommand
from labtui.core.slurm.limits import (
    Association,
    QosLimits,
    associations_command,
    parse_associations,
    parse_qos,
    parse_version,
    qos_command,
)
from labtui.core.slurm.shell import (
    LIMIT,
    PINNED,
    cut_sections,
    mark_function,
    section_status,
)

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sacctmgr", "sha256sum", "timeout")
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
"""The files of the pickled CIFAR-10."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmProbe:
    """Who we are there and what Slurm offers us. None: it could not be asked."""

    user: str
    shell: str
    server_time: float | None
    missing: tuple[str, ...]
    version: tuple[int, int, int] | None
    version_text: str
    queue_problem: str
    accounting_problem: str
    associations: tuple[Association, ...] | None
    qos: tuple[QosLimits, ...] | None
    has_module: bool


def slurm_probe_command(nonce: str) -> RemoteCommand:
    """Ask for the clock, the programs, their version, accounts and QoS."""
    script = "\n".join(
        (
            PINNED,
            LIMIT,
            mark_function(nonce),
            "mark now; date +%s",
            'mark user; id -un; mark shell; echo "$SHELL"',
            "mark missing",
            f"for name in {' '.join(PROGRAMS)}; do command -v $name >/dev/null 2>&1 || echo $name; done",
            "mark module; type module >/dev/null 2>&1 && echo yes",
            "mark version; limit 20 sbatch --version",
            'mark squeue; limit 25 squeue --me --noheader --format=%A; mark "squeue-status $?"',
            "mark sacct; limit 25 sacct --allocations --noheader --starttime=now --format=JobIDRaw",
            'mark "sacct-status $?"',
            f'mark assoc; limit 20 {associations_command()}; mark "assoc-status $?"',
            f'mark qos; limit 20 {qos_command()}; mark "qos-status $?"',
        )
    )
    return RemoteCommand("probe-slurm", script, {"nonce": nonce})


def parse_slurm_probe(result: CommandResult, nonce: str) -> SlurmProbe:
    """Read the answer of `slurm_probe_command`."""
    out, err = cut_sections(result.out, nonce), cut_sections(result.err, nonce)
    now = out.get("now", "").strip()
    asked = {name: section_status(out, f"{name}-status") == 0 for name in ("squeue", "sacct", "assoc", "qos")}
    version = out.get("version", "").strip()
    return SlurmProbe(
        user=out.get("user", "").strip(),
        shell=out.get("shell", "").strip(),
        server_time=float(now) if now.isdecimal() else None,
        missing=tuple(out.get("missing", "").split()),
        version=parse_version(version),
        version_text=version.splitlines()[0] if version else "",
        queue_problem="" if asked["squeue"] else _last_line(err.get("squeue", "")),
        accounting_problem="" if asked["sacct"] else _last_line(err.get("sacct", "")),
        associations=parse_associations(out["assoc"]) if asked["assoc"] else None,
        qos=parse_qos(out["qos"]) if asked["qos"] else None,
        has_module=out.get("module", "").strip() == "yes",
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no answer"


# --------------------------------------------------------------------------- places


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFacts:
    """One path on the cluster: what it is and what we may do with it."""

    path: str
    kind: str = "missing"
    readable: bool = False
    writable: bool = False
    names: tuple[str, ...] = ()

    @property
    def batches_missing(self) -> tuple[str, ...]:
        """The CIFAR-10 files that are not in this directory."""
        return tuple(name for name in BATCHES if name not in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesProbe:
    """The paths asked about, room at the root, and the site's own words on quota (plain text)."""

    paths: dict[str, PathFacts] = field(default_factory=dict)
    root_parent: str = ""
    root_writable: bool = False
    free_kib: int | None = None
    free_inodes: int | None = None
    quota: str = ""


def places_command(root: str, paths: Sequence[str], quota_command: str, nonce: str) -> RemoteCommand:
    """Ask about `paths`, room and permission under `root`, the site's quota; nothing is changed."""
    lines = [
        PINNED,
        LIMIT,
        mark_function(nonce),
        "look() {",
        '  kind=missing; [ -d "$1" ] && kind=dir; [ -f "$1" ] && kind=file',
        '  [ -r "$1" ] && kind="$kind readable"; [ -w "$1" ] && kind="$kind writable"; echo "$kind"',
        '  [ -d "$1" ] && ls -- "$1" 2>/dev/null | head -n 200',
        "}",
    ]
    for number, path in enumerate(paths):
        lines.append(f"mark path-{number}; look {shlex.quote(path)}")
    lines += [
        f"mark root; place={shlex.quote(root or '.')}",
        'while [ -n "$place" ] && ! [ -d "$place" ]; do',
        "  case $place in */*) place=${place%/*};; *) place=.;; esac",
        "done; place=${place:-/}",
        'echo "$place"; [ -w "$place" ] && echo writable || echo closed',
        'mark room; limit 20 df -Pk -- "$place" | tail -n 1',
        'mark inodes; limit 20 df -Pi -- "$place" | tail -n 1',
    ]
    if quota_command:
        lines.append(f"mark quota; limit 20 {quota_command} 2>&1 | head -c 20000")
    told = {"root": root, "paths": list(paths), "nonce": nonce}
    return RemoteCommand("probe-places", "\n".join(lines), told)


def parse_places(result: CommandResult, nonce: str, paths: Sequence[str]) -> PlacesProbe:
    """Read the answer of `places_command`."""
    out = cut_sections(result.out, nonce)
    root = out.get("root", "").split("\n")
    return PlacesProbe(
        paths={path: _path_facts(path, out.get(f"path-{number}", "")) for number, path in enumerate(paths)},
        root_parent=root[0],
        root_writable="writable" in root[1:],
        free_kib=_fourth(out.get("room", "")),
        free_inodes=_fourth(out.get("inodes", "")),
        quota=_ANSI.sub("", out.get("quota", "")).strip(),
    )


def _path_facts(path: str, text: str) -> PathFacts:
    head, _, names = text.partition("\n")
    words = head.split()
    return PathFacts(
        path=path,
        kind=words[0] if words else "missing",
        readable="readable" in words,
        writable="writable" in words,
        names=tuple(names.splitlines()),
    )


def _fourth(line: str) -> int | None:
    words = line.split()
    return int(words[3]) if len(words) > 3 and words[3].isdecimal() else None


def present_command(paths: Sequence[str]) -> RemoteCommand:
    """Ask whether `paths` are there: one line each, in their order."""
    look = 'for path; do [ -e "$path" ] && echo there || echo missing; done'
    asked = shlex.join(["limit", "20", "bash", "-c", look, "look", *paths])
    return RemoteCommand("look", "\n".join((PINNED, LIMIT, asked)), {"paths": list(paths)})


def parse_present(out: str, paths: Sequence[str]) -> dict[str, bool] | None:
    """Read the answer of `present_command`; None when it is not one: silence is not "missing"."""
    words = out.split()
    if len(words) != len(paths) or not set(words) <= {"there", "missing"}:
        return None
    return {path: word == "there" for path, word in zip(paths, words, strict=True)}


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One line of `bsc_quota`: a file system with its use, in KiB; `limit` None when there is none."""

    name: str
    used_kib: float
    limit_kib: float | None

    @property
    def share(self) -> float | None:
        """Used part of the limit, 0 to 1 and beyond."""
        return self.used_kib / self.limit_kib if self.limit_kib else None


_AMOUNT = r"(\d+(?:\.\d+)?)\s*(KB|MB|GB|TB|PB|K|M|G|T|P)?"
_QUOTA = re.compile(rf"^\s*(\S+)\s+(?:GRP|USR|FILESET)\s+{_AMOUNT}\s+{_AMOUNT}\s+{_AMOUNT}", re.IGNORECASE)
_UNITS = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}


def parse_quota(text: str) -> tuple[QuotaLine, ...]:
    """The rows of `bsc_quota` (usage, soft quota, hard limit; units of 1024); other lines are passed over."""
    found = []
    for line in _ANSI.sub("", text).splitlines():
        told = _QUOTA.match(line)
        if told:
            used, soft, hard = (_kib(told[n], told[n + 1]) for n in (2, 4, 6))
            found.append(QuotaLine(told[1], used, soft or hard or None))
    return tuple(found)


def _kib(number: str, unit: str | None) -> float:
    return float(number) * _UNITS[(unit or "K")[0].upper()]
