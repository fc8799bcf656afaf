"""What this machine lacks for a real cluster: one sentence each, shown when the cluster tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

PROGRAMS = {
    "unshare": "util-linux",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "munged": "munge",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "slurmdbd": "slurmdbd",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
    "openssl": "openssl",
    "cc": "gcc",
}
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def missing_requirements() -> tuple[str, ...]:
    """Reasons why no cluster can be started here; empty when one can."""
    if sys.platform != "linux":
        return ("not Linux",)
    reasons = []
    if os.geteuid() != 0:
        reasons.append("not root")
    lacking = sorted(
        {package for program, package in PROGRAMS.items() if shutil.which(program, path=SEARCH_PATH) is None}
    )
    if lacking:
        reasons.append("Debian packages missing: " + " ".join(lacking))
    if not reasons and not _namespaces_work():
        reasons.append("the kernel refuses new namespaces (unshare)")
    return tuple(reasons)


def _namespaces_work() -> bool:
    probe = [
        "unshare",
        "--pid",
        "--fork",
        "--mount",
        "--uts",
        "--ipc",
        "mount",
        "-t",
        "tmpfs",
        "none",
        "/mnt",
    ]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
