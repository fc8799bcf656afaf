"""Judges file systems and Python: remote folder, data, container, room, quota."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from labtui.doctor.findings import Check, found
from labtui.slurm.probe import (
    PathFacts,
    PathsProbe,
    parse_quota,
)
from labtui.slurm.remote_command import NOT_FOUND, TIMED_OUT

PYTHON_LIMIT_S = 60
NOT_EXECUTABLE = 126


def check_paths(
    probe: PathsProbe,
    *,
    root: str,
    data_dir: str,
    container: str,
    alternative_paths: Mapping[str, str],
    account: str = "",
) -> Iterator[Check]:
    """Data, container, room to work. `alternative_paths` maps a path to another one where the same may lie."""
    parent = probe.root_parent or "its parent"

    def charged(path: str) -> str:
        """The account, where it is a part of the path and may be the wrong one."""
        return f" and the account {account} in it" if account and account in path else ""

    seen = "fine" if probe.root_writable else "closed"
    yield found("root", seen, path=root, parent=parent, account=charged(root))

    def facts(path: str) -> PathFacts:
        return probe.paths.get(path, PathFacts(path=path))

    if data_dir:
        other = facts(alternative_paths.get(data_dir, ""))
        yield _data(facts(data_dir), other, charged(data_dir))
    if container:
        here, other = facts(container), facts(alternative_paths.get(container, ""))
        seen = "fine" if here.readable else "elsewhere" if other.readable else _why(here)
        settings = {"container": other.path} if seen == "elsewhere" else {}
        words: dict[str, Any] = {"path": container, "other": other.path, "account": charged(container)}
        yield found("container", seen, settings=settings, **words)
    if probe.free_kib is not None:
        full = probe.free_kib < 100 * 1024 or probe.free_inodes == 0
        yield found("room", "full" if full else "fine", gib=probe.free_kib / 1024**2)
    quota = parse_quota(probe.quota)
    name, share = max(quota.items(), key=lambda item: item[1], default=("", 0.0))
    if share:
        seen = "full" if share >= 1 else "nearly" if share >= 0.95 else "fine"
        yield found("quota", seen, name=name, percent=100 * share)


def _data(facts: PathFacts, other: PathFacts, account: str) -> Check:
    """`other` is where the files may be instead, `account` a remark on that of the path."""
    there = facts.kind == "dir" and facts.readable
    names, settings = facts.batches_missing, {}
    if there and not facts.batches_missing:
        names = facts.batches_short
        seen = "short" if names else "fine"
    elif not other.batches_missing:
        seen, settings = "elsewhere", {"data_dir": other.path}
    else:
        seen = "incomplete" if there else _why(facts)
    words: dict[str, Any] = {
        "path": facts.path,
        "other": other.path,
        "account": account,
        "names": ", ".join(names),
    }
    return found("data", seen, settings=settings, **words)


def _why(facts: PathFacts) -> str:
    return "missing" if facts.kind == "missing" else "closed"


def check_python(python: str, framework: str, answer: tuple[int, str] | None) -> Check:
    """Whether the training's Python starts and has its framework; a login node may refuse to run it."""
    status, text = answer or (None, "")
    last = (text.splitlines() or [""])[-1].strip()[:200]
    seen = {0: "fine", TIMED_OUT: "silent"}.get(-1 if status is None else status, "refused")
    if status and f"No module named '{framework}'" in text:
        seen = "no-framework"
    elif status in (NOT_EXECUTABLE, NOT_FOUND) or "No such file or directory" in last:
        seen = "no-program"
    words: dict[str, Any] = {
        "python": python,
        "framework": framework,
        "said": last or "no answer",
        "limit": PYTHON_LIMIT_S,
    }
    return found("python", seen, **words)
