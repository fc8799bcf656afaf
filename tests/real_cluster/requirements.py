"""What this machine lacks for a real cluster: one sentence each, shown when the cluster tests are skipped."""

import os
import shutil
import subprocess
import sys
from functools import cache

PROGRAMS = {
    "unshare": "util-linux", "sshd": "openssh-server", "ssh-keygen": "openssh-client", "munged": "munge",
    **dict.fromkeys(("mariadbd", "mariadb-install-db"), "mariadb-server"), "slurmdbd": "slurmdbd",
    **dict.fromkeys(("slurmctld", "slurmd", "sbatch"), "slurm-wlm"), "openssl": "openssl", "cc": "gcc",
}  # fmt: skip
NETWORK_PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "hostname": "hostname"}
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def missing_requirements(*, separate_nodes: bool = False) -> tuple[str, ...]:
    """Reasons why no cluster can be started here; empty when one can. Separate nodes need a network of their own."""
    if sys.platform != "linux":
        return ("not Linux",)
    reasons = []
    if os.geteuid() != 0:
        reasons.append("not root")
    lacking = sorted(
        {
            package
            for program, package in (PROGRAMS | (NETWORK_PROGRAMS if separate_nodes else {})).items()
            if shutil.which(program, path=SEARCH_PATH) is None
        }
    )
    if lacking:
        reasons.append("Debian packages missing: " + " ".join(lacking))
    if not reasons and not _works("unshare", "--pid", "--fork", "--mount", "--uts", "--ipc", *_MOUNT):
        reasons.append("the kernel refuses new namespaces (unshare)")
    if not reasons and separate_nodes and not _works("unshare", "--net", "sh", "-ec", _BRIDGE):
        reasons.append("the kernel refuses network namespaces, veth or bridge (unshare --net, ip link)")
    return tuple(reasons)


_MOUNT = ("mount", "-t", "tmpfs", "none", "/mnt")
_BRIDGE = "ip link add br0 type bridge; ip link add one type veth peer name two; ip link set one master br0"


def _works(*probe: str) -> bool:
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
