"""From an endpoint to an authenticated transport, and every way this can fail as one of labtui's errors."""

from __future__ import annotations

import errno
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from labtui.cluster.keys import within
from labtui.cluster.known_hosts import check_host_key, known_keys, preferred_types
from labtui.cluster.login import Login, Memory
from labtui.cluster.target import Endpoint, Prompter, failure
from labtui.domain.errors import LabError

if TYPE_CHECKING:
    import paramiko

_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EHOSTDOWN}
_CUT = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}


def cannot_connect(problem: BaseException, endpoint: Endpoint) -> LabError:
    """What went wrong before a login, as an error for the student. A `LabError` stays as it is."""
    if isinstance(problem, LabError):
        return problem
    where = f"{endpoint.host}:{endpoint.port}"
    text = str(problem) or type(problem).__name__
    return failure(_reason(problem), host=endpoint.host, where=where, text=text)


def _reason(problem: BaseException) -> str:
    import paramiko

    text, code = str(problem).lower(), problem.errno if isinstance(problem, OSError) else None
    if isinstance(problem, socket.gaierror):
        return "no-network" if code == socket.EAI_AGAIN else "name"
    if isinstance(problem, ConnectionRefusedError | TimeoutError):
        return "timeout" if isinstance(problem, TimeoutError) else "refused"
    if code in _NO_ROUTE:
        return "no-route"
    # Since SHA-1 was dropped, a server that offers nothing else shows as a KeyError of a type's name.
    no_common_type = isinstance(problem, KeyError) and "ssh-" in text
    if isinstance(problem, paramiko.ssh_exception.IncompatiblePeer) or no_common_type:
        return "too-old"
    if isinstance(problem, EOFError) or "banner" in text:
        return "no-ssh"
    hung_up = isinstance(problem, paramiko.SSHException) and ("negotiation" in text or not text)
    return "cut" if code in _CUT or hung_up else "unclear"


def lost(problem: BaseException, host: str) -> LabError:
    """What went wrong on a connection that was up. A `LabError` stays as it is."""
    if isinstance(problem, LabError):
        return problem
    return failure("silent" if isinstance(problem, TimeoutError) else "lost", host=host)


BANNER_LIMIT_S = 15.0
CHANNEL_LIMIT_S = 15.0
KEEPALIVE_S = 30

# paramiko reports the end of connections on its logger; without a handler Python would print that on the
# terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class SshChain(msgspec.Struct):
    """An open way: the last transport is the login host's, the ones before it are its hops."""

    transports: list[paramiko.Transport] = []
    methods: tuple[str, ...] = ()

    @property
    def transport(self) -> paramiko.Transport:
        """The login host's transport."""
        return self.transports[-1]

    def close(self) -> None:
        """Close everything; never raises, never waits for the cluster."""
        for transport in reversed(self.transports):
            try:
                transport.close()
            except Exception:
                logging.getLogger(__name__).debug("closing a transport failed", exc_info=True)


def dial(endpoint: Endpoint, *, own_known_hosts: Path, prompter: Prompter, memory: Memory) -> SshChain:
    """Connect and log in to `endpoint`, through its jumps.

    Raises:
        CannotConnect: the network or a server failed before the login.
        HostKeyProblem, LoginRefused: see there; not to be tried again without the student.
    """
    chain = SshChain()
    hops = [*endpoint.jumps, endpoint]
    try:
        way: Any = _first_socket(hops[0])
        for number, hop in enumerate(hops):
            chain.transports.append(_start(hop, way))
            chain.methods = _enter(chain.transport, hop, own_known_hosts, prompter, memory)
            if number + 1 < len(hops):
                way = _through(chain.transport, hop, hops[number + 1])
    except BaseException:
        chain.close()
        raise
    return chain


def _first_socket(endpoint: Endpoint) -> Any:
    import paramiko

    if endpoint.proxy_command:
        try:
            return paramiko.ProxyCommand(endpoint.proxy_command)
        except (OSError, ValueError) as problem:
            text = f"{endpoint.proxy_command}: {problem}"
            raise failure("proxy", host=endpoint.host, text=text) from None
    try:
        return connect_tcp(endpoint.host, endpoint.port, endpoint.connect_timeout_s)
    except OSError as problem:
        raise cannot_connect(problem, endpoint) from None


def connect_tcp(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connected socket without delay. Each address of the name has `timeout_s`, looking it up and all twice that.

    Raises:
        OSError: the last address's reason (`socket.gaierror` when the name is unknown).
    """
    plug = within(2 * timeout_s, lambda: socket.create_connection((host, port), timeout_s))
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return plug


def _through(transport: paramiko.Transport, hop: Endpoint, next_hop: Endpoint) -> Any:
    """A channel through `hop` to `next_hop`."""
    import paramiko

    try:
        return transport.open_channel(
            "direct-tcpip", (next_hop.host, next_hop.port), ("127.0.0.1", 0), timeout=CHANNEL_LIMIT_S
        )
    except paramiko.ChannelException as problem:
        where = f"{next_hop.host}:{next_hop.port}"
        raise failure("jump", hop=hop.host, where=where, text=problem.text or "refused") from None
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
) -> tuple[str, ...]:
    """Exchange keys, check the host key, log in."""
    known = known_keys(endpoint, own_file)
    options = transport.get_security_options()
    options.key_types = preferred_types(known, tuple(options.key_types))
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
    check_host_key(endpoint, key.get_name(), key.asbytes(), known=known, own_file=own_file, prompter=prompter)
    methods = Login(transport, endpoint, prompter, memory).run()
    transport.set_keepalive(KEEPALIVE_S)
    return methods
