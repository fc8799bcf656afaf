"""Where to connect and as whom: the values, without the how.

`resolve` in `labtui.cluster.resolve` fills them in as OpenSSH would.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the lab folder or the command line says; it goes before SSH config and profile. Empty: not said.

    `identity_file` is one private key (or the public half of one the agent holds). `host_key` pins
    ``SHA256:...``. `config_file` and `known_hosts` replace the user's own files, for tests and odd set-ups.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    user: str = ""
    identity_file: str = ""
    certificate_file: str = ""
    host_key: str = ""
    proxy_jump: str = ""
    config_file: Path | None = None
    known_hosts: tuple[Path, ...] | None = None
    own_known_hosts: Path | None = None
    use_ssh_program: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One SSH server as resolved: a login host or a hop on the way to it.

    `alias` is the name as asked for, `host` and `port` where it really is. `identity_files` are tried in no
    pile: one key is chosen from them. `identity_named` tells that somebody named them (they are not the
    defaults). `agent` is the path of the agent's socket, empty for the environment's, ``none`` for no agent.
    """

    alias: str
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    identity_named: bool = False
    certificate_files: tuple[Path, ...] = ()
    agent: str = ""
    known_hosts: tuple[Path, ...] = ()
    host_key_alias: str = ""
    host_key: str = ""
    proxy_command: str = ""
    jumps: tuple[Endpoint, ...] = ()
    connect_timeout_s: float = 15.0

    @property
    def label(self) -> str:
        """How errors name it: ``user@host`` with the port when it is unusual."""
        port = "" if self.port == 22 else f":{self.port}"
        return f"{self.user}@{self.host}{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The hosts of one login, tried in turn, and labtui's own file of accepted host keys."""

    endpoints: tuple[Endpoint, ...]
    own_known_hosts: Path
    resolved_by: str = ""
    """``ssh -G`` or ``paramiko``: who read the SSH configuration."""
    notes: tuple[str, ...] = ()
