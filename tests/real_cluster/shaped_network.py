"""A slower network between the nodes: a switch in user space, for kernels that have no netem.

``python -m tests.real_cluster.shaped_network MBIT_PER_S DELAY_MS NODE...`` in the network namespace of the bridge, with
the interfaces ``node1``, ``node2`` ... Each is taken off the bridge and joined to it again by two TAP interfaces
between which this program carries the frames: those to the node wait their turn at the given rate and then travel for
the given delay, as on the port of a switch. Prints ``ready`` and runs until it is ended; the interfaces end with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import time
from itertools import count

MTU = 9000
"""Bytes of a frame between the nodes: fewer of them for a program that carries each by hand."""
QUEUE_S = 0.2
"""A port holds as much as it sends in this time; what comes beyond is dropped, and TCP slows down."""
NO_TUN = "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "no /dev/net/tun: the network was NOT shaped"
"""Why there can be no TAP interface here."""
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x4004_54CA, 0x0002, 0x1000


def tap(name: str, bridge: str) -> int:
    """A new TAP interface on a bridge; its descriptor, which reads what the bridge sends there and writes to it."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    _ip("link", "set", name, "mtu", str(MTU), "master", bridge, "up")
    return descriptor


def carry(wires: list[tuple[int, int]], bytes_per_s: float, delay_s: float) -> None:
    """Carry frames for ever; each wire is (the TAP on the node's side, the TAP on the bridge's)."""
    to_bridge = dict(wires)
    to_node = {bridge: node for node, bridge in wires}
    free_at = dict.fromkeys(to_node.values(), 0.0)
    order = count()
    travelling: list[tuple[float, int, int, bytes]] = []
    while True:
        now = time.monotonic()
        while travelling and travelling[0][0] <= now:
            _, _, port, frame = heapq.heappop(travelling)
            _write(port, frame)
        wait = None if not travelling else max(0.0, travelling[0][0] - now)
        for descriptor in select.select([*to_bridge, *to_node], [], [], wait)[0]:
            frame = os.read(descriptor, MTU + 64)
            if descriptor in to_bridge:
                _write(to_bridge[descriptor], frame)
                continue
            port, now = to_node[descriptor], time.monotonic()
            begin = max(now, free_at[port])
            if begin - now > QUEUE_S:
                continue
            free_at[port] = begin + len(frame) / bytes_per_s
            heapq.heappush(travelling, (free_at[port] + delay_s, next(order), port, frame))


def _write(port: int, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # full, or going down: a network loses frames
        os.write(port, frame)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def main(mbit_per_s: float, delay_ms: float, nodes: list[str]) -> None:
    """Take the nodes off the bridge, join them by wires of this program, carry."""
    wires = []
    for node in nodes:
        inner = f"{node}-wire"
        _ip("link", "add", inner, "mtu", str(MTU), "type", "bridge")
        _ip("link", "set", inner, "up")
        wires.append((tap(f"{node}-in", inner), tap(f"{node}-out", "bridge")))
        _ip("link", "set", node, "master", inner)
    print("ready", flush=True)
    carry(wires, mbit_per_s * 1e6 / 8, delay_ms / 1000)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
