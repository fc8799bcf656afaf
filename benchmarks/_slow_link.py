"""A slow network connection for fair comparisons: a TCP proxy on loopback with a rate and a delay.

Each direction has its own rate; the data in flight is bounded, as by a router's buffer, so that a sender is slowed
down.
"""

from __future__ import annotations

import collections
import contextlib
import socket
import threading
import time

PIECE = 16 * 1024
BUFFER_S = 0.05
"""The size of the proxy's own buffer, in seconds at its rate."""


class SlowLink:
    """Forwards connections to `target` at `rate` bytes per second and with `delay_s` seconds, in each direction."""

    def __init__(self, target: tuple[str, int], *, rate: float, delay_s: float) -> None:
        self.target, self.rate, self.delay_s = target, rate, delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no further connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self.target)
                for one, other in ((near, far), (far, near)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    _Way(one, other, self.rate, self.delay_s)


class _Way:
    """One direction of a connection: receives at the line's rate and sends after the delay."""

    def __init__(self, source: socket.socket, sink: socket.socket, rate: float, delay_s: float) -> None:
        self.source, self.sink, self.rate, self.delay_s = source, sink, rate, delay_s
        self.pieces: collections.deque[tuple[float, bytes]] = collections.deque()
        self.news = threading.Condition()
        threading.Thread(target=self._take_in, daemon=True).start()
        threading.Thread(target=self._give_out, daemon=True).start()

    def _take_in(self) -> None:
        free_at = time.monotonic()
        data = b"x"
        while data:
            try:
                data = self.source.recv(PIECE)
            except OSError:
                data = b""
            now = time.monotonic()
            free_at = max(free_at, now) + len(data) / self.rate
            with self.news:
                self.pieces.append((free_at + self.delay_s, data))
                self.news.notify()
            if free_at > now + BUFFER_S:
                time.sleep(free_at - now - BUFFER_S)

    def _give_out(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self.news:
                    self.news.wait_for(lambda: self.pieces)
                    at, data = self.pieces.popleft()
                time.sleep(max(0.0, at - time.monotonic()))
                if not data:
                    self.sink.shutdown(socket.SHUT_WR)
                    return
                self.sink.sendall(data)
