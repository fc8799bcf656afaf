"""Examines the way to a cluster step by step, changing nothing there: what `labtui doctor` shows.

A step that fails ends the way behind it, and the checks after it are left out: they could tell nothing true. The last
step judges file systems (`places`).
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec

from labtui.cluster.connection import Connection
from labtui.cluster.dial import connect_tcp
from labtui.cluster.keys import certificate_times
from labtui.cluster.known_hosts import known_keys
from labtui.cluster.target import Endpoint, Overrides, Prompter, Target, resolve_target
from labtui.doctor.findings import (
    UNREACHABLE,
    Check,
    Requirements,
    check,
    check_account,
    check_clock,
    check_qos,
    check_refusal,
    check_slurm,
    check_trial,
    choose_account,
    fine_unless,
    ok,
    problem,
    published_keys,
    skipped,
    trial_options,
    warning,
)
from labtui.doctor.places import PYTHON_LIMIT_S, check_paths, check_python
from labtui.domain.errors import CannotConnect, LabError
from labtui.domain.profile import Profile
from labtui.lab.plan import fill
from labtui.preflight.paths import alternative_path
from labtui.slurm.job_control import check_options
from labtui.slurm.probe import SlurmProbe, paths_probe, slurm_probe

SLOW_SHELL_S = 5.0
CERTIFICATE_SOON_S = 2 * 3600
REACH_LIMIT_S = 5.0
"""How long another host of the site is tried, when the login hosts do not answer."""

Seen = Callable[[dict[str, bool]], None]
"""Is called with the remote paths that were looked at, and whether they are there."""


def examine(
    profile: Profile,
    overrides: Overrides,
    wanted: Requirements,
    prompter: Prompter,
    seen: Seen | None = None,
) -> Iterator[Check]:
    """The checks in order, each as soon as it is known. No `LabError` leaves here: it becomes a check.

    `seen` is called with the data set and the container, once the cluster was asked about them.
    """
    try:
        target = resolve_target(profile, overrides)
    except LabError as error:
        yield problem("ssh-config", error.sentence, error.hint)
        return
    yield from _configuration(profile, target)
    yield from (_key(endpoint) for endpoint in target.endpoints[:1])
    yield _known(target, _advising(target, profile))
    connection = Connection(target, prompter)
    try:
        yield from _connected(connection, profile, wanted, seen)
    finally:
        connection.close()


def _advising(target: Target, profile: Profile) -> Profile:
    """The profile to advise from: on another host than its own, what the site publishes does not hold."""
    if any({endpoint.alias, endpoint.host} & set(profile.login_hosts) for endpoint in target.endpoints):
        return profile
    nothing = dict.fromkeys(("password_host", "password_note", "support", "host_keys_source"), "")
    return msgspec.structs.replace(profile, host_keys={}, data_hosts=(), **nothing)


def _configuration(profile: Profile, target: Target) -> Iterator[Check]:
    if profile.status == "historical":
        fix = "Use another profile; this one is for reading old logs."
        yield problem("profile", f"{profile.title} is no longer in operation.", fix)
    hosts = ", ".join(endpoint.label for endpoint in target.endpoints)
    hops = ", ".join(hop.label for hop in target.endpoints[0].jumps)
    sentence = f"{hosts} through {hops}." if hops else f"{hosts}."
    missing = f"{sentence} There is no ssh program here, so ~/.ssh/config is not read."
    fix = "Install OpenSSH's client, or name host and user in lab.toml."
    yield fine_unless("ssh-config", "" if shutil.which("ssh") else missing, fix, sentence, "warning")


def _key(endpoint: Endpoint) -> Check:
    path = next((path for path in endpoint.identity_files if path.is_file()), None)
    if path is None and endpoint.identity_named:
        sentence = f"The key file {endpoint.identity_files[0]} does not exist."
        fix = "Correct the path (identity in lab.toml), or make a key: `labtui key`."
        return check("problem", "key", sentence, fix, action="set-up-key")
    if path is None:
        sentence = "There is no key file; the login needs the agent's only key or a password."
        fix = "`labtui key` makes a key and sends it, so that you need no password."
        return check("warning", "key", sentence, fix, action="set-up-key")
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.suffix != ".pub" and os.name != "nt" and mode & 0o077:
        sentence = f"Others on this computer can read {path} (mode {mode:o})."
        fix = f"chmod 600 {path}: ssh itself refuses such a key."
        return check("warning", "key", sentence, fix, action="protect-key", identity=str(path))
    certificates = (*endpoint.certificate_files, path.with_name(path.name + "-cert.pub"))
    file = next((file for file in certificates if file.is_file()), None)
    ends = certificate_times(file)[1] if file else None
    if ends is None:
        return ok("key", f"{path}{f' with the certificate {file}' * bool(file)}.")
    left = (ends - datetime.now(UTC)).total_seconds()
    sentence = f"{path}; its certificate {file} is valid until {ends:%Y-%m-%d %H:%M} UTC."
    soon = sentence if left < CERTIFICATE_SOON_S else ""
    fix = "Get a new one where you got this one."
    return fine_unless("key", soon, fix, sentence, "problem" if left <= 0 else "warning")


def _known(target: Target, profile: Profile) -> Check:
    endpoint = target.endpoints[0]
    if endpoint.host_key:
        return ok("known-hosts", f"The key of {endpoint.host} is pinned to {endpoint.host_key}.")
    if any(not each.revoked for each in known_keys(endpoint, target.own_known_hosts)):
        return ok("known-hosts", f"{endpoint.host} is known.")
    fix = published_keys(profile) or "Have the fingerprint that your site publishes at hand."
    sentence = f"{endpoint.host} is not in known_hosts: labtui asks once whether its key is right."
    return warning("known-hosts", sentence, fix)


# --------------------------------------------------------------------------- the connection


def _connected(
    connection: Connection, profile: Profile, wanted: Requirements, seen: Seen | None
) -> Iterator[Check]:
    site = _advising(connection.target, profile)
    try:
        connection.connect()
    except LabError as error:
        yield check_refusal(error, site, connection.user, _others(error, connection, site))
        return
    asked_at = time.time()
    try:
        probe = connection.ask(slurm_probe())
    except LabError as error:
        refusal = check_refusal(error, site, connection.user)
        yield (refusal if refusal.key != "network" else problem("login-shell", error.sentence, error.hint))
        return
    methods = " and ".join(connection.methods) or "nothing"
    yield ok("login", f"{connection.user} on {connection.host} by {methods}.")
    yield _sftp(connection)
    yield _shell(connection)
    yield check_clock(probe.server_time, asked_at, practice=profile.status == "practice")
    yield from check_slurm(probe)
    yield check_account(probe, wanted, profile)
    yield from check_qos(probe, wanted, profile)
    if profile.launch.modules and not probe.has_module:
        sentence = "The login shell has no `module` command, which the job scripts use."
        fix = "Jobs inherit the environment of the shell that submits: check .bash_profile and .bashrc."
        yield warning("module", sentence, fix)
    yield from _places(connection, profile, wanted, probe, seen)
    yield from _trials(connection, profile, wanted, probe)


def _others(error: LabError, connection: Connection, site: Profile) -> dict[str, bool]:
    """Which other hosts of the site answer, where its login hosts do not: it tells maintenance from a missing VPN."""
    if not isinstance(error, CannotConnect) or error.reason not in UNREACHABLE:
        return {}
    tried = {endpoint.host for endpoint in connection.target.endpoints}
    return {host: _reaches(host) for host in site.data_hosts[:2] if host not in tried}


def _reaches(host: str) -> bool:
    try:
        connect_tcp(host, 22, REACH_LIMIT_S).close()
    except (OSError, TimeoutError):
        return False
    return True


def _sftp(connection: Connection) -> Check:
    try:
        seconds = connection.ping(15.0)
    except LabError as error:
        return problem("sftp", error.sentence, error.hint)
    return ok("sftp", f"SFTP works ({seconds * 1000:.0f} ms to open).")


def _shell(connection: Connection) -> Check:
    began = time.monotonic()
    noise = connection.run("true").noise
    took = time.monotonic() - began
    words = f"it prints {len(noise)} bytes, which labtui ignores" if noise.strip() else "it prints nothing"
    if took > SLOW_SHELL_S:
        fix = "Look for slow lines in .bashrc and .bash_profile (module loads, conda init)."
        return warning("login-shell", f"It takes {took:.0f} s to start; {words}.", fix)
    return ok("login-shell", f"It starts in {took:.1f} s; {words}.")


# --------------------------------------------------------------------------- paths, and the smallest job


def _places(
    connection: Connection, profile: Profile, wanted: Requirements, probe: SlurmProbe, seen: Seen | None
) -> Iterator[Check]:
    account = choose_account(probe, wanted, profile)
    values = {"account": account, "user": probe.user or connection.user}
    root = fill(wanted.root or profile.root, values)
    data = fill(wanted.data_dir or profile.data_dir, values)
    image = fill(wanted.container or profile.launch.container or profile.container, values)
    if any("{account}" in path for path in (root, data, image)):
        sentence = "The paths contain the account, which is not known."
        yield skipped("places", sentence, "Set account in lab.toml, or give --account.")
        return
    others = {path: other for path in (data, image) if (other := alternative_path(path))}
    paths = [path for path in (data, image, *others.values()) if path]
    starts = "" if image or profile.status == "practice" else _python_command(profile, wanted)
    commands = {"quota": f"limit 20 {profile.quota_command}"} if profile.quota_command else {}
    commands |= {"python": starts} if starts else {}
    try:
        found = connection.ask(paths_probe(root, paths, commands, more_s=PYTHON_LIMIT_S))
    except LabError as error:
        yield problem("places", error.sentence, error.hint)
        return
    if not found.complete:
        yield skipped(
            "places", "The look at data, container and quota broke off.", "Run `labtui doctor` again."
        )
        return
    if seen is not None:
        seen({path: found.paths[path].kind != "missing" for path in paths})
    yield from check_paths(found, root=root, data_dir=data, container=image, alternative_paths=others)
    if starts:
        yield check_python(profile.launch.python, wanted.framework, found.python)
    elif image:
        sentence = "The container's Python is not started here: containers run on the compute nodes."
        yield skipped("python", sentence)


def _python_command(profile: Profile, wanted: Requirements) -> str:
    """Starts the Python of the job scripts on the login node, with what they load before it."""
    launch = profile.launch
    lines = ["module purge"] if launch.modules and launch.purge else []
    lines += [f"module load {shlex.quote(name)}" for name in launch.modules]
    lines += [*launch.setup, *(f"export {name}={shlex.quote(value)}" for name, value in launch.env.items())]
    code = (
        f"import sys, {wanted.framework} as framework; print(sys.version.split()[0], framework.__version__)"
    )
    lines.append(f"limit {PYTHON_LIMIT_S} {shlex.join(shlex.split(launch.python))} -c {shlex.quote(code)}")
    return "\n".join(lines)


def _trials(
    connection: Connection, profile: Profile, wanted: Requirements, probe: SlurmProbe
) -> Iterator[Check]:
    """Slurm's word on the smallest jobs of the lab: one GPU, and the CPU where the lab trains there too."""
    if "sbatch" in probe.missing:
        yield skipped("gpu-job", "There is no sbatch on this host to ask.")
        return
    account = choose_account(probe, wanted, profile)
    for gpus in (*((1,) if any(wanted.gpus) else ()), *((0,) if wanted.cpu_runs else ())):
        options = trial_options(profile, wanted, account=account, gpus=gpus)
        try:
            yield check_trial(connection.ask(check_options(options)), gpus=gpus, options=options)
        except LabError as error:
            yield problem("gpu-job" if gpus else "cpu-job", error.sentence, error.hint)
            return
