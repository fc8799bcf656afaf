"""`FaultProxy`: a TCP proxy between an SSH client and sshd that breaks the connection in chosen ways.

Pure Python, threads only; knows nothing of SSH. Faults take effect at byte counts (of one connection, one
direction) so that a failing case can be repeated exactly; `Fault.random` draws one from a seeded generator.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal["cut", "reset", "stall", "delay"]
Direction = Literal["up", "down"]
CHUNK = 16_384


class Fault(msgspec.Struct, frozen=True):
    """What happens to a connection after `at_byte` bytes in `direction`.

    ``up`` is to the server, ``down`` to the client. ``cut`` closes both sides, ``reset`` does so with RST,
    ``stall`` passes nothing more in either direction but keeps both sides open, ``delay``
    waits `seconds` before every further chunk.
    """

    kind: Kind
    direction: Direction = "up"
    at_byte: int = 0
    seconds: float = 0.0

    @classmethod
    def random(cls, chooser: random.Random) -> Fault:
        """A fault at a random point, more often early than late."""
        at = int(60_000 ** chooser.random())
        direction: Direction = chooser.choice(("up", "down"))
        kind: Kind = chooser.choice(("cut", "reset", "stall", "delay"))
        return cls(kind, direction, at, seconds=chooser.uniform(0.001, 0.05))


class _Link:
    """One client's connection and its counterpart to the server."""

    def __init__(
        self, proxy: FaultProxy, client: socket.socket, server: socket.socket, fault: Fault | None
    ) -> None:
        self.proxy = proxy
        self.sockets = {"up": (client, server), "down": (server, client)}
        self.fault = fault
        self.passed = {"up": 0, "down": 0}
        self.open = True
        self.stalled = threading.Event()

    def start(self) -> None:
        for direction in ("up", "down"):
            threading.Thread(target=self._pump, args=(direction,), daemon=True).start()

    def close(self, *, reset: bool = False) -> None:
        self.open = False
        self.stalled.set()
        for end in self.sockets["up"]:
            with contextlib.suppress(OSError):
                if reset:  # waking the other thread's recv without a word to the peer; close then sends RST
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RD)
                else:
                    end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _pump(self, direction: str) -> None:
        source, sink = self.sockets[direction]
        try:
            while self.open:
                data = source.recv(CHUNK)
                if not data:
                    break
                self._pass(direction, sink, data)
        except OSError:
            pass
        finally:
            # A stalled link looks alive to both sides: if one side closes it, the other is not told.
            if not (self.open and self.proxy.stalled(self)):
                self.close()

    def _pass(self, direction: str, sink: socket.socket, data: bytes) -> None:
        while data and self.open:
            self.proxy.hold(self)
            fault = self.fault
            if fault is None or fault.direction != direction:
                piece, data = data, b""
            else:
                left = fault.at_byte - self.passed[direction]
                if left <= 0:
                    data = self._strike(fault, direction, sink, data)
                    continue
                piece, data = data[:left], data[left:]
            self._send(direction, sink, piece)

    def _send(self, direction: str, sink: socket.socket, piece: bytes) -> None:
        sink.sendall(piece)
        self.passed[direction] += len(piece)

    def _strike(self, fault: Fault, direction: str, sink: socket.socket, data: bytes) -> bytes:
        self.proxy.struck(fault)
        if fault.kind in ("cut", "reset"):
            self.close(reset=fault.kind == "reset")
            return b""
        if fault.kind == "stall":
            self.proxy.stall(self)
            return data
        time.sleep(fault.seconds)
        self._send(direction, sink, data)
        return b""


class FaultProxy:
    """Listens on 127.0.0.1 (`port`) and passes everything to `target`; a context manager.

    `plan` gives the fault (or None) of the n-th connection, counted from 0.
    """

    def __init__(self, target: tuple[str, int], plan: Callable[[int], Fault | None] | None = None) -> None:
        self.target = target
        self.plan = plan or (lambda index: None)
        self.connections = 0
        self.faults_struck: list[Fault] = []
        self._links: list[_Link] = []
        self._stalled: set[_Link] = set()
        self._gate = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, reset: bool = False) -> None:
        """Break every open connection now."""
        for link in self._take_links():
            link.close(reset=reset)

    def freeze(self) -> None:
        """Silently pass nothing more on the open connections; new ones work."""
        with self._gate:
            self._stalled.update(self._links)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hold(self, link: _Link) -> None:
        with self._gate:
            while link in self._stalled and link.open:
                self._gate.wait(0.2)

    def stall(self, link: _Link) -> None:
        with self._gate:
            self._stalled.add(link)

    def stalled(self, link: _Link) -> bool:
        with self._gate:
            return link in self._stalled

    def struck(self, fault: Fault) -> None:
        """Remember that a fault took effect (once each)."""
        with self._gate:
            if not self.faults_struck or self.faults_struck[-1] is not fault:
                self.faults_struck.append(fault)

    def _take_links(self) -> list[_Link]:
        with self._gate:
            links, self._links = self._links, []
            return links

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            index, self.connections = self.connections, self.connections + 1
            try:
                server = socket.create_connection(self.target, timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(self, client, server, self.plan(index))
            with self._gate:
                self._links.append(link)
            link.start()
