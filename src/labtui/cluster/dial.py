"""From a target to a transport that is logged in: network, host key, login, for every hop in turn."""

from __future__ import annotations

import logging
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.cluster.failures import cannot_connect
from labtui.cluster.hostkeys import check_host_key, lines_of, preferred_types
from labtui.cluster.keys import within
from labtui.cluster.login import Login, Memory, Welcome
from labtui.cluster.prompts import Prompter
from labtui.cluster.target import Endpoint
from labtui.errors import CannotConnect, LabError

if TYPE_CHECKING:
    import paramiko

DNS_LIMIT_S = 10.0
BANNER_LIMIT_S = 15.0
CHANNEL_LIMIT_S = 15.0
KEEPALIVE_S = 30

# paramiko reports the end of connections on its logger; without a handler Python would print that on the
# terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(slots=True)
class Line:
    """An open way: the last transport is the login host's, the ones before it are its hops."""

    transports: list[paramiko.Transport] = field(default_factory=list)
    welcome: Welcome | None = None

    @property
    def transport(self) -> paramiko.Transport:
        """The login host's transport."""
        return self.transports[-1]

    def close(self) -> None:
        """Close everything; never raises, never waits for the far side."""
        for transport in reversed(self.transports):
            try:
                transport.close()
            except Exception:
                logging.getLogger(__name__).debug("closing a transport failed", exc_info=True)


def dial(endpoint: Endpoint, *, own_known_hosts: Path, prompter: Prompter, memory: Memory) -> Line:
    """Connect and log in to `endpoint`, through its jumps.

    Raises:
        CannotConnect: the network or a server failed before the login.
        HostKeyProblem, LoginRefused: see there; not to be tried again without the student.
    """
    line = Line()
    hops = [*endpoint.jumps, endpoint]
    try:
        way: Any = _first_socket(hops[0])
        for number, hop in enumerate(hops):
            line.transports.append(_start(hop, way))
            line.welcome = _enter(line.transport, hop, own_known_hosts, prompter, memory)
            if number + 1 < len(hops):
                way = _through(line.transport, hop, hops[number + 1])
    except BaseException:
        line.close()
        raise
    return line


def _first_socket(endpoint: Endpoint) -> Any:
    if endpoint.proxy_command:
        return _proxy(endpoint)
    try:
        return connect_tcp(endpoint.host, endpoint.port, endpoint.connect_timeout_s)
    except OSError as problem:
        raise cannot_connect(problem, endpoint) from None


def connect_tcp(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connected socket without delay; every address of the name is tried within one deadline.

    Raises:
        OSError: the last address's reason (`socket.gaierror` when the name is unknown).
    """
    deadline = time.monotonic() + timeout_s
    addresses = within(
        min(DNS_LIMIT_S, timeout_s), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    reason: OSError = TimeoutError()
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        plug = socket.socket(family, kind, protocol)
        plug.settimeout(max(0.1, left / (len(addresses) - number)))
        try:
            plug.connect(address)
        except OSError as problem:
            plug.close()
            reason = problem
            continue
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return plug
    raise reason


def _proxy(endpoint: Endpoint) -> Any:
    import paramiko

    if sys.platform == "win32":
        raise CannotConnect(
            "ProxyCommand is not supported on Windows.", "Use ProxyJump in the SSH configuration instead."
        )
    try:
        return paramiko.ProxyCommand(endpoint.proxy_command)
    except (OSError, ValueError) as problem:
        raise CannotConnect(
            f"The ProxyCommand for {endpoint.host} cannot be started.", f"{endpoint.proxy_command}: {problem}"
        ) from None


def _through(transport: paramiko.Transport, hop: Endpoint, next_hop: Endpoint) -> Any:
    """A channel through `hop` to `next_hop`."""
    import paramiko

    try:
        return transport.open_channel(
            "direct-tcpip", (next_hop.host, next_hop.port), ("127.0.0.1", 0), timeout=CHANNEL_LIMIT_S
        )
    except paramiko.ChannelException as problem:
        raise CannotConnect(
            f"{hop.host} cannot reach {next_hop.host}:{next_hop.port} ({problem.text or 'refused'}).",
            "Check ProxyJump and the name of the login host.",
        ) from None
    except (paramiko.SSHException, OSError, EOFError) as problem:
        raise cannot_connect(problem, hop) from None


def _start(endpoint: Endpoint, way: Any) -> paramiko.Transport:
    """A transport on `way` that has not spoken yet."""
    import paramiko

    try:
        transport = paramiko.Transport(way)
    except (paramiko.SSHException, OSError, EOFError) as problem:
        raise cannot_connect(problem, endpoint) from None
    transport.daemon = True
    transport.banner_timeout = BANNER_LIMIT_S
    transport.handshake_timeout = BANNER_LIMIT_S
    transport.channel_timeout = CHANNEL_LIMIT_S
    return transport


def quick_first(ciphers: tuple[str, ...]) -> tuple[str, ...]:
    """AES-GCM before the others: it encrypts and authenticates in one call, twice as fast as two from Python."""
    return tuple(sorted(ciphers, key=lambda name: "-gcm@" not in name))


def _enter(
    transport: paramiko.Transport, endpoint: Endpoint, own_file: Path, prompter: Prompter, memory: Memory
) -> Welcome:
    """Exchange keys, check the host key, log in."""
    known = lines_of(endpoint, own_file)
    options = transport.get_security_options()
    options.key_types = preferred_types(known, endpoint, tuple(options.key_types))
    options.ciphers = quick_first(tuple(options.ciphers))
    try:
        transport.start_client(timeout=BANNER_LIMIT_S * 2)
        if not transport.initial_kex_done:
            raise TimeoutError
        key = transport.get_remote_server_key()
    except LabError:
        raise
    except Exception as problem:
        raise cannot_connect(problem, endpoint) from None
    check_host_key(endpoint, key.get_name(), key.asbytes(), lines=known, own_file=own_file, prompter=prompter)
    welcome = Login(transport, endpoint, prompter, memory).run()
    transport.set_keepalive(KEEPALIVE_S)
    return welcome
