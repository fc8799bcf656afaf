"""Judges file systems, Python and computing time: remote folder, data, container, room, quota, hours left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from labtui.doctor.findings import (
    Check,
    Status,
    check,
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
from labtui.slurm.remote_command import NOT_FOUND, TIMED_OUT

PYTHON_LIMIT_S = 60
NOT_EXECUTABLE = 126
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
) -> Iterator[Check]:
    """Data, container, room to work, hours. `alternative_paths` maps a path to another one where the same may lie."""
    if probe.root_writable:
        yield ok("root", f"{root} is writable.")
    else:
        sentence = f"{root} cannot be made: you may not write to {probe.root_parent or 'its parent'}."
        fix = "Is the account in the path yours? Or choose another place: root in lab.toml."
        yield problem("root", sentence, fix)
    facts = {path: probe.paths.get(path, PathFacts(path=path)) for path in (data_dir, container)}
    if data_dir:
        other = alternative_paths.get(data_dir, "")
        yield _data(
            facts[data_dir], other if other in probe.paths and not probe.paths[other].batches_missing else ""
        )
    if container:
        other = alternative_paths.get(container, "")
        yield _container(
            facts[container], other if other in probe.paths and probe.paths[other].readable else ""
        )
    yield from _room(probe)
    if probe.budget:
        yield check_budget(parse_budget(probe.budget), today)


def _data(facts: PathFacts, other: str) -> Check:
    """`other` is where the files are instead."""
    path, missing, short = facts.path, facts.batches_missing, facts.batches_short
    there = facts.kind == "dir" and facts.readable
    if there and not missing and short:
        sentence = f"{', '.join(short)} in {path} is shorter than the other files: a broken copy."
        return problem("data", sentence, "Copy it again, or name another folder (data_dir in lab.toml).")
    if there and not missing:
        return ok("data", f"{path} has all files of CIFAR-10, and their sizes fit.")
    if other:
        sentence = f"CIFAR-10 is not in {path}, but it is in {other}."
        return problem("data", sentence, f'Write data_dir = "{other}" in lab.toml.', data_dir=other)
    if there:
        fix = "Name the folder that holds the data_batch_ files themselves (cifar-10-batches-py)."
        return problem("data", f"{path} lacks {', '.join(missing)}.", fix)
    why = "cannot be read by you" if facts.kind == "dir" else "does not exist"
    fix = "Check the account in the path; ask your teacher where the data are (data_dir in lab.toml)."
    return problem("data", f"The data folder {path} {why}.", fix)


def _container(facts: PathFacts, other: str) -> Check:
    path = facts.path
    if facts.kind != "missing" and facts.readable:
        return ok("container", f"{path} is there.")
    if other:
        sentence = f"The container is not at {path}, but it is at {other}."
        return problem("container", sentence, f'Write container = "{other}" in lab.toml.', container=other)
    why = "does not exist" if facts.kind == "missing" else "cannot be read by you"
    fix = "Check the account in the path; ask your teacher for the image (container in lab.toml)."
    return problem("container", f"The container image {path} {why}.", fix)


def _room(probe: PathsProbe) -> Iterator[Check]:
    if probe.free_kib is not None:
        full = probe.free_kib < 100 * 1024 or probe.free_inodes == 0
        sentence = f"{probe.free_kib / 1024**2:.1f} GiB are free where labtui works."
        fix = "Delete what you do not need there." if full else ""
        yield check("problem" if full else "ok", "room", sentence, fix)
    worst = max(((line.share or 0.0, line.name) for line in parse_quota(probe.quota)), default=(0.0, ""))
    if worst[0]:
        status: Status = "problem" if worst[0] >= 1 else "warning" if worst[0] >= 0.95 else "ok"
        fix = (
            "" if status == "ok" else "Delete what you do not need; a full quota causes unexpected failures."
        )
        yield check(status, "quota", f"{worst[1]} is {100 * worst[0]:.0f} % full.", fix)


def check_budget(budget: Sequence[Budget], today: date | None) -> Check:
    """Computing time left and when the project ends, by the machine that is nearest to its limit."""
    if not budget:
        return skipped("budget", "The site's command printed nothing that labtui can read.")
    worst = max(budget, key=lambda item: item.share or 0)
    used = f"{worst.used_khours * 1000:,.0f} core-hours are used"
    if worst.total_khours is not None:
        left = max(0.0, worst.total_khours - worst.used_khours) * 1000
        used = f"{left:,.0f} of {worst.total_khours * 1000:,.0f} core-hours are left"
    until = f" The project ends on {worst.ends:%Y-%m-%d}." if worst.ends else ""
    sentence = f"{worst.machine} ({worst.account}): {used}; counted about once a day.{until}"
    days = (worst.ends - today).days if worst.ends and today else None
    if days is not None and days < 0:
        return problem("budget", sentence, "The project is over, so jobs are refused: ask your teacher.")
    if worst.share is not None and worst.share >= 1:
        return problem("budget", sentence, "Nothing is left: jobs wait behind all others or are refused.")
    if (worst.share or 0) >= BUDGET_LOW or (days is not None and days <= EXPIRES_SOON_DAYS):
        return warning("budget", sentence, "Ask your teacher before you start long runs.")
    return ok("budget", sentence)


def check_python(python: str, framework: str, answer: tuple[int, str] | None) -> Check:
    """Whether the training's Python starts and has its framework; a login node may refuse to run it."""
    fix = "Correct `python` or `modules` under [launch] in the cluster's profile; `labtui init --python` writes it."
    status, text = answer or (None, "")
    last = (text.splitlines() or [""])[-1].strip()[:200]
    if status == 0:
        return ok("python", f"{python} starts and has {framework} ({last}).")
    if f"No module named '{framework}'" in text:
        return problem("python", f"{python} has no {framework}.", fix)
    if status in (NOT_EXECUTABLE, NOT_FOUND) or "No such file or directory" in last:
        return problem("python", f"There is no program {python} on the login node.", fix)
    if status == TIMED_OUT:
        return skipped("python", f"{python} gave no answer within {PYTHON_LIMIT_S} s on the login node.")
    return skipped("python", f"The login node did not run {python}: {last or 'no answer'}")
