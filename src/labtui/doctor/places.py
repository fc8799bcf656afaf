"""Judges file systems and Python: remote folder, data, container, room, quota."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labtui.doctor.findings import (
    Check,
    Status,
    fine_unless,
    ok,
    problem,
    skipped,
)
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
) -> Iterator[Check]:
    """Data, container, room to work. `alternative_paths` maps a path to another one where the same may lie."""
    wrong = f"{root} cannot be made: you may not write to {probe.root_parent or 'its parent'}."
    fix = "Is the account in the path yours? Or choose another place: root in lab.toml."
    yield fine_unless("root", "" if probe.root_writable else wrong, fix, f"{root} is writable.")

    def facts(path: str) -> PathFacts:
        return probe.paths.get(path, PathFacts(path=path))

    if data_dir:
        yield _data(facts(data_dir), facts(alternative_paths.get(data_dir, "")))
    if container:
        yield _container(facts(container), facts(alternative_paths.get(container, "")))
    yield from _room(probe)


def _data(facts: PathFacts, other: PathFacts) -> Check:
    """`other` is where the files may be instead."""
    path, missing, short = facts.path, facts.batches_missing, facts.batches_short
    there = facts.kind == "dir" and facts.readable
    if there and not missing:
        wrong = f"{', '.join(short)} in {path} is shorter than the other files: a broken copy."
        fix = "Copy it again, or name another folder (data_dir in lab.toml)."
        fine = f"{path} has all files of CIFAR-10, and their sizes fit."
        return fine_unless("data", wrong if short else "", fix, fine)
    if not other.batches_missing:
        sentence = f"CIFAR-10 is not in {path}, but it is in {other.path}."
        return problem("data", sentence, f'Write data_dir = "{other.path}" in lab.toml.', data_dir=other.path)
    if there:
        fix = "Name the folder that holds the data_batch_ files themselves (cifar-10-batches-py)."
        return problem("data", f"{path} lacks {', '.join(missing)}.", fix)
    fix = "Check the account in the path; ask your teacher where the data are (data_dir in lab.toml)."
    return problem("data", f"The data folder {path} {_why(facts)}.", fix)


def _container(facts: PathFacts, other: PathFacts) -> Check:
    path = facts.path
    if facts.readable:
        return ok("container", f"{path} is there.")
    if other.readable:
        sentence = f"The container is not at {path}, but it is at {other.path}."
        return problem(
            "container", sentence, f'Write container = "{other.path}" in lab.toml.', container=other.path
        )
    fix = "Check the account in the path; ask your teacher for the image (container in lab.toml)."
    return problem("container", f"The container image {path} {_why(facts)}.", fix)


def _why(facts: PathFacts) -> str:
    return "does not exist" if facts.kind == "missing" else "cannot be read by you"


def _room(probe: PathsProbe) -> Iterator[Check]:
    fix = "Delete what you do not need there; a full disk or quota causes unexpected failures."
    if probe.free_kib is not None:
        full = probe.free_kib < 100 * 1024 or probe.free_inodes == 0
        sentence = f"{probe.free_kib / 1024**2:.1f} GiB are free where labtui works."
        yield fine_unless("room", sentence if full else "", fix, sentence)
    quota = parse_quota(probe.quota)
    name, share = max(quota.items(), key=lambda item: item[1], default=("", 0.0))
    if share:
        sentence = f"{name} is {100 * share:.0f} % full."
        status: Status = "problem" if share >= 1 else "warning"
        yield fine_unless("quota", sentence if share >= 0.95 else "", fix, sentence, status)


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
