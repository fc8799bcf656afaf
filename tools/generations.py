"""The contract on other releases of Slurm: ``python -m tools.generations [RELEASE...] [--record]``.

For each release a Debian suite that carries it is unpacked with debootstrap (once, kept below ``--trees``), a
cluster is started whose programs, Slurm and OpenSSH included, come from that tree, and the contract tests run
against it. ``--record`` writes its answers to ``tests/fixtures/slurm/RELEASE.json``.

The trees are only ever bound into a cluster's private mount namespace: nothing has to be unmounted afterwards.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.real_cluster.cluster import PROJECT

SUITES = {"24.11": "trixie", "26.05": "sid"}
"""Slurm release to the Debian suite that had it; a suite with another release by now is an error."""
PACKAGES = "slurm-wlm,slurmdbd,munge,mariadb-server,openssh-server,openssh-sftp-server,procps"
BORROWED = {"26.05": ("24.11", Path("usr/lib/x86_64-linux-gnu/libmariadb.so.3"))}
"""Files taken from another release's tree. MariaDB's client library 11.8.9 in sid fails slurmdbd's first
query ("columns in result (=1) set exceeds maximum ... (=0)"), so slurmdbd ends; the older library works.
"""
SITES = "tests/doctor/test_foreign_sites.py"
CHOSEN = "real and not real_training or from_nothing"
"""The contract, and a cluster without a profile from its probe to a chart."""
TREES = Path("/var/tmp/labtui-generations")


def build_tree(release: str, trees: Path) -> Path:
    """Unpack the suite's packages into ``trees/RELEASE`` unless they are there (a minute, 1 GB)."""
    tree = trees / release
    if (tree / "usr/bin/sbatch").exists():
        return tree
    if shutil.which("debootstrap") is None:
        raise SystemExit("debootstrap is not installed (Debian package debootstrap)")
    partial = trees / f"{release}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # left by an interrupted run
    trees.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITES[release], str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"debootstrap {SUITES[release]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    if release in BORROWED:
        lender, path = BORROWED[release]
        shutil.copy(build_tree(lender, trees) / path, partial / path)
    partial.rename(tree)
    return tree


def run(tree: Path, *words: str) -> int:
    environment = os.environ | {"LABTUI_TEST_CLUSTER_ROOT": str(tree)}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=PROJECT, env=environment, check=False
    ).returncode


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.generations", description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=" ".join(SUITES) + " (all of them)")
    parser.add_argument("--trees", type=Path, default=TREES, help=f"where the trees are kept ({TREES})")
    parser.add_argument("--record", action="store_true", help="write the answers to tests/fixtures/slurm")
    options = parser.parse_args(argv)
    if unknown := set(options.releases) - SUITES.keys():
        parser.error(f"no suite is known for {', '.join(sorted(unknown))}")
    results = {}
    for release in options.releases or SUITES:
        tree = build_tree(release, options.trees)
        subprocess.run(["chroot", str(tree), "sbatch", "--version"], check=True)  # a suite moves on
        tests = ("tests/contract", SITES, "-q", "-k", CHOSEN, "-p", "no:cacheprovider")
        results[release] = run(tree, "pytest", *tests)
        if options.record:
            results[f"{release} recorded"] = run(tree, "tools.record_slurm")
    for name, status in results.items():
        print(f"{name}: {'holds' if status == 0 else f'FAILED (exit status {status})'}")
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
