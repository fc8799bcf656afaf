"""From what was found on the way to a cluster to checks a student can read, with their fixes.

Pure: the finding is done by `labtui.cluster.doctor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from labtui.core.probe import PathFacts, PlacesProbe, SlurmProbe, parse_quota
from labtui.core.profile import Profile

Status = Literal["ok", "warning", "problem", "skipped"]
CLOCK_LIMIT_S = 60.0
OLDEST = (20, 11, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding. `key` is a stable word, `sentence` what was found and means, `fix` what to do."""

    key: str
    title: str
    status: Status
    sentence: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the lab folder (or the command line) asks for; empty texts fall back to profile and cluster."""

    account: str = ""
    qos: str = ""
    root: str = ""
    data_dir: str = ""
    container: str = ""


def check_clock(server_time: float | None, our_time: float, *, practice: bool = False) -> Check:
    """Compare the two clocks (UNIX seconds at about the same moment); a practice cluster's runs faster on purpose."""
    if server_time is None:
        return Check(
            key="clock", title="Clock", status="skipped", sentence="The cluster did not tell the time."
        )
    off = server_time - our_time
    if abs(off) <= CLOCK_LIMIT_S:
        return Check(
            key="clock", title="Clock", status="ok", sentence=f"The clocks differ by {abs(off):.0f} s."
        )
    if practice:
        told = f"The practice cluster's clock is {off / 60:.0f} minutes ahead: it runs faster than ours."
        return Check(key="clock", title="Clock", status="ok", sentence=told)
    side = "behind" if off > 0 else "ahead of"
    return Check(
        key="clock",
        title="Clock",
        status="warning",
        sentence=f"This computer's clock is {abs(off):.0f} s {side} the cluster's.",
        fix="Set this computer's clock (automatic time): estimated starts and ages look wrong otherwise.",
    )


def check_slurm(probe: SlurmProbe) -> list[Check]:
    """Programs, version, queue, accounting."""
    missing = [name for name in probe.missing if name not in ("sha256sum", "timeout")]
    checks = []
    if missing:
        checks.append(
            Check(
                key="slurm-commands",
                title="Slurm commands",
                status="problem",
                sentence=f"These commands are not on this host: {', '.join(missing)}.",
                fix="Connect to a login node, not a transfer node; or load Slurm's module in .bash_profile.",
            )
        )
    else:
        checks.append(
            Check(key="slurm-commands", title="Slurm commands", status="ok", sentence="All are there.")
        )
    if "sha256sum" in probe.missing:
        checks.append(
            Check(
                key="sha256sum",
                title="sha256sum",
                status="problem",
                sentence="There is no sha256sum on this host, which pushing files needs.",
                fix="Ask the site for GNU coreutils.",
            )
        )
    checks.append(_version(probe))
    checks.append(_answers("squeue", "Queue", probe.queue_problem, "The queue answers."))
    checks.append(_answers("sacct", "Accounting", probe.accounting_problem, "Accounting answers."))
    return checks


def _version(probe: SlurmProbe) -> Check:
    title = "Slurm version"
    if probe.version is None:
        return Check(
            key="slurm-version",
            title=title,
            status="warning",
            sentence=f"The version is not known ({probe.version_text or 'sbatch --version gave no answer'}).",
            fix="Try `sbatch --version` there.",
        )
    if probe.version < OLDEST:
        return Check(
            key="slurm-version",
            title=title,
            status="warning",
            sentence=f"{probe.version_text} is older than what labtui was tried on (20.11).",
            fix="It may still work; if something looks odd, look at the remote-command panel.",
        )
    return Check(key="slurm-version", title=title, status="ok", sentence=f"{probe.version_text}.")


def _answers(key: str, title: str, problem: str, fine: str) -> Check:
    if not problem:
        return Check(key=key, title=title, status="ok", sentence=fine)
    lost = (
        "States are shown as unknown until it answers" if key == "squeue" else "Ends of jobs are shown late"
    )
    return Check(
        key=key,
        title=title,
        status="problem" if key == "squeue" else "warning",
        sentence=f"{key} did not answer: {problem}",
        fix=f"Wait and try again; the site may be in maintenance. {lost}.",
    )


# --------------------------------------------------------------------------- account and QoS


def choose_account(probe: SlurmProbe, wanted: Wanted, profile: Profile) -> str:
    """The account meant: as asked, the profile's, or the only one this user has."""
    told = wanted.account or profile.default_account
    names = list(dict.fromkeys(item.account for item in probe.associations or ()))
    return told or (names[0] if len(names) == 1 else "")


def check_account(probe: SlurmProbe, wanted: Wanted, profile: Profile) -> Check:
    """Is the account one of this user's?"""
    title = "Account"
    if probe.associations is None:
        return Check(
            key="account",
            title=title,
            status="skipped",
            sentence="Slurm's accounting does not tell which accounts are yours.",
        )
    names = list(dict.fromkeys(item.account for item in probe.associations))
    yours = ", ".join(names) or "none"
    told = wanted.account or profile.default_account
    if not names:
        return Check(
            key="account",
            title=title,
            status="problem",
            sentence=f"Slurm knows no account of {probe.user}.",
            fix="Ask your teacher or the site: without an account no job is taken.",
        )
    if told and told not in names:
        return Check(
            key="account",
            title=title,
            status="problem",
            sentence=f"The account {told} is not yours; yours: {yours}.",
            fix=f'Write account = "{names[0]}" in lab.toml; the numbers in examples are of other courses.',
        )
    if not told and len(names) > 1:
        return Check(
            key="account",
            title=title,
            status="warning",
            sentence=f"You have several accounts ({yours}) and none is chosen.",
            fix="Write the right one as account in lab.toml.",
        )
    return Check(key="account", title=title, status="ok", sentence=f"{told or names[0]} (yours: {yours}).")


def check_qos(probe: SlurmProbe, wanted: Wanted, profile: Profile) -> list[Check]:
    """Is the QoS open to this user, and does the profile know its limits rightly?"""
    if profile.queue_option != "qos":
        return []
    if probe.associations is None:
        return [
            Check(
                key="qos", title="QoS", status="skipped", sentence="Slurm does not tell which QoS are yours."
            )
        ]
    account = choose_account(probe, wanted, profile)
    of_account = [item for item in probe.associations if item.account == account]
    yours = {name for item in of_account or probe.associations for name in item.qos}
    listed = ", ".join(sorted(yours)) or "none"
    meant = dict.fromkeys(name for name in (wanted.qos or profile.gpu_queue, profile.cpu_queue) if name)
    checks = []
    for name in meant:
        if name in yours:
            checks.append(_limits(name, probe, profile))
            continue
        checks.append(
            Check(
                key=f"qos-{name}",
                title=f"QoS {name}",
                status="problem",
                sentence=f"It is not open to you; open: {listed}.",
                fix="Choose one of those as qos in lab.toml.",
            )
        )
    return checks


def _limits(name: str, probe: SlurmProbe, profile: Profile) -> Check:
    title, key = f"QoS {name}", f"qos-{name}"
    limits = next((item for item in probe.qos or () if item.name == name), None)
    if limits is None:
        return Check(key=key, title=title, status="ok", sentence="Open to you; its limits are not told.")
    words = []
    if limits.max_submit_per_user is not None:
        jobs = "job" if limits.max_submit_per_user == 1 else "jobs"
        words.append(f"{limits.max_submit_per_user} {jobs} per user in the queue")
    if limits.max_jobs_per_user is not None:
        words.append(f"{limits.max_jobs_per_user} running")
    if limits.max_wall_s is not None:
        words.append(f"{limits.max_wall_s / 60:.0f} minutes at most")
    known = profile.queue(name)
    told = f"Open to you: {', '.join(words) or 'no limits told'}."
    if known is None:
        return Check(key=key, title=title, status="ok", sentence=told)
    differs = []
    if known.max_submit_per_user != limits.max_submit_per_user:
        differs.append(f"jobs per user {known.max_submit_per_user or 'unknown'}")
    if known.max_minutes and limits.max_wall_s and known.max_minutes * 60 > limits.max_wall_s:
        differs.append(f"{known.max_minutes} minutes")
    if differs:
        return Check(
            key=key,
            title=title,
            status="warning",
            sentence=f"{told} The profile says otherwise: {', '.join(differs)}.",
            fix="Name a corrected copy of the profile in lab.toml; Slurm's own limits decide anyway.",
        )
    return Check(key=key, title=title, status="ok", sentence=told)


# --------------------------------------------------------------------------- places


def check_places(
    places: PlacesProbe, *, root: str, data_dir: str, container: str, other_places: Mapping[str, str]
) -> list[Check]:
    """Data, container, room to work. `other_places` maps a path to another one where the same may lie."""
    checks = [_root(places, root)]
    if data_dir:
        checks.append(_data(places, data_dir, other_places.get(data_dir, "")))
    if container:
        checks.append(_container(places, container, other_places.get(container, "")))
    checks += _room(places)
    return checks


def _root(places: PlacesProbe, root: str) -> Check:
    if places.root_writable:
        return Check(key="root", title="Remote folder", status="ok", sentence=f"{root} can be written.")
    return Check(
        key="root",
        title="Remote folder",
        status="problem",
        sentence=f"{root} cannot be made: {places.root_parent or 'its parent'} is closed to you.",
        fix="Is the account in the path yours? Or choose another place: root in lab.toml.",
    )


def _facts(places: PlacesProbe, path: str) -> PathFacts:
    return places.paths.get(path, PathFacts(path=path))


def _data(places: PlacesProbe, path: str, other: str) -> Check:
    title, facts = "Data", _facts(places, path)
    if facts.kind == "dir" and facts.readable and not facts.batches_missing:
        return Check(key="data", title=title, status="ok", sentence=f"CIFAR-10 is complete in {path}.")
    if other and not _facts(places, other).batches_missing:
        return Check(
            key="data",
            title=title,
            status="problem",
            sentence=f"CIFAR-10 is not in {path}, but it is in {other}.",
            fix=f'Write data_dir = "{other}" in lab.toml.',
        )
    if facts.kind == "dir" and facts.readable:
        return Check(
            key="data",
            title=title,
            status="problem",
            sentence=f"{path} lacks {', '.join(facts.batches_missing)}.",
            fix="Name the folder that holds the data_batch_ files themselves (cifar-10-batches-py).",
        )
    why = "may not be read by you" if facts.kind == "dir" else "is not there"
    return Check(
        key="data",
        title=title,
        status="problem",
        sentence=f"The data folder {path} {why}.",
        fix="Check the account in the path; ask your teacher where the data are (data_dir in lab.toml).",
    )


def _container(places: PlacesProbe, path: str, other: str) -> Check:
    title, facts = "Container", _facts(places, path)
    if facts.kind != "missing" and facts.readable:
        return Check(key="container", title=title, status="ok", sentence=f"{path} is there.")
    if other and _facts(places, other).readable:
        return Check(
            key="container",
            title=title,
            status="problem",
            sentence=f"The container is not at {path}, but it is at {other}.",
            fix=f'Write container = "{other}" in lab.toml.',
        )
    why = "is not there" if facts.kind == "missing" else "may not be read by you"
    return Check(
        key="container",
        title=title,
        status="problem",
        sentence=f"The container image {path} {why}.",
        fix="Check the account in the path; ask your teacher for the image (container in lab.toml).",
    )


def _room(places: PlacesProbe) -> list[Check]:
    checks = []
    if places.free_kib is not None:
        full = places.free_kib < 100 * 1024 or places.free_inodes == 0
        checks.append(
            Check(
                key="room",
                title="Room",
                status="problem" if full else "ok",
                sentence=f"{places.free_kib / 1024**2:.1f} GiB are free where labtui works.",
                fix="Delete what you do not need there." if full else "",
            )
        )
    worst = max(
        (line for line in parse_quota(places.quota) if line.share), key=lambda x: x.share or 0, default=None
    )
    if worst is not None and worst.share is not None:
        over = worst.share >= 0.95
        checks.append(
            Check(
                key="quota",
                title="Quota",
                status="problem" if worst.share >= 1 else "warning" if over else "ok",
                sentence=f"{worst.name} is {100 * worst.share:.0f} % full.",
                fix="Delete what you do not need; a full quota shows as odd failures." if over else "",
            )
        )
    return checks


def worst_status(checks: Sequence[Check]) -> Status:
    """The worst of all: problem, warning, ok."""
    for status in ("problem", "warning"):
        if any(check.status == status for check in checks):
            return status
    return "ok"
