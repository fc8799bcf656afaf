"""What this user may do on a cluster: Slurm's version, QoS and accounts, and the paths of the lab.

Questions for the cluster and the readers of their answers; nothing here sends them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from labtui.domain.errors import failure
from labtui.slurm.remote_command import Call, CommandResult, shell_file
from labtui.slurm.values import duration_seconds, epoch_seconds, number, size_kib

PROBE_LIMIT_S = 200.0
ASSOCIATION_FIELDS = ("Account", "QOS", "DefaultQOS")
QOS_FIELDS = ("Name", "MaxWall", "MaxJobsPU", "MaxSubmitPU")


class Association(NamedTuple):
    """One account this user may charge; `qos` are the QoS allowed with it."""

    account: str
    qos: tuple[str, ...] = ()
    default_qos: str = ""


class QosLimits(NamedTuple):
    """A QoS with its limits; None means that Slurm reports no limit. `max_wall_s` is in seconds."""

    name: str
    max_wall_s: float | None = None
    max_jobs_per_user: int | None = None
    max_submit_per_user: int | None = None

    @property
    def words(self) -> str:
        """``1 per user in the queue, 120 minutes at most``."""
        words = (
            (self.max_submit_per_user, "{:.0f} per user in the queue"),
            (self.max_jobs_per_user, "{:.0f} running"),
            (self.max_wall_s and self.max_wall_s / 60, "{:.0f} minutes at most"),
        )
        known = (text.format(limit) for limit, text in words if limit is not None)
        return ", ".join(known) or "no limits known"


def parse_associations(text: str) -> tuple[Association, ...]:
    """One for each valid line of ``sacctmgr show assoc`` with `ASSOCIATION_FIELDS`."""
    rows = _rows(text, len(ASSOCIATION_FIELDS))
    return tuple(Association(a, tuple(filter(None, qos.split(","))), first) for a, qos, first in rows)


def parse_qos(text: str) -> tuple[QosLimits, ...]:
    """One for each valid line of ``sacctmgr show qos`` with `QOS_FIELDS`."""
    rows = _rows(text, len(QOS_FIELDS))
    return tuple(QosLimits(name, duration_seconds(w), number(j), number(s)) for name, w, j, s in rows)


def parse_version(text: str) -> tuple[int, int] | None:
    """(22, 5) for ``slurm 22.05.8``, (24, 11) for ``slurm-wlm 24.11.5``; None if the text has no version."""
    version = re.search(r"\b([0-9]{2})\.([0-9]{1,2})\b", text)
    return (int(version[1]), int(version[2])) if version else None


def _rows(text: str, width: int) -> Iterable[list[str]]:
    """The lines with `width` fields, the first of which is not empty."""
    for line in text.splitlines():
        values = [value.strip() for value in line.split("|")]
        if len(values) == width and values[0]:
            yield values


PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sacctmgr", "sha256sum", "timeout")
CIFAR10 = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
"""The files of CIFAR-10's Python version."""
CIFAR10_BYTES = 31_035_000
"""The published files have 31,035,320 to 31,035,999 bytes each."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")


class SlurmProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The user's name on the cluster and what Slurm offers this user. None: that question failed."""

    user: str
    server_time: float | None
    missing: tuple[str, ...]
    version: tuple[int, int] | None
    version_text: str
    queue_problem: str
    accounting_problem: str
    associations: tuple[Association, ...] | None
    qos: tuple[QosLimits, ...] | None
    has_module: bool


def slurm_probe() -> Call[SlurmProbe]:
    """Ask for the clock, missing programs, the version, accounts and QoS."""
    return Call(
        name="probe-slurm",
        script=shell_file("slurm-probe"),
        arguments=(",".join(QOS_FIELDS), ",".join(ASSOCIATION_FIELDS), *PROGRAMS),
        limit_s=PROBE_LIMIT_S,
        read=_read_slurm_probe,
    )


def _read_slurm_probe(result: CommandResult) -> SlurmProbe:
    out = result.sections
    refused = result.refused("squeue", "sacct", "assoc", "qos")
    version = out.get("version", "").strip()
    return SlurmProbe(
        user=out.get("user", "").strip(),
        server_time=epoch_seconds(out.get("now", "")),
        missing=tuple(out.get("missing", "").split()),
        version=parse_version(version),
        version_text=version.splitlines()[0] if version else "",
        queue_problem=refused.get("squeue", ""),
        accounting_problem=refused.get("sacct", ""),
        associations=None if "assoc" in refused else parse_associations(out.get("assoc", "")),
        qos=None if "qos" in refused else parse_qos(out.get("qos", "")),
        has_module=out.get("module", "").strip() == "yes",
    )


# --------------------------------------------------------------------------- paths


class PathFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One path on the cluster: its kind (dir, file, missing) and whether this user may read it."""

    path: str
    kind: str = "missing"
    readable: bool = False
    sizes: Mapping[str, int] = {}
    """The sizes of the CIFAR-10 files in it, in bytes."""

    @property
    def missing_data_files(self) -> tuple[str, ...]:
        """The CIFAR-10 files that are not in this directory."""
        return tuple(name for name in CIFAR10 if name not in self.sizes)

    @property
    def short_data_files(self) -> tuple[str, ...]:
        """The CIFAR-10 files that are much smaller than the largest, though all hold the same number of images.

        The published files agree in size within 0.003 %; small test files differ more, by their pixels.
        """
        largest = max(self.sizes.values(), default=0)
        share = 0.999 if largest > CIFAR10_BYTES else 0.9
        return tuple(name for name, size in self.sizes.items() if size < share * largest)


class PathsProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The paths asked about, the free space at the root, and the output of the site's quota command.

    `complete` is false if the answer was cut off.
    """

    complete: bool = True
    paths: dict[str, PathFacts] = {}
    python: tuple[int, str] | None = None
    """The exit status and output of the test of the training's Python."""
    root_parent: str = ""
    root_writable: bool = False
    free_kib: int | None = None
    free_inodes: int | None = None
    quota: str = ""


def paths_probe(
    root: str, paths: Sequence[str], commands: Mapping[str, str] | None = None, *, extra_s: float = 0.0
) -> Call[PathsProbe]:
    """Ask about `paths`, free space and permission under `root`, and run the site's `commands`; changes nothing.

    `commands` holds shell code by section: ``quota``, ``python`` (starts the training's Python). `extra_s` is how
    much longer these may take.
    """
    pairs = [word for pair in (commands or {}).items() for word in pair]
    return Call(
        name="probe-places",
        script=shell_file("paths"),
        arguments=(_sent(root) or ".", " ".join(CIFAR10), f"{len(paths)}", *map(_sent, paths), *pairs),
        limit_s=110 + extra_s,
        read=partial(_read_paths, paths=paths),
    )


def _read_paths(result: CommandResult, *, paths: Sequence[str]) -> PathsProbe:
    out = result.sections
    root = out.get("root", "").split("\n")
    status = result.section_status("python")
    return PathsProbe(
        complete=result.status == 0,
        paths={path: _path_facts(path, out.get(f"path-{index}", "")) for index, path in enumerate(paths)},
        root_parent=root[0],
        root_writable="writable" in root[1:],
        python=None if status is None or "python" not in out else (status, out["python"].strip()),
        free_kib=_fourth_field(out.get("room", "")),
        free_inodes=_fourth_field(out.get("inodes", "")),
        quota=out.get("quota", ""),
    )


def _path_facts(path: str, text: str) -> PathFacts:
    head, _, listed = text.partition("\n")
    words = head.split()
    sizes = re.findall(rf"^\s*([0-9]{{1,12}})\s+({'|'.join(CIFAR10)})\s*$", listed, re.MULTILINE)
    return PathFacts(
        path=path,
        kind=words[0] if words else "missing",
        readable="readable" in words,
        sizes={name: int(size) for size, name in sizes},
    )


def _fourth_field(line: str) -> int | None:
    words = line.split()
    return number(words[3]) if len(words) > 3 else None


def from_home(path: str) -> str:
    """A remote path as sentences show it: what is not absolute starts at the home directory."""
    return path if path.startswith(("/", "~")) else f"~/{path}"


def _sent(path: str) -> str:
    """A remote path as a word of a command: in quotes ~ is a plain character, and commands start at home anyway."""
    return path.removeprefix("~/")


def paths_exist(paths: Sequence[str]) -> Call[dict[str, bool]]:
    """Whether each of these paths exists; a broken link does not. Reading raises RemoteFailure without an answer."""
    look = 'for path; do [ -e "$path" ] && echo there || echo missing; done'
    return Call(
        name="look",
        script=f"limit 20 bash -c '{look}' look \"$@\"",
        arguments=tuple(map(_sent, paths)),
        limit_s=30,
        read=partial(_read_existence, paths=paths),
    )


def _read_existence(result: CommandResult, *, paths: Sequence[str]) -> dict[str, bool]:
    words = result.out.split()
    if len(words) != len(paths) or not set(words) <= {"there", "missing"}:  # no answer is not "missing"
        raise failure("paths-unanswered")
    return {path: word == "there" for path, word in zip(paths, words, strict=True)}


class FileDigest(NamedTuple):
    """A file's size in bytes and SHA-256 (lower-case hex); None and "" if they could not be found out."""

    size: int | None
    sha256: str


def file_digest(path: str) -> Call[FileDigest]:
    """Ask for a file's digest, then its size.

    In this order, because a log only grows: if the size is still the expected one, the digest is of the whole file.
    """
    script = 'limit 60 sha256sum -- "$1"; echo; wc -c <"$1"'
    return Call(name="digest", script=script, arguments=(path,), limit_s=90, read=_read_digest)


def _read_digest(result: CommandResult) -> FileDigest:
    digest = re.match(r"\\?([0-9a-f]{64}) ", result.out)
    return FileDigest(number(result.out.rpartition("\n\n")[2]), digest[1] if digest else "")


_MAX_LINE = 400
"""Longer lines are cut: no row of a quota table is longer, and on a long line the pattern would backtrack."""
_AMOUNT = r"([0-9]+(?:\.[0-9]+)?(?: {0,3}(?:KB|MB|GB|TB|PB|K|M|G|T|P))?)"
_QUOTA = re.compile(rf"^\s*(\S+)\s+(?:GRP|USR|FILESET)\s+{_AMOUNT}\s+{_AMOUNT}\s+{_AMOUNT}", re.IGNORECASE)


def parse_quota(text: str) -> dict[str, float]:
    """The used share of the limit (1 is full) by file system, from ``bsc_quota`` (usage, soft quota, hard limit)."""
    found = {}
    for line in _ANSI.sub("", text).splitlines():
        if (row := _QUOTA.match(line[:_MAX_LINE])) is None:
            continue
        used, limit = size_kib(row[2]), size_kib(row[3]) or size_kib(row[4])
        if used is not None and limit:
            found[row[1]] = used / limit
    return found
