"""The checks of `labtui doctor`: the connection to a cluster, then the cluster itself, step by step.

Nothing is changed on it. If a step fails, the checks that depend on it are left out. The last steps check paths and
test whether Slurm would accept the smallest jobs.
"""

import os
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from labtui.cluster.connection import Connection
from labtui.cluster.dial import connect_tcp, known_keys
from labtui.cluster.keys import certificate_end, certificate_of, first_key, public_blob
from labtui.cluster.target import Endpoint, Overrides, Prompter, resolve_hosts, start_again
from labtui.doctor import checks
from labtui.doctor.checks import PYTHON_LIMIT_S, Requirements, check_paths, check_python
from labtui.domain.errors import CannotConnect, LabError
from labtui.domain.profile import Profile, fill
from labtui.preflight.files import alternative_path
from labtui.slurm.job_control import check_script
from labtui.slurm.job_script import load_lines
from labtui.slurm.probe import SlurmProbe, from_home, paths_probe, slurm_probe

SLOW_SHELL_S = 5.0
CERTIFICATE_SOON_S = 2 * 3600
REACH_LIMIT_S = 5.0
"""How long to try another host of the site if the login hosts do not answer."""

OnPaths = Callable[[dict[str, bool | str]], None]
"""Called with the remote paths that were checked: whether they exist, or what is wrong with them ("" for nothing)."""


def examine(
    profile: Profile, overrides: Overrides, wanted: Requirements, prompter: Prompter | None, on_paths: OnPaths,
    *, fixes: bool = False,
) -> Iterator[checks.Check]:  # fmt: skip
    """Yield the checks in order, each as soon as it is done. A `LabError` becomes a check.

    `on_paths` is called with the paths of data set and container once the cluster has answered. `fixes`: the caller
    writes the account that a check suggests, so that the later checks are made with it.
    """
    try:
        hosts = resolve_hosts(profile, overrides)
    except LabError as error:
        yield checks.failed("ssh-config", error)
        return
    yield from _check_config(profile, hosts)
    if profile.status != "practice":
        yield _check_key(hosts[0])
    yield _check_host_key(hosts[0], _profile_for_advice(hosts, profile))
    connection = Connection(hosts, prompter, offline_hint=start_again(profile, overrides.identity))
    try:
        yield from _check_cluster(connection, profile, wanted, on_paths, fixes=fixes)
    finally:
        connection.close()


def _profile_for_advice(hosts: Sequence[Endpoint], profile: Profile) -> Profile:
    """The profile to take advice from: if the hosts are not the profile's, its contacts and host keys are removed."""
    if any({endpoint.alias, endpoint.host} & set(profile.login_hosts) for endpoint in hosts):
        return profile
    empty = dict.fromkeys(("password_host", "password_note", "support", "host_keys_source"), "")
    return replace(profile, host_keys={}, data_hosts=(), **empty)


def _check_config(profile: Profile, hosts: Sequence[Endpoint]) -> Iterator[checks.Check]:
    if profile.status == "historical":
        yield checks.make("profile", "historical", name=profile.title)
    route = ", ".join(endpoint.label for endpoint in hosts)
    if hops := ", ".join(hop.label for hop in hosts[0].jumps):
        route = f"{route} through {hops}"
    yield checks.make("ssh-config", "fine" if shutil.which("ssh") else "no-ssh", route=route)


def _check_key(endpoint: Endpoint) -> checks.Check:
    if (path := first_key(endpoint)) is None:
        if endpoint.identity_configured:
            return checks.make("key", "missing", action="set-up-key", path=endpoint.identity_files[0])
        return checks.make("key", "none", action="set-up-key")
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0  # the agent may hold it
    if path.suffix != ".pub" and os.name != "nt" and mode & 0o077:
        key = {"identity": str(path)}
        return checks.make("key", "open", action="protect-key", settings=key, path=path, mode=f"{mode:o}")
    file = certificate_of(path, public_blob(path), endpoint)
    ends = certificate_end(file) if file else None
    if ends is None:
        return checks.make("key", "fine", path=f"{path} with the certificate {file}" if file else path)
    left = (ends - datetime.now(UTC)).total_seconds()
    over, soon = left <= 0, left < CERTIFICATE_SOON_S
    state = "certificate-over" if over else "certificate-soon" if soon else "certified"
    return checks.make("key", state, path=path, file=file, time=f"{ends:%Y-%m-%d %H:%M}")


def _check_host_key(endpoint: Endpoint, profile: Profile) -> checks.Check:
    known = any(not key.revoked for key in known_keys(endpoint))
    published = checks.published_keys(profile) or "Have the fingerprint that your site publishes at hand."
    state = "pinned" if endpoint.host_key else "fine" if known else "unknown"
    host, pin = endpoint.host, endpoint.host_key
    return checks.make("known-hosts", state, host=host, pin=pin, published=published)


# --------------------------------------------------------------------------- the connection


def _check_cluster(
    connection: Connection, profile: Profile, wanted: Requirements, on_paths: OnPaths, *, fixes: bool
) -> Iterator[checks.Check]:
    site = _profile_for_advice(connection.hosts, profile)
    try:
        connection.connect()
    except LabError as error:
        reachable = _reachable_hosts(error, connection, site)
        yield checks.check_refusal(error, site, connection.endpoint.user, reachable)
        return
    asked_at = time.time()
    try:
        probe = connection.ask(slurm_probe())
    except LabError as error:
        refusal = checks.check_refusal(error, site, connection.endpoint.user)
        yield refusal if refusal.key != "network" else checks.failed("login-shell", error)
        return
    methods = " and ".join(connection.methods) or "nothing"
    user = connection.endpoint.user
    yield checks.make("login", "fine", user=user, host=connection.host, methods=methods)
    try:
        yield checks.make("sftp", "fine", ms=connection.ping(15.0) * 1000)
    except LabError as error:
        yield checks.failed("sftp", error)
    yield _check_shell(connection)
    yield checks.check_clock(probe.server_time, asked_at, practice=profile.status == "practice")
    yield from checks.check_slurm(probe)
    known = {item.account for item in probe.associations or ()}  # one that is the only one needs no choice
    account = profile.account_of(wanted.account) or (known.pop() if len(known) == 1 else "")
    wanted = replace(wanted, account=account)
    check = checks.check_account(probe, wanted.account)
    yield check
    wanted = replace(wanted, **check.settings) if fixes else wanted
    yield from checks.check_qos(probe, wanted, profile)
    if profile.launch.modules and not probe.has_module:
        yield checks.make("module", "missing")
    yield from _check_paths(connection, profile, wanted, probe, on_paths)
    yield from _check_trials(connection, profile, wanted, probe)


def _reachable_hosts(error: LabError, connection: Connection, site: Profile) -> dict[str, bool]:
    """Whether other hosts of the site answer if its login hosts do not, to tell maintenance from a missing VPN."""
    if not isinstance(error, CannotConnect) or error.reason not in checks.UNREACHABLE:
        return {}
    tried = {endpoint.host for endpoint in connection.hosts}
    return {host: _reaches(host) for host in site.data_hosts[:2] if host not in tried}


def _reaches(host: str) -> bool:
    try:
        connect_tcp(host, 22, REACH_LIMIT_S).close()
    except OSError:
        return False
    return True


def _check_shell(connection: Connection) -> checks.Check:
    began = time.monotonic()
    noise = connection.run("true").noise
    took = time.monotonic() - began
    words = f"{len(noise)} bytes, which labtui ignores" if noise.strip() else "nothing"
    return checks.make("login-shell", "slow" if took > SLOW_SHELL_S else "fine", seconds=took, words=words)


# --------------------------------------------------------------------------- paths and trial jobs


def _check_paths(
    connection: Connection, profile: Profile, wanted: Requirements, probe: SlurmProbe, on_paths: OnPaths
) -> Iterator[checks.Check]:
    values = {"account": wanted.account, "user": probe.user or connection.endpoint.user}
    needed = (wanted.root or profile.root, wanted.data_dir, wanted.container, wanted.images_dir)
    root, data, image, images = (fill(path, values) for path in needed)
    if any("{account}" in path for path in (root, data, image, images)):
        yield checks.make("places", "no-account")
        return
    filled = replace(wanted, root=root, data_dir=data, images_dir=images, container=image)
    alternatives = {path: other for path in (data, image) if (other := alternative_path(path))}
    paths = [path for path in (data, image, *filled.image_paths, *alternatives.values()) if path]
    tests_python = bool(wanted.framework) and not image and profile.status != "practice"
    commands = {"quota": f"limit 20 {profile.quota_command}"} if profile.quota_command else {}
    if tests_python:
        commands["python"] = _python_command(profile, wanted)
    try:
        probed = connection.ask(paths_probe(root, paths, commands, extra_s=PYTHON_LIMIT_S))
    except LabError as error:
        yield checks.failed("places", error)
        return
    if not probed.complete:
        yield checks.make("places", "broken-off")
        return
    folders = (profile.data_folder(images=images) for images in (False, True))
    own = (*folders, profile.container, profile.launch.container) if profile.status == "own" else ()
    results = list(check_paths(probed, filled, alternatives, practice=profile.status == "practice", own=own))
    remarks = {from_home(check.path): "" if check.status == "ok" else check.sentence for check in results}
    there = {path: probed.paths[path].kind != "missing" for path in paths}
    on_paths({path: found and remarks.get(from_home(path), True) for path, found in there.items()})
    yield from results
    if tests_python:
        yield check_python(profile.launch.python, wanted.framework, probed.python)
    elif image:
        yield checks.make("python", "in-container")


def _python_command(profile: Profile, wanted: Requirements) -> str:
    """The shell code that starts the job scripts' Python on the login node, with the same modules and variables."""
    launch = profile.launch
    lines = load_lines(launch, launch.modules)
    lines += [f"export {name}={shlex.quote(value)}" for name, value in launch.env.items()]
    code = f"import sys, {wanted.framework} as it; print('Python', sys.version.split()[0], it.__name__, it.__version__)"
    lines.append(f"limit {PYTHON_LIMIT_S} {shlex.join(shlex.split(launch.python))} -c {shlex.quote(code)}")
    return "\n".join(lines)


def _check_trials(
    connection: Connection, profile: Profile, wanted: Requirements, probe: SlurmProbe
) -> Iterator[checks.Check]:
    """Whether Slurm would accept the smallest jobs of the lab: with one GPU, and on the CPU."""
    if "sbatch" in probe.missing:
        yield checks.make("gpu-job", "no-sbatch")
        return
    for gpus in wanted.smallest_jobs:
        options = checks.trial_options(profile, wanted, gpus=gpus)
        try:
            trial = connection.ask(check_script(options=options))
        except LabError as error:
            yield checks.failed("gpu-job" if gpus else "cpu-job", error)
            return
        yield checks.check_trial(trial, profile, gpus=gpus, options=options)
