"""Where to connect and as whom, completed from the SSH configuration as OpenSSH does, and the questions of a login.

Answers are secrets and are never printed.
"""

import getpass
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import platformdirs
from msgspec.structs import replace

from labtui.cluster.local_files import expand_home
from labtui.domain.errors import failure
from labtui.domain.profile import Profile, split_address
from labtui.domain.state import CLUSTER_OVER


def _own_known_hosts() -> Path:
    return Path(platformdirs.user_data_dir("labtui", appauthor=False)) / "known_hosts"


def start_again(profile: Profile, identity: str) -> str:
    """How to start the practice cluster again that has this key, or that it is over; "" for a real one."""
    if profile.status != "practice":
        return ""
    root = Path(identity).parent.parent
    if root.name != "cluster":  # as it is called where it is kept
        return CLUSTER_OVER
    kept = str(root.parent) if Path(identity).is_file() else "DIR"  # that was moved
    return f"Start the cluster again: {shlex.join(['labtui', 'practice', '--keep', kept])}"


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the lab folder or the command line, which override SSH configuration and profile. Empty: not set.

    `identity` is one private key (or the public half of one that the agent holds). `host_key` pins
    ``SHA256:...``. `config_file` and `known_hosts` replace the user's own files, for tests and unusual set-ups.
    """

    host: str = ""
    port: int | None = None
    user: str = ""
    identity: str = ""
    host_key: str = ""
    config_file: Path | None = None
    known_hosts: tuple[Path, ...] | None = None
    own_known_hosts: Path = msgspec.field(default_factory=_own_known_hosts)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One resolved SSH server: a login host or a hop on the way to it.

    `alias` is the name as given, `host` and `port` the real ones. One key is chosen from `identity_files`;
    `identity_configured` is false if they are OpenSSH's defaults. `agent` is the path of the agent's socket, empty for
    the environment's, ``none`` for no agent. `own_known_hosts` is labtui's own file of accepted host keys. `published`
    are the fingerprints that the site publishes for this host, `published_at` says where, or why there are none.
    """

    alias: str
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    identity_configured: bool = False
    certificate_files: tuple[Path, ...] = ()
    agent: str = ""
    known_hosts: tuple[Path, ...] = ()
    own_known_hosts: Path = msgspec.field(default_factory=_own_known_hosts)
    host_key_alias: str = ""
    host_key: str = ""
    published: tuple[str, ...] = ()
    published_at: str = ""
    proxy_command: str = ""
    jumps: tuple["Endpoint", ...] = ()
    connect_timeout_s: float = 15.0

    @property
    def label(self) -> str:
        """Its name in errors: ``user@host``, with the port if it is not 22."""
        return f"{self.user}@{self.host}" + (f":{self.port}" if self.port != 22 else "")


QuestionKind = Literal["password", "passphrase", "code", "host-key"]


class LoginQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is asked during a login. `text` may come from the server: show it as data, without markup.

    `echo`: the typed answer may be shown. A ``host-key`` question is answered with ``"yes"``, the fingerprint or a
    refusal; `fingerprint` is the key's ``SHA256:...``.
    """

    kind: QuestionKind
    text: str
    host: str
    echo: bool = False
    fingerprint: str = ""

    def accepts(self, answer: str | None) -> bool:
        """Whether an answer consents to the host key: "yes", or the same fingerprint."""
        given = (answer or "").strip()
        return given.lower() == "yes" or (given != "" and same_fingerprint(given, self.fingerprint))


def same_fingerprint(expected: str, shown: str) -> bool:
    """Compare ``SHA256:...`` fingerprints; padding and a missing prefix do not matter."""
    return expected.strip().removeprefix("SHA256:").rstrip("=") == shown.removeprefix("SHA256:")


Prompter = Callable[[LoginQuestion], str | None]
"""Asks the student a login question; None if the student refuses or nobody can be asked.

Called from the connecting thread or from paramiko's.
"""


class Secret(msgspec.Struct, frozen=True):
    """A secret whose text is not shown when it is printed, logged or part of a traceback."""

    text: str

    def __repr__(self) -> str:
        return "Secret()"


SshSettings = Mapping[str, Sequence[str]]
"""All values of each SSH setting, by lower-case keyword."""

_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ecdsa_sk", "id_ed25519_sk", "id_xmss", "id_dsa")
_MAX_JUMPS = 5


def resolve_hosts(profile: Profile, overrides: Overrides) -> tuple[Endpoint, ...]:
    """The login hosts to try in turn, from `overrides` or `profile`, with the user's SSH configuration applied.

    Raises:
        UsageError: no host is named, a name cannot be a host, or the SSH configuration cannot be read.
    """
    hosts = (overrides.host,) if overrides.host else profile.login_hosts
    if not hosts:
        raise failure("no-host")
    overrides = replace(overrides, user=overrides.user or profile.user, port=overrides.port or profile.port)
    return tuple(_endpoint(host, overrides, profile) for host in hosts)


def _endpoint(name: str, overrides: Overrides, profile: Profile, depth: int = 0) -> Endpoint:
    """The server `name`: its SSH configuration with `overrides` applied. `depth` counts the jumps on the way."""
    user, host, port = split_address(name)
    user, port = user or overrides.user, port or overrides.port
    settings = _ssh_settings(host, user, port, overrides.config_file)
    files, configured = _identities(settings, overrides.identity)
    jumps = _jumps(_first(settings, "proxyjump"), overrides, profile, depth)
    real_host = _first(settings, "hostname") or host
    real_port = int(_first(settings, "port") or port or 22)
    real_user = _first(settings, "user") or user or getpass.getuser()
    expand = {"%h": real_host, "%p": str(real_port), "%r": real_user, "%n": host, "%%": "%"}
    command = "" if jumps else _first(settings, "proxycommand")
    certificates = settings.get("certificatefile", ())
    agent = next(iter(settings.get("identityagent", ())), "SSH_AUTH_SOCK")
    return Endpoint(
        alias=host,
        host=real_host,
        port=real_port,
        user=real_user,
        identity_files=files,
        identity_configured=configured,
        certificate_files=tuple(_expand(name) for name in certificates if name != "none"),
        agent={"none": "none", "SSH_AUTH_SOCK": ""}.get(agent, str(_expand(agent))),
        known_hosts=_known_hosts(settings) if overrides.known_hosts is None else overrides.known_hosts,
        own_known_hosts=overrides.own_known_hosts,
        host_key_alias=_first(settings, "hostkeyalias"),
        host_key=overrides.host_key,
        published=profile.host_keys.get(host, ()),
        published_at=profile.host_keys_source if host in profile.login_hosts else "",
        proxy_command=re.sub(r"%[hprn%]", lambda match: shlex.quote(expand[match[0]]), command),
        jumps=jumps,
        connect_timeout_s=float(_first(settings, "connecttimeout") or 0) or 15.0,
    )


def _jumps(proxy_jump: str, overrides: Overrides, profile: Profile, depth: int) -> tuple[Endpoint, ...]:
    if not proxy_jump or proxy_jump == "none":
        return ()
    if depth >= _MAX_JUMPS:
        raise failure("jump-loop")
    # These were given for the login host, not for the hosts on the way.
    files_only = replace(overrides, host="", port=None, user="", identity="", host_key="")
    names = map(str.strip, proxy_jump.split(","))
    first, *others = (_endpoint(name, files_only, profile, depth + 1) for name in names)
    return (*first.jumps, first, *others)  # only the first hop of a list is reached by its own jumps


def _ssh_settings(host: str, user: str, port: int | None, config_file: Path | None) -> SshSettings:
    """The settings that ``ssh -G`` prints; empty if there is no ssh program."""
    if re.search(r"[\s\x00-\x1f]|^-", user):
        raise failure("bad-user", user=user)
    if (program := shutil.which("ssh")) is None:
        return {}
    options = {"-F": config_file, "-l": user, "-p": port}
    words = [word for option, value in options.items() if value for word in (option, str(value))]
    try:
        answer = run_program(program, "-G", *words, "--", host)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise failure("ssh-fails", host=host, text=problem) from None
    if answer.returncode:
        lines = answer.stderr.decode("utf-8", "replace").strip().splitlines()
        raise failure("ssh-config", host=host, text=lines[-1] if lines else "ssh -G failed")
    return parse_ssh_settings(answer.stdout.decode("utf-8", "replace"))


def run_program(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Run one of OpenSSH's programs, for at most 20 s. Raises OSError, TimeoutExpired."""
    return subprocess.run(words, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)


def parse_ssh_settings(text: str) -> SshSettings:
    """Parse the output of ``ssh -G``: one keyword with its value per line."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key:
            found.setdefault(key.lower(), []).append(value.strip())
    return found


def _first(settings: SshSettings, key: str) -> str:
    """The first value of a setting; "" if it is not set or ``none``."""
    values = settings.get(key, ())
    return "" if not values or values[0].lower() == "none" else values[0]


def _expand(text: str) -> Path:
    return expand_home(os.path.expandvars(text.strip('"')))


def public_half(path: Path) -> Path:
    """The path of a key's public half."""
    return path if path.suffix == ".pub" else path.with_name(path.name + ".pub")


def is_here(path: Path) -> bool:
    """Whether a key's file, or that of its public half, exists: the agent may hold the private one."""
    return path.is_file() or public_half(path).is_file()


def _identities(settings: SshSettings, chosen: str) -> tuple[tuple[Path, ...], bool]:
    """The candidate key files, and whether they were configured (OpenSSH's defaults were not)."""
    if chosen:
        return (_expand(chosen),), True
    defaults = tuple(Path.home() / ".ssh" / name for name in _DEFAULT_KEYS)
    configured = tuple(_expand(name) for name in settings.get("identityfile", ()) if name != "none")
    # If none is configured, `ssh -G` prints OpenSSH's default list, which differs between releases.
    is_default = len(configured) != 1 and set(configured) <= set(defaults)
    return (defaults, False) if is_default else (configured, True)


def _known_hosts(settings: SshSettings) -> tuple[Path, ...]:
    user = settings.get("userknownhostsfile") or ("~/.ssh/known_hosts ~/.ssh/known_hosts2",)
    machine = settings.get("globalknownhostsfile") or ("/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",)
    # `ssh -G` prints a path with spaces without quotes: a name begins where a path or a word of OpenSSH's does.
    names = re.split(r"\s+(?=[~/%]|[A-Za-z]:|__|none\b)", " ".join((*user, *machine)))
    return tuple(_expand(name) for name in names if name.lower() != "none")
