"""Records the answers of a real Slurm for tests without one: ``python -m tools.record_slurm [OUT.json]``.

One JSON file for each release: by name, a command with its exact standard output, standard error (UTF-8) and exit
status. `tests/slurm/recorded.py` reads them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.jobs import ACCOUNTING, PINNED, QUEUE, REFUSALS, Jobs
from tests.contract.sites import Site, real_site
from tests.real_cluster import Cluster
from tests.slurm.recorded import FOLDER


@dataclass
class Recorder(Jobs):
    """Runs commands in a directory of a site and keeps the answers."""

    recorded: dict[str, dict[str, object]] = field(default_factory=dict)

    def record(self, name: str, command: str) -> str:
        """Run `command` in the directory, record the answer, and return its standard output."""
        answer = self.run(command)
        self.recorded[name] = {
            "command": command, "status": answer.status, "stdout": answer.stdout.decode(),
            "stderr": answer.stderr.decode(),
        }  # fmt: skip
        return answer.out

    def finish(self, target: Path) -> None:
        text = json.dumps(self.recorded, indent=1, sort_keys=True, ensure_ascii=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n", encoding="utf-8")


CPU = "-A {account} -q gp_training"
GPU = "-A {account} -q acc_training -c 20 --gres=gpu:1"


def record_all(site: Site, target: Path) -> None:
    """Record every command that labtui uses, in all states of a job that can be reached within a few minutes."""
    recorder = Recorder(site, f"{site.scratch}/recordings")
    recorder.prepare()
    cpu, gpu = CPU.format(account=site.account), GPU.format(account=site.account)
    recorder.record("squeue-nothing", f"{PINNED}{QUEUE}")
    recorder.record("sacct-nothing", f"{PINNED}{ACCOUNTING}")
    limited = recorder.submit(f"{cpu} -t 1 -J limited --comment=labtui:limited long.sh")
    _record_refusals(recorder)
    _record_life(recorder, cpu, gpu)
    recorder.wait_for(limited, "TIMEOUT")
    recorder.wait_for_accounting(limited)
    recorder.record("sacct-timeout", f"{PINNED}{ACCOUNTING} --jobs={limited}")
    recorder.finish(target)


def _record_refusals(recorder: Recorder) -> None:
    site = recorder.site
    for name, (options, _, _) in REFUSALS.items():
        given = options.format_map(recorder.words)
        recorder.record(f"refused-{name}", f"sbatch --parsable {given}")
        recorder.record(f"test-only-{name}", f"{PINNED}sbatch --test-only {given}")
    debug = f"-A {site.account} -q acc_debug -c 20 --gres=gpu:1 -t 10"
    recorder.submit(f"{debug} long.sh")
    recorder.record("refused-second-debug", f"sbatch --parsable {debug} long.sh")
    recorder.record("test-only-second-debug", f"{PINNED}sbatch --test-only {debug} long.sh")
    recorder.run("scancel --qos acc_debug --user $USER")


def _record_life(recorder: Recorder, cpu: str, gpu: str) -> None:
    recorder.record("test-only-gpu", f"{PINNED}sbatch --test-only {gpu} ok.sh")
    recorder.record("test-only-local-time", f"sbatch --test-only {gpu} ok.sh")
    refused = recorder.submit(f"{cpu} --chdir /gpfs/none ok.sh")
    done = recorder.submit(f"--no-requeue --comment=labtui:tok-1234 --job-name=ResNet50-1234 {cpu} ok.sh")
    failed = recorder.submit(f"{cpu} --comment=labtui:tok-fail fail.sh")
    held = recorder.submit(f"{cpu} --hold --comment=labtui:tok-held long.sh")
    later = recorder.submit(f"{cpu} --begin=now+1hour long.sh")
    odd = recorder.submit(f"{gpu} --comment='a|b;c\"d\té\U0001f600' --job-name='x y|z' long.sh")
    for job, state in ((odd, "RUNNING"), (done, "COMPLETED"), (failed, "FAILED")):
        recorder.wait_for(job, state)
    recorder.record("squeue-mixed", f"{PINNED}{QUEUE}")
    recorder.run(f"scancel {held} {odd} {later}")
    for job in (done, failed, refused, held, odd):
        recorder.wait_for_accounting(job)
    recorder.record("sacct-mixed", f"{PINNED}{ACCOUNTING}")
    recorder.record("sacct-by-id", f"{PINNED}{ACCOUNTING} --jobs={done},{failed}")


def record_trouble(cluster: Cluster, site: Site, target: Path) -> None:
    """Record the answers while a daemon is down; the cluster is repaired afterwards."""
    recorder = Recorder(site, f"{site.scratch}/recordings")
    recorder.recorded = json.loads(target.read_text(encoding="utf-8"))
    submit = f"sbatch --parsable {CPU.format(account=site.account)} ok.sh"
    cluster.daemon("slurmctld", "stop")
    recorder.record("no-slurmctld-sbatch", submit)
    cluster.repair()
    cluster.daemon("slurmctld", "pause")
    recorder.record("frozen-slurmctld-sbatch", submit)
    cluster.repair()
    recorder.finish(target)


def main(argv: list[str]) -> int:
    cluster = Cluster.start()
    try:
        with real_site(cluster) as site:
            release = ".".join(site.run("sbatch --version").out.split()[-1].split(".")[:2])
            target = Path(argv[0]) if argv else FOLDER / f"{release}.json"
            record_all(site, target)
            record_trouble(cluster, site, target)
            print(f"recorded in {target}")
    finally:
        cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
