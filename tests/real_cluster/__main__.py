"""``python -m tests.real_cluster up|down|status DIR``: the test cluster by hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.real_cluster.cluster import Cluster, ClusterFailed
from tests.real_cluster.control import ask
from tests.real_cluster.settings import ClusterSettings, pair_settings


def describe(cluster: Cluster) -> str:
    """How to log in and what to try, as text for a terminal."""
    me = cluster.student
    ssh = f"ssh -p {me.port} -i {me.key} -o IdentitiesOnly=yes {me.user}@{me.host}"
    return (
        f"cluster in {cluster.folder}\n"
        f"  log in          {ssh}\n"
        f"  with a code     the same with -p {me.code_port}; the code is {me.code}\n"
        f"  password        {me.password}\n"
        f"  host key        {me.host_key}\n"
        f"  account, QoS    {me.account}; {me.cpu_qos} gp_training"
        f" {me.gpu_qos} acc_training acc_interactive\n"
        f"  scratch         {me.scratch}\n"
        f"  data, container {me.data_dir}  {me.container}\n"
        "  labtui          labtui init LAB --lab hpc4ai-ch10 --cluster mn5"
        f" --host {me.host} --port {me.port} --user {me.user} --identity {me.key}"
        f" --host-key {me.host_key} --account {me.account} --qos {me.gpu_qos} --root {me.scratch}/labtui\n"
    )


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a cluster in DIR and leave it running")
    up.add_argument("folder", type=Path, metavar="DIR")
    up.add_argument("--min-job-age", type=int, default=300, help="seconds Slurm remembers a finished job")
    up.add_argument(
        "--no-site-rules", action="store_true", help="Slurm as it comes, without MareNostrum's rules"
    )
    up.add_argument(
        "--separate-nodes", action="store_true", help="two nodes with host names and addresses of their own"
    )
    up.add_argument("--private-data", default="", help="slurm.conf's PrivateData, e.g. jobs,nodes")
    up.add_argument(
        "--base-root", default=ClusterSettings().base_root, help="a debootstrap tree with another Slurm"
    )
    for command, text in (
        ("down", "end it and remove its files"),
        ("status", "which daemons run, how to log in"),
    ):
        commands.add_parser(command, help=text).add_argument("folder", type=Path, metavar="DIR")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Exit status: 0 done, 1 no cluster, 2 cannot."""
    options = parse(argv)
    try:
        if options.command == "up":
            make = pair_settings if options.separate_nodes else ClusterSettings
            settings = make(
                min_job_age_s=options.min_job_age, site_rules=not options.no_site_rules,
                private_data=options.private_data, base_root=options.base_root,
            )  # fmt: skip
            print(describe(Cluster.start(options.folder, settings, detached=True)))
            return 0
        cluster = Cluster.attach(options.folder)
        if options.command == "down":
            cluster.down()
            return 0
        if not cluster.running:
            print(f"the cluster in {cluster.folder} has ended; `down` removes what it left")
            return 1
        print(describe(cluster))
        for name, alive in ask(cluster.folder, "ping").items():
            print(f"  {name:<10} {'runs' if alive else 'does not run'}")
        return 0
    except ClusterFailed as problem:
        print(problem, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
