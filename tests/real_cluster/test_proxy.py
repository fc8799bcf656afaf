"""`FaultProxy` alone, in front of an echo server: every fault strikes where it should."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.real_cluster.cluster import wait_until
from tests.real_cluster.proxy import Fault, FaultProxy


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client:
            try:
                while data := client.recv(65_536):
                    client.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def talk(proxy: FaultProxy, amount: int, *, expect: int | None = None) -> bytes:
    """Send `amount` bytes and read until the end, an error, or `expect` bytes."""
    got = b""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=120) as client:
        try:
            client.sendall(bytes(i % 251 for i in range(amount)))
            while len(got) < (amount if expect is None else expect):
                piece = client.recv(65_536)
                if not piece:
                    break
                got += piece
        except ConnectionError:
            pass
    return got


@pytest.mark.parametrize("kind", ["cut", "reset"])
@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("at", [0, 5000])
def test_cuts_at_the_byte(echo: tuple[str, int], kind: str, direction: str, at: int) -> None:
    fault = Fault(kind, direction, at)  # type: ignore[arg-type]
    with FaultProxy(echo, lambda index: fault) as proxy:
        got = talk(proxy, 20_000)
        assert len(got) <= at
        assert proxy.bytes_passed[direction] == at
        assert proxy.faults_struck == [fault]


def test_stall_lasts_until_it_is_thawed(echo: tuple[str, int]) -> None:
    with (
        FaultProxy(echo, lambda index: Fault("stall", "up", 100)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=120) as client,
    ):
        client.sendall(b"x" * 200)
        wait_until(lambda: len(proxy.faults_struck) == 1, what="the stall")
        assert proxy.bytes_passed["up"] == 100 and proxy.open_connections == 1
        proxy.thaw()
        got = b""
        while len(got) < 200:
            got += client.recv(1000)
        assert got == b"x" * 200


def test_cut_and_refuse_on_demand(echo: tuple[str, int]) -> None:
    with FaultProxy(echo) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port), timeout=120)
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxy.cut()
        assert client.recv(1) == b""
        client.close()
        proxy.refuse()
        assert talk(proxy, 10) == b""
        proxy.refuse(False)
        assert talk(proxy, 10) == bytes(range(10))
        assert proxy.connections == 3
