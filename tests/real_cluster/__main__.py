"""``python -m tests.real_cluster up|down DIR``: the test cluster by hand."""

import argparse
import sys
from pathlib import Path

from tests.real_cluster.cluster import Cluster, ClusterFailed


def describe(cluster: Cluster) -> str:
    """How to log in and what to try, as text for a terminal."""
    me = cluster.student
    return (
        f"cluster in {cluster.folder}\n"
        f"  log in          ssh -p {me.port} -i {me.key} -o IdentitiesOnly=yes {me.user}@{me.host}\n"
        f"  with a code     the same with -p {me.code_port}; the code is {me.code}\n"
        f"  password        {me.password}\n"
        f"  labtui          labtui init LAB --lab hpc4ai-ch10 --cluster mn5"
        f" --host {me.host} --port {me.port} --user {me.user} --identity {me.key}"
        f" --host-key {me.host_key} --account {me.account} --qos {me.gpu_qos} --root {me.scratch}/labtui"
    )


def main(argv: list[str]) -> int:
    """Return the exit status: 0 done, 2 cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_cluster", description=__doc__)
    parser.add_argument(
        "command", choices=("up", "down"), help="start a cluster and leave it running; end it"
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    options = parser.parse_args(argv)
    try:
        if options.command == "up":
            print(describe(Cluster.start(options.folder, detached=True)))
        else:
            Cluster.attach(options.folder).down()
    except ClusterFailed as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
