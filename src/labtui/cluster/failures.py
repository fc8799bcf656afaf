"""Every way a connection can fail, as one of labtui's errors: a sentence and a hint.

Exceptions of sockets and of paramiko end here; their texts may come from a server and are data.
"""

from __future__ import annotations

import errno
import socket

from labtui.cluster.target import Endpoint
from labtui.errors import CannotConnect, ConnectionLost, LabError

_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EHOSTDOWN}
_CUT = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}


def cannot_connect(problem: BaseException, endpoint: Endpoint) -> LabError:
    """What went wrong before a login, as an error for the student. A `LabError` stays as it is."""
    if isinstance(problem, LabError):
        return problem
    where = f"{endpoint.host}:{endpoint.port}"
    if isinstance(problem, socket.gaierror):
        return CannotConnect(
            f"The name {endpoint.host} is not known here.",
            "Is the network up, and is the host name right? Some sites need a VPN.",
        )
    if isinstance(problem, ConnectionRefusedError):
        return CannotConnect(
            f"{where} refuses connections: nothing listens on this port.",
            "Check host and port; a login node in maintenance also answers like this.",
        )
    if isinstance(problem, TimeoutError):
        return CannotConnect(
            f"{where} does not answer.",
            "Check the network (VPN, Wi-Fi), or try again later: the login node may be down.",
        )
    code = problem.errno if isinstance(problem, OSError) else None
    if code in _NO_ROUTE:
        return CannotConnect(
            f"There is no way through the network to {where}.", "Is the network (or the VPN) up?"
        )
    return _cut(where) if code in _CUT else _protocol(problem, where)


def _cut(where: str) -> CannotConnect:
    return CannotConnect(
        f"{where} closed the connection at once.",
        "Too many logins at the same time, or the site blocks this address for a while: wait a minute.",
    )


def _protocol(problem: BaseException, where: str) -> LabError:
    import paramiko

    text = str(problem)
    if isinstance(problem, paramiko.ssh_exception.IncompatiblePeer) or _too_old(problem):
        return CannotConnect(
            f"The SSH server at {where} and this client have no method in common: the server is too old.",
            f"Ask the site for a newer server. ({text})",
        )
    if isinstance(problem, EOFError) or "banner" in text.lower():
        return CannotConnect(
            f"{where} does not speak SSH, or closed the connection before it did.",
            "Check host and port. If they are right, wait a minute: the site may limit logins.",
        )
    if isinstance(problem, paramiko.SSHException) and ("negotiation" in text.lower() or not text):
        return _cut(where)
    return CannotConnect(
        f"No SSH connection to {where} could be made: {text or type(problem).__name__}",
        "Try `ssh` to the same host in a terminal; it may tell more.",
    )


def _too_old(problem: BaseException) -> bool:
    # Since SHA-1 was dropped, a server that offers nothing else shows as a KeyError of a type's name.
    return isinstance(problem, KeyError) and "ssh-" in str(problem)


def lost(problem: BaseException, host: str) -> LabError:
    """What went wrong on a connection that was up. A `LabError` stays as it is."""
    if isinstance(problem, LabError):
        return problem
    if isinstance(problem, TimeoutError):
        return ConnectionLost(f"{host} does not answer.", "labtui tries again by itself.")
    return ConnectionLost(f"The connection to {host} is gone.", "labtui tries again by itself.")
