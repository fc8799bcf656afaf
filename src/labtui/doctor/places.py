"""Judges file systems and computing time: remote folder, data, container, room, quota, hours left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from labtui.doctor.findings import (
    Check,
    ok,
    problem,
    skipped,
    warning,
)
from labtui.slurm.probe import (
    Budget,
    PathFacts,
    PathsProbe,
    parse_budget,
    parse_quota,
)

BUDGET_LOW = 0.95
EXPIRES_SOON_DAYS = 14


def check_paths(
    probe: PathsProbe,
    *,
    root: str,
    data_dir: str,
    container: str,
    alternative_paths: Mapping[str, str],
    today: date | None = None,
) -> list[Check]:
    """Data, container, room to work, hours. `alternative_paths` maps a path to another one where the same may lie."""
    checks = [_root(probe, root)]
    if data_dir:
        checks.append(_data(probe, data_dir, alternative_paths.get(data_dir, "")))
    if container:
        checks.append(_container(probe, container, alternative_paths.get(container, "")))
    checks += _room(probe)
    if probe.budget:
        checks.append(check_budget(parse_budget(probe.budget), today))
    return checks


def _root(probe: PathsProbe, root: str) -> Check:
    if probe.root_writable:
        return ok("root", "Remote folder", f"{root} is writable.")
    return problem(
        "root",
        "Remote folder",
        f"{root} cannot be made: you may not write to {probe.root_parent or 'its parent'}.",
        "Is the account in the path yours? Or choose another place: root in lab.toml.",
    )


def _facts(probe: PathsProbe, path: str) -> PathFacts:
    return probe.paths.get(path, PathFacts(path=path))


def _data(probe: PathsProbe, path: str, other: str) -> Check:
    key, title, facts = "data", "Data", _facts(probe, path)
    if facts.kind == "dir" and facts.readable and not facts.batches_missing:
        if short := facts.batches_short:
            sentence = f"{', '.join(short)} in {path} is shorter than the other files: a broken copy."
            return problem(
                key, title, sentence, "Copy it again, or name another folder (data_dir in lab.toml)."
            )
        return ok(key, title, f"{path} has all files of CIFAR-10, and their sizes fit.")
    if other and not _facts(probe, other).batches_missing:
        sentence = f"CIFAR-10 is not in {path}, but it is in {other}."
        return problem(key, title, sentence, f'Write data_dir = "{other}" in lab.toml.', data_dir=other)
    if facts.kind == "dir" and facts.readable:
        fix = "Name the folder that holds the data_batch_ files themselves (cifar-10-batches-py)."
        return problem(key, title, f"{path} lacks {', '.join(facts.batches_missing)}.", fix)
    why = "cannot be read by you" if facts.kind == "dir" else "does not exist"
    fix = "Check the account in the path; ask your teacher where the data are (data_dir in lab.toml)."
    return problem(key, title, f"The data folder {path} {why}.", fix)


def _container(probe: PathsProbe, path: str, other: str) -> Check:
    key, title, facts = "container", "Container", _facts(probe, path)
    if facts.kind != "missing" and facts.readable:
        return ok(key, title, f"{path} is there.")
    if other and _facts(probe, other).readable:
        sentence = f"The container is not at {path}, but it is at {other}."
        return problem(key, title, sentence, f'Write container = "{other}" in lab.toml.', container=other)
    why = "does not exist" if facts.kind == "missing" else "cannot be read by you"
    fix = "Check the account in the path; ask your teacher for the image (container in lab.toml)."
    return problem(key, title, f"The container image {path} {why}.", fix)


def _room(probe: PathsProbe) -> list[Check]:
    checks = []
    if probe.free_kib is not None:
        full = probe.free_kib < 100 * 1024 or probe.free_inodes == 0
        sentence = f"{probe.free_kib / 1024**2:.1f} GiB are free where labtui works."
        room = problem("room", "Room", sentence, "Delete what you do not need there.")
        checks.append(room if full else ok("room", "Room", sentence))
    lines = [line for line in parse_quota(probe.quota) if line.share]
    worst = max(lines, key=lambda line: line.share or 0, default=None)
    if worst is not None and worst.share is not None:
        sentence = f"{worst.name} is {100 * worst.share:.0f} % full."
        fix = "Delete what you do not need; a full quota causes unexpected failures."
        make = problem if worst.share >= 1 else warning
        checks.append(
            make("quota", "Quota", sentence, fix) if worst.share >= 0.95 else ok("quota", "Quota", sentence)
        )
    return checks


def check_budget(budget: Sequence[Budget], today: date | None) -> Check:
    """Computing time left and when the project ends, by the machine that is nearest to its limit."""
    key, title = "budget", "Hours left"
    if not budget:
        return skipped(key, title, "The site's command printed nothing that labtui can read.")
    worst = max(budget, key=lambda item: item.share or 0)
    used = f"{worst.used_khours * 1000:,.0f} core-hours are used"
    if worst.total_khours is not None:
        left = max(0.0, worst.total_khours - worst.used_khours) * 1000
        used = f"{left:,.0f} of {worst.total_khours * 1000:,.0f} core-hours are left"
    until = f" The project ends on {worst.ends:%Y-%m-%d}." if worst.ends else ""
    sentence = f"{worst.machine} ({worst.account}): {used}; counted about once a day.{until}"
    days = (worst.ends - today).days if worst.ends and today else None
    if days is not None and days < 0:
        return problem(key, title, sentence, "The project is over, so jobs are refused: ask your teacher.")
    if worst.share is not None and worst.share >= 1:
        return problem(key, title, sentence, "Nothing is left: jobs wait behind all others or are refused.")
    if (worst.share or 0) >= BUDGET_LOW or (days is not None and days <= EXPIRES_SOON_DAYS):
        return warning(key, title, sentence, "Ask your teacher before you start long runs.")
    return ok(key, title, sentence)
