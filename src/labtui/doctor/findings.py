"""From what was found on the way to a cluster to checks a student can read, with their fixes.

Pure: the finding is done by `labtui.doctor.examine`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from labtui.domain.errors import CannotConnect, HostKeyProblem, LabError, LoginRefused
from labtui.domain.profile import Profile
from labtui.slurm.job_control import TestOnly
from labtui.slurm.probe import QosLimits, SlurmProbe

Status = Literal["ok", "warning", "problem", "skipped"]
Action = Literal["", "settings", "set-up-key", "protect-key"]
"""What labtui can do about a check by itself: write `Check.settings` into lab.toml, make and send a key, chmod one."""
CLOCK_LIMIT_S = 60.0
OLDEST = (20, 11)
UNREACHABLE = ("timeout", "no-route", "refused")
"""Failures that may be the network's or the site's; a name that is not known is neither."""
TRIAL_MINUTES = 10
"""The time limit of the job that Slurm is only asked about."""

TITLES = {
    "profile": "Profile", "ssh-config": "SSH configuration", "data-host": "Copies by hand", "key": "Key",
    "known-hosts": "Known hosts", "host-key": "Host key", "login": "Login", "password-expired": "Password",
    "account-expired": "Login account", "maintenance": "Maintenance", "network": "Network",
    "login-shell": "Login shell", "sftp": "File transfer", "clock": "Clock", "slurm-commands": "Slurm commands",
    "slurm-version": "Slurm version", "squeue": "Queue", "sacct": "Accounting", "account": "Account", "qos": "QoS",
    "module": "Modules", "places": "Paths", "root": "Remote folder", "data": "Data", "container": "Container",
    "room": "Room", "quota": "Quota", "python": "Python",
    "gpu-job": "A job with one GPU", "cpu-job": "A job on the CPU",
}  # fmt: skip
"""The check that a key stands for; other keys are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding. `key` is a stable word, `sentence` what was found and means, `fix` what to do.

    `action` says what labtui can do about it; for ``settings`` that is to write `settings` under [cluster] in lab.toml.
    """

    key: str
    title: str
    status: Status
    sentence: str
    fix: str = ""
    action: Action = ""
    settings: Mapping[str, str] = field(default_factory=dict)


def check(
    status: Status, key: str, sentence: str, fix: str = "", *, action: Action = "", **settings: str
) -> Check:
    """A check by its key. `settings` are what to write into lab.toml."""
    return Check(
        key=key,
        title=TITLES.get(key) or key.replace("qos-", "QoS "),
        status=status,
        sentence=sentence,
        fix=fix,
        action=action,
        settings=settings,
    )


def ok(key: str, sentence: str) -> Check:
    return check("ok", key, sentence)


def warning(key: str, sentence: str, fix: str = "") -> Check:
    """Worth a look; work can go on."""
    return check("warning", key, sentence, fix)


def problem(key: str, sentence: str, fix: str = "", **settings: str) -> Check:
    """Work cannot go on before it is solved."""
    return check("problem", key, sentence, fix, action="settings" if settings else "", **settings)


def skipped(key: str, sentence: str, fix: str = "") -> Check:
    """It could not be found out."""
    return check("skipped", key, sentence, fix)


def fine_unless(key: str, wrong: str, fix: str, fine: str, status: Status = "problem") -> Check:
    """What is wrong, with its fix; where that is empty, what is fine."""
    return check(status, key, wrong, fix) if wrong else ok(key, fine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What the lab folder (or the command line) asks for; empty texts fall back to profile and cluster.

    `gpus` are the sizes the lab plans, `cpu_runs` whether it trains on CPUs too.
    """

    account: str = ""
    qos: str = ""
    partition: str = ""
    root: str = ""
    data_dir: str = ""
    container: str = ""
    framework: str = "tensorflow"
    gpus: tuple[int, ...] = (1,)
    cpu_runs: bool = False


def worst_status(checks: Sequence[Check]) -> Status:
    """The worst of all: problem, warning, ok."""
    for status in ("problem", "warning"):
        if any(check.status == status for check in checks):
            return status
    return "ok"


# --------------------------------------------------------------------------- the way there


def check_refusal(
    error: LabError, profile: Profile, user: str, others: Mapping[str, bool] | None = None
) -> Check:
    """Why there is no session: the host key, the login, or the network, each with what to do.

    `others` tells which other hosts of the site, tried after it, answer.
    """
    if isinstance(error, HostKeyProblem):
        return problem("host-key", error.sentence, f"{error.hint} {published_keys(profile)}".strip())
    if isinstance(error, LoginRefused):
        return _refused_login(error, profile, user)
    sentence, reason = error.sentence, error.reason if isinstance(error, CannotConnect) else ""
    if reason not in UNREACHABLE or not others:
        return problem("maintenance" if reason == "maintenance" else "network", sentence, error.hint)
    if answering := [host for host, answers in others.items() if answers]:
        return problem(
            "maintenance",
            f"{sentence} {', '.join(answering)} of the same site can be reached, so your network is fine.",
            "The login nodes are down or in maintenance: look at the site's announcements and try again later.",
        )
    return problem(
        "network",
        f"{sentence} None of the site's other hosts answers either ({', '.join(others)}).",
        "Your network blocks the connection, or the site is offline: connect to the site's VPN if it has one, "
        "or try another network (a phone's).",
    )


def _refused_login(error: LoginRefused, profile: Profile, user: str) -> Check:
    """With what the site's profile knows about it."""
    fix, ssh = error.hint, f"`ssh {user}@{profile.password_host}`"
    more = ""
    if profile.password_host and error.reason == "password-expired":
        fix, more = f"Run {ssh} in a terminal, then `passwd`.", profile.password_note
    elif profile.password_host and error.reason == "password":
        more = f"New account? The first password is changed with {ssh}. {profile.password_note}"
    elif profile.support and error.reason == "account-expired":
        more = f"Support: {profile.support}."
    key = error.reason if error.reason in ("password-expired", "account-expired") else "login"
    action: Action = "set-up-key" if error.reason == "no-key" else ""
    return check("problem", key, error.sentence, f"{fix} {more}".strip(), action=action)


def published_keys(profile: Profile) -> str:
    """What is known of the fingerprints that the site publishes."""
    if profile.host_keys:
        source = f" ({profile.host_keys_source})" if profile.host_keys_source else ""
        return f"labtui knows the site's published fingerprints{source} and compares with them."
    return profile.host_keys_source


def check_clock(server_time: float | None, our_time: float, *, practice: bool = False) -> Check:
    """Compare the two clocks (UNIX seconds at about the same moment); a practice cluster's runs faster on purpose."""
    if server_time is None:
        return skipped("clock", "The cluster did not report its time.")
    off = server_time - our_time
    if abs(off) <= CLOCK_LIMIT_S or practice:
        return ok("clock", f"The clocks differ by {abs(off):.0f} s.")
    side = "behind" if off > 0 else "ahead of"
    return warning(
        "clock",
        f"This computer's clock is {abs(off):.0f} s {side} the cluster's.",
        "Set this computer's clock (automatic time): estimated starts and ages are wrong otherwise.",
    )


# --------------------------------------------------------------------------- Slurm


def check_slurm(probe: SlurmProbe) -> Iterator[Check]:
    """Programs, version, queue, accounting."""
    missing = ", ".join(name for name in probe.missing if name != "timeout")
    fix = "Connect to a login node, not a transfer node; or load Slurm's module in .bash_profile."
    yield fine_unless("slurm-commands", missing and f"Not on this host: {missing}.", fix, "All are there.")
    told = probe.version_text or "`sbatch --version` gave no answer"
    odd = "" if probe.version else f"The version is not known ({told})."
    if probe.version and probe.version < OLDEST:
        odd = f"{told} is older than what labtui was tried on (20.11)."
    fix = "It may still work; if something looks wrong, press m in labtui to see its requests."
    yield fine_unless("slurm-version", odd, fix, f"{told}.", "warning")
    wait = "Wait and try again; the site may be in maintenance."
    refused = probe.queue_problem and f"squeue did not answer: {probe.queue_problem}"
    fix = f"{wait} States are shown as unknown until it answers."
    yield fine_unless("squeue", refused, fix, "The queue answers.")
    refused = probe.accounting_problem and f"sacct did not answer: {probe.accounting_problem}"
    yield fine_unless(
        "sacct", refused, f"{wait} Ends of jobs are shown late.", "Accounting answers.", "warning"
    )


# --------------------------------------------------------------------------- account and QoS


def choose_account(probe: SlurmProbe, wanted: Requirements, profile: Profile) -> str:
    """The account meant: as required, the profile's, or the only one this user has."""
    meant = profile.account_of(wanted.account)
    names = list(dict.fromkeys(item.account for item in probe.associations or ()))
    return meant or (names[0] if len(names) == 1 else "")


def check_account(probe: SlurmProbe, wanted: Requirements, profile: Profile) -> Check:
    """Whether the account is one of this user's."""
    if probe.associations is None:
        return skipped("account", "Slurm's accounting does not say which accounts are yours.")
    names = list(dict.fromkeys(item.account for item in probe.associations))
    yours = ", ".join(names)
    meant = profile.account_of(wanted.account)
    if not names:
        sentence = f"Slurm has no account for {probe.user}: it has expired, or was never opened."
        fix = "Ask your teacher or the site: without an account no job is accepted."
        return problem("account", sentence, fix)
    if meant and meant not in names:
        fix = f'Write account = "{names[0]}" in lab.toml; the numbers in examples are of other courses.'
        sentence = f"The account {meant} is not yours; yours: {yours}."
        return problem("account", sentence, fix, account=names[0])
    if not meant and len(names) > 1:
        sentence = f"You have several accounts ({yours}) and none is chosen."
        return warning("account", sentence, "Write the right one as account in lab.toml.")
    return ok("account", f"{meant or names[0]} (yours: {yours}).")


def check_qos(probe: SlurmProbe, wanted: Requirements, profile: Profile) -> Iterator[Check]:
    """Whether each QoS that jobs will name is open to this user, and its limits."""
    planned = [profile.names(name).qos for name in (profile.gpu_queue, profile.cpu_queue)]
    meant = dict.fromkeys(name for name in (wanted.qos or planned[0], planned[1]) if name)
    if meant and probe.associations is None:
        yield skipped("qos", "Slurm does not say which QoS are yours.")
        return
    account = choose_account(probe, wanted, profile)
    of_account = [item for item in probe.associations or () if item.account == account]
    yours = {name for item in of_account or probe.associations or () for name in item.qos}
    closed = f"You may not use it; open to you: {', '.join(sorted(yours)) or 'none'}."
    for name in meant:
        limits = next((item for item in probe.qos or () if item.name == name), None)
        fix, wrong = "Choose one of those as qos in lab.toml.", "" if name in yours else closed
        yield fine_unless(f"qos-{name}", wrong, fix, f"Open to you: {_limits(limits)}.")


def _limits(limits: QosLimits | None) -> str:
    if limits is None:
        return "its limits are not known"
    words = (
        (limits.max_submit_per_user, "{:.0f} per user in the queue"),
        (limits.max_jobs_per_user, "{:.0f} running"),
        (limits.max_wall_s and limits.max_wall_s / 60, "{:.0f} minutes at most"),
    )
    return ", ".join(text.format(limit) for limit, text in words if limit is not None) or "no limits known"


# --------------------------------------------------------------------------- the smallest job


def trial_options(profile: Profile, wanted: Requirements, *, account: str, gpus: int) -> tuple[str, ...]:
    """The options of the smallest job the lab needs, with `gpus` GPUs (0: a CPU run)."""
    names = profile.names(profile.gpu_queue if gpus else profile.cpu_queue)
    other = profile.queue(wanted.qos) or profile.queue(wanted.partition)
    fits = other is None or other.devices == ("gpu" if gpus else "cpu")
    qos = (wanted.qos if fits else "") or names.qos
    known = profile.queue(qos)
    partition = (wanted.partition if fits else "") or names.partition or (known.partition if known else "")
    values = {
        "account": account,
        "partition": partition,
        "qos": qos,
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(profile.cpus_per_gpu),
        "gres": f"{profile.gres}:{gpus}" if gpus else "",
        "time": f"00:{TRIAL_MINUTES:02d}:00",
    }
    return tuple(f"--{name}={value}" for name, value in values.items() if value)


def check_trial(trial: TestOnly, *, gpus: int, options: Sequence[str]) -> Check:
    """Slurm's own word on the smallest job; it sees what no setting shows."""
    key = "gpu-job" if gpus else "cpu-job"
    if trial.ok:
        return ok(key, "Slurm would accept it.")
    if trial.kind in {"qos-submit-limit", "submit-limit"}:
        return ok(key, "Slurm would accept it when your other job is over.")
    last = [line for line in trial.detail.splitlines() if line.strip()]
    words = f" (Slurm: {last[-1].strip()})" if last else ""
    fix = f"{trial.hint} Checked with `sbatch --test-only {' '.join(options)}`."
    return check("warning" if trial.wait else "problem", key, f"{trial.sentence}{words}", fix)
