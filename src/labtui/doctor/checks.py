"""Turn what `labtui.doctor.examine` observed into checks that a student can read, with fixes. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from labtui.domain import decode
from labtui.domain.errors import CannotConnect, HostKeyProblem, LabError, LoginRefused, failure
from labtui.domain.model import plural
from labtui.domain.profile import Profile, QueueNames, image_folder
from labtui.slurm.job_control import SbatchAnswer
from labtui.slurm.probe import CIFAR10_BYTES, PathFacts, PathsProbe, SlurmProbe, from_home, parse_quota
from labtui.slurm.remote_command import NOT_FOUND, TIMED_OUT

Status = Literal["ok", "warning", "problem", "skipped"]
Action = Literal["", "settings", "set-up-key", "protect-key"]
"""What labtui can do about a check itself: write `Check.settings` into lab.toml, make and send a key, or chmod one."""
CLOCK_LIMIT_S = 60.0
OLDEST_SLURM = (20, 11)
UNREACHABLE = ("timeout", "no-route", "refused")
"""Failures whose cause may be the network or the site; an unknown host name is neither."""
PYTHON_LIMIT_S = 60
NOT_EXECUTABLE = 126
MIN_FREE_KIB, QUOTA_WARNING_SHARE = 100 * 1024, 0.95


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check: `key` is a stable word, `sentence` what was found and what it means, `fix` what to do.

    `action` says what labtui can do about it; ``settings`` is to write `settings` under [cluster] in lab.toml.
    `path` is that of the sentence, if it names one.
    """

    key: str
    title: str
    status: Status
    sentence: str
    fix: str = ""
    action: Action = ""
    settings: Mapping[str, str] = {}
    path: str = ""


@cache
def _check_texts() -> dict[str, dict[str, Any]]:
    """`checks.toml`: for each check its title, and for each observation the status, sentence and fix."""
    return decode.own_toml(__file__, "checks.toml")


def make(
    key: str, outcome: str, *, of: str = "", action: Action = "", settings: Mapping[str, str] | None = None,
    **words: object,
) -> Check:  # fmt: skip
    """The check `key` with its `outcome`, worded by `checks.toml`; `of` names one of several, such as a QoS."""
    table = _check_texts()[key]
    status, sentence, fix = (*table[outcome], "")[:3]
    return Check(
        key=f"{key}-{of}" if of else key,
        title=f"{table['title']} {of}".strip(),
        status=status,
        sentence=sentence.format(**words),
        fix=fix.format(**words),
        action=action or ("settings" if settings else ""),
        settings=settings or {},
        path=str(words.get("path", "")),
    )


def failed(key: str, error: LabError, fix: str = "", *, action: Action = "") -> Check:
    """A check that failed with an error."""
    title, said, fix = _check_texts()[key]["title"], error.sentence, fix or error.hint
    return Check(key=key, title=title, status="problem", sentence=said, fix=fix, action=action)


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """What the lab folder (or the command line) needs; for empty texts profile and cluster decide.

    `data_dir` has CIFAR-10's files, `images_dir` a folder for each of `image_sets`.
    `framework` is "" for a lab of programs. `gpu_runs` and `cpu_runs` say whether the lab trains on GPUs and on CPUs.
    """

    account: str = ""
    qos: str = ""
    partition: str = ""
    root: str = ""
    data_dir: str = ""
    images_dir: str = ""
    image_sets: tuple[str, ...] = ()
    container: str = ""
    framework: str = "tensorflow"
    gpu_runs: bool = True
    cpu_runs: bool = False

    @property
    def smallest_jobs(self) -> list[int]:
        """The GPUs of the smallest job of each kind that the lab has: 1, and 0 for a run on the CPU."""
        return [gpus for gpus, has_runs in ((1, self.gpu_runs), (0, self.cpu_runs)) if has_runs]

    @property
    def image_paths(self) -> tuple[str, ...]:
        """The folder of each set of images; none while the data folder is no absolute path."""
        try:
            return tuple(image_folder(self.images_dir, name) for name in self.image_sets)
        except LabError:
            return ()


def worst_status(checks: Sequence[Check]) -> Status:
    """The worst status: problem, warning or ok."""
    found = {check.status for check in checks}
    return "problem" if "problem" in found else "warning" if "warning" in found else "ok"


SIGNS: Mapping[Status, str] = {"problem": "✘", "warning": "!", "skipped": "–", "ok": "✔"}
"""The signs of the checks, the worst first."""


def summary(checks: Sequence[Check]) -> str:
    """All checks in one line, such as "2 of 5 checks passed, 1 wrong, 2 to look at."."""
    words = {"problem": "wrong", "warning": "to look at", "skipped": "not checked"}
    counts = Counter(str(check.status) for check in checks)
    parts = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    passed = f"{counts['ok']} of {plural(len(checks), 'check')} passed"
    return f"{', '.join([passed, *parts])}."


# --------------------------------------------------------------------------- connection and login


def check_refusal(
    error: LabError, profile: Profile, user: str, others: Mapping[str, bool] | None = None
) -> Check:
    """Why there is no connection (host key, login or network), and what to do.

    `others` says which other hosts of the site, tried afterwards, answered.
    """
    if isinstance(error, HostKeyProblem):
        return failed("host-key", error, f"{error.hint} {published_keys(profile)}".strip())
    if isinstance(error, LoginRefused):
        fix, more, ssh = error.hint, "", f"`ssh {user}@{profile.password_host}`"
        if profile.password_host and error.reason == "password-expired":
            fix, more = f"Run {ssh} in a terminal, then `passwd`.", profile.password_note
        elif profile.password_host and error.reason == "password":
            more = f"New account? The first password is changed with {ssh}. {profile.password_note}"
        elif profile.support and error.reason == "account-expired":
            more = f"Support: {profile.support}."
        key = error.reason if error.reason in ("password-expired", "account-expired") else "login"
        action: Action = "set-up-key" if error.reason == "no-key" else ""
        return failed(key, error, f"{fix} {more}".strip(), action=action)
    sentence, reason = error.sentence, error.reason if isinstance(error, CannotConnect) else ""
    if reason not in UNREACHABLE or not others:
        return failed("maintenance" if reason == "maintenance" else "network", error)
    if answering := [host for host, answers in others.items() if answers]:
        return make("maintenance", "others-answer", sentence=sentence, hosts=", ".join(answering))
    return make("network", "none-answers", sentence=sentence, hosts=", ".join(others))


def published_keys(profile: Profile) -> str:
    """A sentence on the fingerprints that the site publishes."""
    if profile.host_keys:
        source = f" ({profile.host_keys_source})" if profile.host_keys_source else ""
        return f"labtui knows the site's published fingerprints{source} and compares with them."
    return profile.host_keys_source


def check_clock(server_time: float | None, our_time: float, *, practice: bool = False) -> Check:
    """Compare the two clocks (UNIX seconds at about the same time); a practice cluster's runs faster on purpose."""
    if server_time is None:
        return make("clock", "silent")
    off = server_time - our_time
    outcome = "fine" if abs(off) <= CLOCK_LIMIT_S else "practice" if practice else "off"
    return make("clock", outcome, seconds=abs(off), side="behind" if off > 0 else "ahead of")


# --------------------------------------------------------------------------- Slurm


def check_slurm(probe: SlurmProbe) -> Iterator[Check]:
    """Programs, version, queue, accounting."""
    missing = ", ".join(name for name in probe.missing if name != "timeout")
    yield make("slurm-commands", "missing" if missing else "fine", names=missing)
    version = probe.version_text or "`sbatch --version` gave no answer"
    known = "unknown" if probe.version is None else "old" if probe.version < OLDEST_SLURM else "fine"
    yield make("slurm-version", known, version=version)
    for key, problem in (("squeue", probe.queue_problem), ("sacct", probe.accounting_problem)):
        yield make(key, "silent" if problem else "fine", why=problem)


# --------------------------------------------------------------------------- account and QoS


def check_account(probe: SlurmProbe, meant: str) -> Check:
    """Whether the account `meant` is one of this user's."""
    if probe.associations is None:
        return make("account", "silent")
    names = list(dict.fromkeys(item.account for item in probe.associations))
    yours = ", ".join(names)
    if not names:
        return make("account", "none", user=probe.user)
    if meant and meant not in names:
        first = names[0]
        return make("account", "other", settings={"account": first}, meant=meant, yours=yours, first=first)
    several = not meant and len(names) > 1
    return make("account", "several" if several else "fine", meant=meant or names[0], yours=yours)


def check_qos(probe: SlurmProbe, wanted: Requirements, profile: Profile) -> Iterator[Check]:
    """Whether each QoS that the lab's jobs will name is open to this user, and its limits."""
    queues = [queue_of(profile, wanted, gpus=gpus) for gpus in wanted.smallest_jobs]
    meant = dict.fromkeys(queue.qos for queue in queues if queue.qos)
    if meant and probe.associations is None:
        yield make("qos", "silent")
        return
    of_account = [item for item in probe.associations or () if item.account == wanted.account]
    yours = {name for item in of_account or probe.associations or () for name in item.qos}
    for name in meant:
        limits = next((item for item in probe.qos or () if item.name == name), None)
        open_ones = ", ".join(sorted(yours)) or "none"
        outcome = "fine" if name in yours else "closed"
        if outcome == "fine" and limits and profile.status == "own" and profile.queue(name) is None:
            outcome = "unlisted"
        words = limits.words if limits is not None else "its limits are not known"
        yield make("qos", outcome, of=name, name=name, yours=open_ones, limits=words)


def queue_of(profile: Profile, wanted: Requirements, *, gpus: int) -> QueueNames:
    """How a job with `gpus` GPUs names its queue."""
    return profile.queue_names(gpus=gpus > 0, qos=wanted.qos, partition=wanted.partition)


# --------------------------------------------------------------------------- trial jobs


def trial_options(profile: Profile, wanted: Requirements, *, gpus: int) -> tuple[str, ...]:
    """The options of the smallest job the lab needs, with `gpus` GPUs (0: a CPU run)."""
    qos, partition = queue_of(profile, wanted, gpus=gpus)
    known = profile.queue(qos)
    values = {
        "account": wanted.account,
        "partition": partition or (known.partition if known else ""),
        "qos": qos,
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(profile.cpus_per_gpu),
        "gres": f"{profile.gres}:{gpus}" if gpus else "",
        "time": "00:10:00",
    }
    return tuple(f"--{name}={value}" for name, value in values.items() if value)


def check_trial(trial: SbatchAnswer, profile: Profile, *, gpus: int, options: Sequence[str]) -> Check:
    """Whether Slurm would accept the smallest job, which also tests rules of the site that no setting shows."""
    named = {"qos-submit-limit": "later", "submit-limit": "later", "partition": "partition"}
    no_gpus = gpus and not profile.gpus_per_node
    refused = "no-gpus" if no_gpus else "wait" if trial.wait else "refused"
    outcome = named.get(trial.key, "fine" if trial.ok else refused)
    last = trial.detail.strip().rpartition("\n")[2].strip()
    return make(
        "gpu-job" if gpus else "cpu-job", outcome, sentence=trial.sentence,
        said=f" (Slurm: {last})" if last else "", hint=trial.hint.replace("in `labtui doctor`", "above"),
        options=" ".join(options), queue=profile.gpu_queue or profile.cpu_queue,
    )  # fmt: skip


# --------------------------------------------------------------------------- file systems and Python


def check_paths(
    probe: PathsProbe, wanted: Requirements, alternative_paths: Mapping[str, str], *, practice: bool = False,
    own: Sequence[str] = (),
) -> Iterator[Check]:  # fmt: skip
    """Checks of the root, data set, container, free space and quota; paths are absolute.

    `alternative_paths` maps a path to another one where the same file may be; `own` are those that the lab folder's own
    profile names.
    """
    account, data_dir, container = wanted.account, wanted.data_dir, wanted.container
    parent = probe.root_parent or "its parent"

    def words(path: str) -> dict[str, Any]:
        """A remark on the account if it is part of the path, as it may be the wrong one; and the file to correct."""
        charged = f" and the account {account} in it" if account and account in path else ""
        return {"account": charged, "file": "cluster.toml" if path in own else "lab.toml"}

    def facts(path: str) -> PathFacts:
        return probe.paths.get(path, PathFacts(path=path))

    root = "fine" if probe.root_writable else "closed"
    yield make("root", root, path=from_home(wanted.root), parent=parent, **words(wanted.root))
    if data_dir:
        other = facts(alternative_paths.get(data_dir, ""))
        yield _check_data(facts(data_dir), other, practice=practice, **words(data_dir))
    if wanted.image_sets and not wanted.image_paths:
        sets = " and ".join(wanted.image_sets)
        yield failed("data", failure("data-folder", data=sets, folder=wanted.images_dir))
    for here in map(facts, wanted.image_paths):
        outcome = "images" if here.kind == "dir" and here.readable else _fault_of(here)
        yield make("data", outcome, path=here.path, **words(wanted.images_dir))
    if container:
        other = facts(alternative_paths.get(container, ""))
        yield _check_container(facts(container), other, **words(container))
    yield from _check_space(probe)


def _check_container(facts: PathFacts, other: PathFacts, **words: Any) -> Check:
    outcome = "fine" if facts.readable else "elsewhere" if other.readable else _fault_of(facts)
    settings = {"container": other.path} if outcome == "elsewhere" else {}
    return make("container", outcome, settings=settings, path=facts.path, other=other.path, **words)


def _check_space(probe: PathsProbe) -> Iterator[Check]:
    """The free space, and the quota that is used up most."""
    if probe.free_kib is not None:
        full = probe.free_kib < MIN_FREE_KIB or probe.free_inodes == 0
        yield make("room", "full" if full else "fine", gib=probe.free_kib / 1024**2)
    name, share = max(parse_quota(probe.quota).items(), key=lambda item: item[1], default=("", 0.0))
    if share:
        outcome = "full" if share >= 1 else "nearly" if share >= QUOTA_WARNING_SHARE else "fine"
        yield make("quota", outcome, name=name, percent=100 * share)


def _check_data(facts: PathFacts, other: PathFacts, *, practice: bool, **words: Any) -> Check:
    """The check of the data set, of which a `practice` cluster has a small copy.

    `other` is where it may be instead, `words` are further ones for the sentences.
    """
    there = facts.kind == "dir" and facts.readable
    names, settings = facts.missing_data_files, {}
    if there and not facts.missing_data_files:
        names = facts.short_data_files
        small = not practice and max(facts.sizes.values()) < CIFAR10_BYTES
        outcome = "short" if names else "small" if small else "fine"
    elif not other.missing_data_files:
        outcome, settings = "elsewhere", {"data_dir": other.path}
    else:
        outcome = "incomplete" if there else _fault_of(facts)
    words |= {"path": from_home(facts.path), "other": other.path, "names": ", ".join(names)}
    return make("data", outcome, settings=settings, **words)


def _fault_of(facts: PathFacts) -> str:
    return "missing" if facts.kind == "missing" else "closed"


def check_python(python: str, framework: str, answer: tuple[int, str] | None) -> Check:
    """Whether the training's Python starts and has its framework; a login node may refuse to run it."""
    status, text = answer or (None, "")
    last = (text.splitlines() or [""])[-1].strip()[:200]
    outcome = "fine" if status == 0 else "silent" if status == TIMED_OUT else "refused"
    if status and f"No module named '{framework}'" in text:
        outcome = "no-framework"
    elif status in (NOT_EXECUTABLE, NOT_FOUND) or "No such file or directory" in last:
        outcome = "no-program"
    words: dict[str, Any] = {"python": python, "framework": framework, "limit": PYTHON_LIMIT_S}
    return make("python", outcome, said=last or "no answer", **words)
