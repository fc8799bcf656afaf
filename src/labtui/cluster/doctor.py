"""Examines the way to a cluster step by step, changing nothing there: what `labtui doctor` shows.

A step that fails ends the way behind it, and the checks after it are left out: they could tell nothing true.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from labtui.cluster.connection import Connection
from labtui.cluster.keys import certificate_times
from labtui.cluster.known_hosts import known_types, read_known_hosts
from labtui.cluster.prompts import Prompter
from labtui.cluster.resolve import resolve_target
from labtui.cluster.target import Endpoint, Overrides, Target
from labtui.core.doctor import (
    Check,
    Status,
    Wanted,
    check_account,
    check_clock,
    check_places,
    check_qos,
    check_slurm,
    choose_account,
)
from labtui.core.preflight.paths import other_place
from labtui.core.probe import (
    SlurmProbe,
    parse_places,
    parse_slurm_probe,
    places_command,
    slurm_probe_command,
)
from labtui.core.profile import Profile
from labtui.errors import HostKeyProblem, LabError, LoginRefused

SLOW_SHELL_S = 5.0
CERTIFICATE_SOON_S = 2 * 3600


Seen = Callable[[dict[str, bool]], None]
"""Is told which remote paths are there."""


def examine(
    profile: Profile,
    overrides: Overrides,
    wanted: Wanted,
    prompter: Prompter,
    seen: Seen | None = None,
) -> Iterator[Check]:
    """The checks in order, each as soon as it is known. No `LabError` leaves here: it becomes a check.

    `seen` is told of the data set and the container, once the cluster was asked about them.
    """
    try:
        target = resolve_target(profile, overrides)
    except LabError as problem:
        yield Check(
            key="ssh-config",
            title="SSH configuration",
            status="problem",
            sentence=problem.sentence,
            fix=problem.hint,
        )
        return
    yield from _configuration(profile, target)
    if transfers := profile.data_host("" if not overrides.hosts else overrides.hosts[0]):
        yield Check(
            key="data-host",
            title="Copies by hand",
            status="ok",
            sentence=f"The site wants large copies on {transfers}: the scp commands that labtui shows go there. "
            "labtui's own small files go over the line it has.",
        )
    yield from (_key(endpoint) for endpoint in target.endpoints[:1])
    yield _known(target)
    connection = Connection(target, prompter)
    try:
        yield from _connected(connection, profile, wanted, seen)
    finally:
        connection.close()


def _configuration(profile: Profile, target: Target) -> Iterator[Check]:
    if profile.status == "historical":
        yield Check(
            key="profile",
            title="Profile",
            status="problem",
            sentence=f"{profile.title} is a cluster of the past.",
            fix="Use another profile; this one is for reading old logs.",
        )
    hosts = ", ".join(endpoint.label for endpoint in target.endpoints)
    hops = target.endpoints[0].jumps
    way = f" through {', '.join(hop.label for hop in hops)}" if hops else ""
    sentence = f"{hosts}{way} (as read by {target.resolved_by})."
    notes = " ".join(target.notes)
    status: Status = "warning" if notes else "ok"
    fix = "Install OpenSSH's client, or name host and user in lab.toml." if notes else ""
    yield Check(
        key="ssh-config",
        title="SSH configuration",
        status=status,
        sentence=f"{sentence} {notes}".strip(),
        fix=fix,
    )


def _key(endpoint: Endpoint) -> Check:
    title = "Key"
    files = [path for path in endpoint.identity_files if path.is_file()]
    if not files and endpoint.identity_named:
        return Check(
            key="key",
            title=title,
            status="problem",
            sentence=f"The key file {endpoint.identity_files[0]} is not there.",
            fix="Correct the path (identity in lab.toml), or make a key: ssh-keygen -t ed25519.",
        )
    if not files:
        return Check(
            key="key",
            title=title,
            status="warning",
            sentence="There is no key file; the login needs the agent's only key or a password.",
            fix="Make a key with ssh-keygen -t ed25519 and send it with ssh-copy-id.",
        )
    return _permissions(files[0]) or _certificate(endpoint, files[0])


def _permissions(path: Path) -> Check | None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if path.suffix == ".pub" or os.name == "nt" or not mode & 0o077:
        return None
    return Check(
        key="key",
        title="Key",
        status="warning",
        sentence=f"Others on this computer can read {path} (mode {mode:o}).",
        fix=f"chmod 600 {path}: ssh itself refuses such a key.",
    )


def _certificate(endpoint: Endpoint, path: Path) -> Check:
    title = "Key"
    sibling = path.with_name(path.name + "-cert.pub")
    found = [file for file in (*endpoint.certificate_files, sibling) if file.is_file()]
    if not found:
        return Check(key="key", title=title, status="ok", sentence=f"{path} is there.")
    _, ends = certificate_times(found[0])
    if ends is None:
        return Check(key="key", title=title, status="ok", sentence=f"{path} with the certificate {found[0]}.")
    left = (ends - datetime.now(UTC)).total_seconds()
    until = f"the certificate {found[0]} is valid until {ends:%Y-%m-%d %H:%M} UTC"
    if left <= 0:
        return Check(
            key="key",
            title=title,
            status="problem",
            sentence=f"The certificate {found[0]} ran out on {ends:%Y-%m-%d at %H:%M} UTC.",
            fix="Get a new one where you got this one.",
        )
    soon = left < CERTIFICATE_SOON_S
    return Check(
        key="key",
        title=title,
        status="warning" if soon else "ok",
        sentence=f"{path}; {until}.",
        fix="Get a new one before the lab." if soon else "",
    )


def _known(target: Target) -> Check:
    endpoint = target.endpoints[0]
    lines = read_known_hosts([*endpoint.known_hosts, target.own_known_hosts])
    if endpoint.host_key:
        sentence = f"The key of {endpoint.host} is pinned to {endpoint.host_key}."
    elif known_types(lines, endpoint.host, endpoint.port, endpoint.host_key_alias):
        sentence = f"{endpoint.host} is known."
    else:
        return Check(
            key="known-hosts",
            title="Known hosts",
            status="warning",
            sentence=f"{endpoint.host} is new here: its key will be shown and asked about once.",
            fix="Have the fingerprint that your site publishes at hand.",
        )
    return Check(key="known-hosts", title="Known hosts", status="ok", sentence=sentence)


def _connected(
    connection: Connection, profile: Profile, wanted: Wanted, seen: Seen | None
) -> Iterator[Check]:
    began = time.monotonic()
    try:
        connection.connect()
    except LabError as problem:
        key = {HostKeyProblem: "host-key", LoginRefused: "login"}.get(type(problem), "network")
        title = {"host-key": "Host key", "login": "Login", "network": "Network"}[key]
        yield Check(key=key, title=title, status="problem", sentence=problem.sentence, fix=problem.hint)
        return
    took = time.monotonic() - began
    methods = " and ".join(connection.welcome.methods) if connection.welcome else ""
    yield Check(
        key="login",
        title="Login",
        status="ok",
        sentence=f"{connection.user} on {connection.host} by {methods or 'nothing'} in {took:.1f} s.",
    )
    yield _sftp(connection)
    nonce = secrets.token_hex(8)
    try:
        result = connection.run(slurm_probe_command(nonce), timeout_s=180)
    except LabError as problem:
        yield Check(
            key="login-shell",
            title="Login shell",
            status="problem",
            sentence=problem.sentence,
            fix=problem.hint,
        )
        return
    yield _shell(connection, result.noise)
    probe = parse_slurm_probe(result, nonce)
    practice = profile.status == "practice"
    yield check_clock(probe.server_time, time.time() - result.seconds, practice=practice)
    yield from check_slurm(probe)
    yield check_account(probe, wanted, profile)
    yield from check_qos(probe, wanted, profile)
    yield from _modules(probe, profile)
    yield from _places(connection, profile, wanted, probe, seen)


def _sftp(connection: Connection) -> Check:
    try:
        seconds = connection.ping(15.0)
    except LabError as problem:
        return Check(
            key="sftp", title="File transfer", status="problem", sentence=problem.sentence, fix=problem.hint
        )
    return Check(
        key="sftp",
        title="File transfer",
        status="ok",
        sentence=f"SFTP works ({seconds * 1000:.0f} ms to open).",
    )


def _shell(connection: Connection, noise: bytes) -> Check:
    began = time.monotonic()
    connection.run("true")
    took = time.monotonic() - began
    words = f"it prints {len(noise)} bytes, which labtui drops" if noise.strip() else "it is silent"
    if took > SLOW_SHELL_S:
        return Check(
            key="login-shell",
            title="Login shell",
            status="warning",
            sentence=f"It takes {took:.0f} s to start; {words}.",
            fix="Look for slow lines in .bashrc and .bash_profile (module loads, conda init).",
        )
    return Check(
        key="login-shell", title="Login shell", status="ok", sentence=f"It starts in {took:.1f} s; {words}."
    )


def _modules(probe: SlurmProbe, profile: Profile) -> Iterator[Check]:
    if profile.launch.modules and not probe.has_module:
        yield Check(
            key="module",
            title="Modules",
            status="warning",
            sentence="The login shell does not know `module`, which the job scripts use.",
            fix="Jobs inherit the environment of the shell that submits: check .bash_profile and .bashrc.",
        )


def _places(
    connection: Connection, profile: Profile, wanted: Wanted, probe: SlurmProbe, seen: Seen | None
) -> Iterator[Check]:
    account = choose_account(probe, wanted, profile)
    places = {"{account}": account, "{user}": probe.user or connection.user}
    told = {
        "root": wanted.root or profile.root,
        "data": wanted.data_dir or profile.data_dir,
        "container": wanted.container or profile.launch.container or profile.container,
    }
    if not account and any("{account}" in path for path in told.values()):
        yield Check(
            key="places",
            title="Paths",
            status="skipped",
            sentence="The paths contain the account, which is not known.",
            fix="Set account in lab.toml, or give --account.",
        )
        return
    filled = {name: fill(path, places) for name, path in told.items()}
    others = {path: other for path in (filled["data"], filled["container"]) if (other := other_place(path))}
    asked = [path for path in (filled["data"], filled["container"], *others.values()) if path]
    nonce = secrets.token_hex(8)
    try:
        result = connection.run(
            places_command(filled["root"], asked, profile.quota_command, nonce), timeout_s=90
        )
    except LabError as problem:
        yield Check(
            key="places", title="Paths", status="problem", sentence=problem.sentence, fix=problem.hint
        )
        return
    found = parse_places(result, nonce, asked)
    if seen is not None and result.status == 0:
        seen({path: found.paths[path].kind != "missing" for path in asked})
    yield from check_places(
        found,
        root=filled["root"],
        data_dir=filled["data"],
        container=filled["container"],
        other_places=others,
    )


def fill(text: str, places: dict[str, str]) -> str:
    """A profile's text with ``{account}`` and ``{user}`` put in."""
    for name, value in places.items():
        text = text.replace(name, value)
    return text
