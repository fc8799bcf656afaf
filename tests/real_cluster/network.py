"""A network of the cluster's own: each node is a network namespace with a host name and an address. In the supervisor.

The supervisor leaves the host's network for a namespace with a bridge. A pair of linked interfaces joins the bridge to
the host (so that the tests reach sshd) and one joins it to each node. When the namespaces end, the interfaces end with
them, those on the host included. The addresses are from the range that is kept for benchmarks (RFC 2544).
"""

import ctypes
import os
import random
import subprocess
from pathlib import Path

from tests.real_cluster.settings import ClusterSettings

CLONE_NEWNET = 0x4000_0000
PLACES = Path("/run/labtui-net")
"""Where the nodes' namespaces are kept, in the supervisor's own mounts."""


def free_subnet() -> str:
    """The first three numbers of a network in which this machine has no interface: ``198.18.37``."""
    taken = subprocess.run(["ip", "-4", "-o", "address"], capture_output=True, text=True, check=True).stdout
    numbers = [f"198.18.{number}" for number in range(1, 255)]
    return random.SystemRandom().choice([each for each in numbers if f" {each}." not in taken])


class Network:
    """The namespaces and interfaces of one cluster."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings

    def build(self) -> None:
        settings = self.settings
        host = os.open("/proc/self/ns/net", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "the kernel refuses a network namespace")
        outside = f"lt{settings.subnet.replace('.', '')}"
        ip("link", "set", "lo", "up")
        own = "02:00:00:00:00:02"  # without one of its own it takes another whenever an interface joins it
        ip("link", "add", "bridge", "address", own, "type", "bridge")
        ip("address", "add", f"{settings.address}/24", "dev", "bridge")
        ip("link", "set", "bridge", "up")
        ip("link", "add", "uplink", "type", "veth", "peer", "name", outside)
        ip("link", "set", "uplink", "master", "bridge", "up")
        ip("link", "set", outside, "netns", f"/proc/self/fd/{host}", keep=host)
        there = ["nsenter", f"--net=/proc/self/fd/{host}"]
        ip("address", "add", f"{settings.subnet}.1/24", "dev", outside, before=there, keep=host)
        ip("link", "set", outside, "up", before=there, keep=host)
        os.close(host)
        _run(["mount", "--bind", "/run", "/run"])  # so that what is mounted below stays ours
        _run(["mount", "--make-private", "/run"])
        PLACES.mkdir(exist_ok=True)
        for index, node in enumerate(settings.nodes, start=1):
            self._add(index, node.name)

    def _add(self, index: int, name: str) -> None:
        place = PLACES / name
        place.touch()
        _run(["unshare", "--net", "mount", "--bind", "/proc/self/ns/net", str(place)])
        inside = ["nsenter", f"--net={place}"]
        peer = ("peer", "name", "eth0", "netns", str(place))
        ip("link", "add", f"node{index}", "type", "veth", *peer)
        ip("link", "set", f"node{index}", "master", "bridge", "up")
        ip("link", "set", "lo", "up", before=inside)
        ip("address", "add", f"{self.settings.address_of(index)}/24", "dev", "eth0", before=inside)
        ip("link", "set", "eth0", "up", before=inside)

    def command(self, index: int, words: list[str]) -> list[str]:
        name = self.settings.nodes[index - 1].name
        named = f'hostname {name} && exec "$@"'
        return ["nsenter", f"--net={PLACES / name}", "unshare", "--uts", "sh", "-c", named, name, *words]

    def pids(self, index: int, proc: Path) -> list[int]:
        """The ids of a node's processes, as in the mounted procfs `proc`."""
        node = (PLACES / self.settings.nodes[index - 1].name).stat()
        found = []
        for entry in proc.iterdir():
            try:
                space = (entry / "ns/net").stat() if entry.name.isdigit() else None
            except OSError:
                continue
            if space is not None and (space.st_dev, space.st_ino) == (node.st_dev, node.st_ino):
                found.append(int(entry.name))
        return found


def ip(*words: str, before: list[str] | None = None, keep: int | None = None) -> None:
    _run([*(before or []), "ip", *words], keep)


def _run(words: list[str], keep: int | None = None) -> None:
    passed = () if keep is None else (keep,)
    done = subprocess.run(words, capture_output=True, text=True, check=False, pass_fds=passed)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
