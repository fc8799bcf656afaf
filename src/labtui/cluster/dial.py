"""Connects to an endpoint and logs in; every failure becomes one of labtui's errors.

``ssh-keygen -F`` finds the lines for a host in the known_hosts files, including hashed names and patterns. A changed
host key is refused without a question. For an unknown one the student is asked once, with its SHA-256 fingerprint.
"""

import base64
import contextlib
import errno
import hashlib
import logging
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import paramiko

from labtui.cluster.keys import within
from labtui.cluster.local_files import write_inside
from labtui.cluster.login import Login, RememberedLogins
from labtui.cluster.target import Endpoint, LoginQuestion, Prompter, run_program, same_fingerprint
from labtui.domain.errors import LabError, failure, os_errors

_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EHOSTDOWN}
_CUT = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}


@contextlib.contextmanager
def reaching(endpoint: Endpoint) -> Iterator[None]:
    """Turn exceptions before the login into errors for the student. A `LabError` is passed on."""
    try:
        yield
    except LabError:
        raise
    except Exception as problem:
        where, text = f"{endpoint.host}:{endpoint.port}", str(problem) or type(problem).__name__
        raise failure(_reason_key(problem), host=endpoint.host, where=where, text=text) from None


def _reason_key(problem: BaseException) -> str:
    text, code = str(problem).lower(), problem.errno if isinstance(problem, OSError) else None
    if isinstance(problem, socket.gaierror):
        return "no-network" if code == socket.EAI_AGAIN else "name"
    if isinstance(problem, ConnectionRefusedError | TimeoutError):
        return "timeout" if isinstance(problem, TimeoutError) else "refused"
    if code in _NO_ROUTE:
        return "no-route"
    # paramiko no longer has SHA-1: a server that offers nothing else causes a KeyError with the key type's name.
    no_common_type = isinstance(problem, KeyError) and "ssh-" in text
    if isinstance(problem, paramiko.ssh_exception.IncompatiblePeer) or no_common_type:
        return "too-old"
    if isinstance(problem, EOFError) or "banner" in text:
        return "no-ssh"
    hung_up = isinstance(problem, paramiko.SSHException) and ("negotiation" in text or not text)
    return "cut" if code in _CUT or hung_up else "unclear"


def lost_error(problem: BaseException, host: str) -> LabError:
    """The error for an exception on an open connection."""
    return failure("silent" if isinstance(problem, TimeoutError) else "lost", host=host)


BANNER_LIMIT_S = 15.0
CHANNEL_LIMIT_S = 15.0
KEEPALIVE_S = 30

# paramiko logs the end of connections; without a handler Python would print that on the terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class SshChain(msgspec.Struct):
    """An open connection through hops: the last transport is the login host's, those before it are the hops'."""

    transports: list[paramiko.Transport] = []
    methods: tuple[str, ...] = ()

    @property
    def transport(self) -> paramiko.Transport:
        """The login host's transport."""
        return self.transports[-1]

    def close(self) -> None:
        """Close all transports; never raises and never waits for the cluster."""
        for transport in reversed(self.transports):
            with contextlib.suppress(Exception):
                transport.close()


def dial(endpoint: Endpoint, prompter: Prompter, memory: RememberedLogins) -> SshChain:
    """Connect and log in to `endpoint`, through its jumps.

    Raises:
        CannotConnect: the network or a server failed before the login.
        HostKeyProblem, LoginRefused: do not retry without the student.
    """
    chain = SshChain()
    hops = [*endpoint.jumps, endpoint]
    try:
        stream: Any = _first_socket(hops[0])
        for number, hop in enumerate(hops):
            chain.transports.append(_make_transport(hop, stream))
            chain.methods = _log_in(chain.transport, hop, prompter, memory)
            if number + 1 < len(hops):
                stream = _open_hop(chain.transport, hop, hops[number + 1])
    except BaseException:
        chain.close()
        raise
    return chain


def _first_socket(endpoint: Endpoint) -> Any:
    if endpoint.proxy_command:
        if sys.platform == "win32":  # paramiko reads it with `select`, which takes only sockets there
            raise failure("proxy-windows", host=endpoint.host)
        try:
            return paramiko.ProxyCommand(endpoint.proxy_command)
        except (OSError, ValueError) as problem:
            text = f"{endpoint.proxy_command}: {problem}"
            raise failure("proxy", host=endpoint.host, text=text) from None
    with reaching(endpoint):
        return connect_tcp(endpoint.host, endpoint.port, endpoint.connect_timeout_s)


def connect_tcp(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connected socket with TCP_NODELAY. Each address may take `timeout_s`, the whole call twice that.

    Raises:
        OSError: the error of the last address (`socket.gaierror` if the name is unknown).
    """
    connected = within(2 * timeout_s, lambda: socket.create_connection((host, port), timeout_s))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connected


def _open_hop(transport: paramiko.Transport, hop: Endpoint, next_hop: Endpoint) -> Any:
    """A channel through `hop` to `next_hop`."""
    place = next_hop.host, next_hop.port
    with reaching(hop):
        try:
            return transport.open_channel("direct-tcpip", place, ("127.0.0.1", 0), timeout=CHANNEL_LIMIT_S)
        except paramiko.ChannelException as problem:
            where = f"{next_hop.host}:{next_hop.port}"
            raise failure("jump", hop=hop.host, where=where, text=problem.text or "refused") from None


def _make_transport(endpoint: Endpoint, stream: Any) -> paramiko.Transport:
    """A transport on the socket `stream`, before the key exchange."""
    with reaching(endpoint):
        transport = paramiko.Transport(stream)
    transport.daemon = True
    transport.banner_timeout = BANNER_LIMIT_S
    transport.handshake_timeout = BANNER_LIMIT_S
    transport.channel_timeout = CHANNEL_LIMIT_S
    return transport


def _log_in(
    transport: paramiko.Transport, endpoint: Endpoint, prompter: Prompter, memory: RememberedLogins
) -> tuple[str, ...]:
    """Exchange keys, check the host key, log in; return the accepted login methods."""
    known = known_keys(endpoint)
    options = transport.get_security_options()
    options.key_types = preferred_types(known, tuple(options.key_types))
    # AES-GCM first: it encrypts and authenticates in one call, twice as fast as two calls from Python.
    options.ciphers = tuple(sorted(options.ciphers, key=lambda name: "-gcm@" not in name))
    with reaching(endpoint):
        transport.start_client(timeout=BANNER_LIMIT_S * 2)
        if not transport.initial_kex_done:
            raise TimeoutError
        key = transport.get_remote_server_key()
    check_host_key(endpoint, key.get_name(), key.asbytes(), known, prompter)
    methods = Login(transport, endpoint, prompter, memory).run()
    transport.set_keepalive(KEEPALIVE_S)
    return methods


# --------------------------------------------------------------------------- host keys


class KnownKey(msgspec.Struct, frozen=True):
    """A host's key in a known_hosts file; `source` names file and line."""

    key_type: str
    key: bytes
    source: str
    revoked: bool = False


def fingerprint(key: bytes) -> str:
    """``SHA256:...`` of a public key blob, as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def known_hosts_name(endpoint: Endpoint) -> str:
    """The name of a server in known_hosts: its HostKeyAlias, or host, with its port in brackets unless that is 22."""
    host = endpoint.host if endpoint.port == 22 else f"[{endpoint.host}]:{endpoint.port}"
    return endpoint.host_key_alias or host


def known_keys(endpoint: Endpoint) -> tuple[KnownKey, ...]:
    """The keys of a host in the user's files and labtui's own."""
    files = (path for path in (*endpoint.known_hosts, endpoint.own_known_hosts) if path.is_file())
    name = known_hosts_name(endpoint)
    return tuple(key for path in files for key in _parse_keys(_find_lines(path, name), path))


def _find_lines(path: Path, name: str) -> str:
    """The lines of a file for `name`, each below a comment with its number, as ``ssh-keygen -F`` prints them."""
    program = shutil.which("ssh-keygen")
    try:
        if program is not None:
            done = run_program(program, "-F", name, "-f", str(path))
            if done.returncode in (0, 1):  # 1: the file has no such host
                return done.stdout.decode("utf-8", "replace")
            raise OSError(done.stderr.decode("utf-8", "replace").strip())
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise failure("unreadable", path=path, text=problem) from None
    # Without OpenSSH's programs only plain names are found, such as those that labtui writes.
    lines = enumerate(text.splitlines(), 1)
    named = re.compile(rf"(?:@\S+\s+)?(?:\S+,)?{re.escape(name)}[,\s]")
    return "\n".join(f"# line {n}\n{line}" for n, line in lines if named.match(line))


def _parse_keys(text: str, path: Path) -> Iterator[KnownKey]:
    number = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("#"):
            match = re.search(r"line ([0-9]+)", line)
            number = match[1] if match else ""
            continue
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or marker not in ("", "@revoked"):  # a certificate authority is not a host key
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except ValueError:
            continue
        yield KnownKey(words[1], key, f"{path}:{number}", revoked=bool(marker))


def add_host(path: Path, name: str, key_type: str, key: bytes) -> None:
    """Add a key to labtui's own known_hosts, which is replaced atomically and readable by its owner only.

    `name` is the host's name in known_hosts (see `known_hosts_name`).

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        before = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        before = ""
    if before and not before.endswith("\n"):
        before += "\n"
    line = f"{name} {key_type} {base64.b64encode(key).decode()}\n"
    path = path.resolve()  # a link is the user's own: follow it
    write_inside(path.parent, path.name, (before + line).encode())


_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def preferred_types(known: Sequence[KnownKey], offered: tuple[str, ...]) -> tuple[str, ...]:
    """The `offered` host key algorithms, those with a known key first, so that it can be compared."""
    wanted: list[str] = []
    for each in known:
        if not each.revoked:
            wanted += _RSA if each.key_type == "ssh-rsa" else (each.key_type,)
    first = list(dict.fromkeys(name for name in wanted if name in offered))
    return (*first, *(name for name in offered if name not in first))


def check_host_key(
    endpoint: Endpoint, key_type: str, key: bytes, known: Sequence[KnownKey], prompter: Prompter
) -> None:
    """Check a server's host key; ask the student about an unknown one.

    A host that is known with another key, of any type, has *changed*: the server was asked for the known type, so
    another type means another server or a new installation.

    Raises:
        HostKeyProblem: it has changed, is revoked, is not the pinned one, or was not accepted.
    """
    shown = fingerprint(key)
    host, name = endpoint.host, known_hosts_name(endpoint)
    revoked = next((each for each in known if each.revoked and each.key == key), None)
    if revoked is not None:
        raise failure("revoked", host=host, source=revoked.source)
    if endpoint.host_key and not same_fingerprint(endpoint.host_key, shown):
        raise failure("pinned", host=host, shown=shown, pin=endpoint.host_key)
    good = [each for each in known if not each.revoked]
    if any(each.key == key for each in good):
        return
    if good:
        raise failure("changed", host=host, shown=shown, source=good[0].source, name=name)
    if endpoint.host_key:  # only here: whoever sent the folder may have pinned the key of another server
        return
    _ask_student(endpoint, key_type, shown, prompter)
    with os_errors("not-kept", path=endpoint.own_known_hosts, shown=shown):
        add_host(endpoint.own_known_hosts, name, key_type, key)


def _ask_student(endpoint: Endpoint, key_type: str, shown: str, prompter: Prompter) -> None:
    name = known_hosts_name(endpoint)
    published = _compare_published(endpoint, shown)
    text = f"{name} is not in known_hosts. Its {key_type} key is {shown}. {published}Is this fingerprint correct?"
    question = LoginQuestion(kind="host-key", text=text, host=endpoint.host, echo=True, fingerprint=shown)
    if not question.accepts(prompter(question)):
        raise failure("not-accepted", host=endpoint.host, shown=shown)


def _compare_published(endpoint: Endpoint, shown: str) -> str:
    """A sentence on how the key shown compares with the site's published ones; "" if nothing is known.

    Raises:
        HostKeyProblem: the site publishes other keys.
    """
    if any(same_fingerprint(known, shown) for known in endpoint.published):
        return f"The site publishes the same fingerprint ({endpoint.published_at}). "
    if endpoint.published:
        raise failure("not-published", host=endpoint.host, shown=shown, published_at=endpoint.published_at)
    return f"{endpoint.published_at} " if endpoint.published_at else ""
