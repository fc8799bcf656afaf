"""Job files of the student's own on a real sshd and Slurm: sent as they are, followed, read and charted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labtui.domain.model import JobPhase, SubmissionStatus
from labtui.domain.state import SubmissionState
from labtui.session.session import Session
from tests.real_cluster import Cluster, Student
from tests.real_cluster.cluster import wait_until
from tests.session.small_job import make_lab

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

KERAS = """import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch_size", type=int)
parser.add_argument("--n_gpus", type=int, default=1)
args = parser.parse_args()
print("running on", __import__("socket").gethostname(), flush=True)
steps = -(-50000 // args.batch_size)
for epoch in range(1, args.epochs + 1):
    seconds = max(1, 16 // args.n_gpus) + (8 if epoch == 1 else 0)
    print(f"Epoch {epoch}/{args.epochs}", flush=True)
    time.sleep(0.05)
    each = seconds * 1000 // steps
    print(f"{steps}/{steps} - {seconds}s - loss: 1.5 - accuracy: 0.4 - {seconds}s/epoch - {each}ms/step", flush=True)
"""
"""Prints what a training prints, quickly: what is tried here is how the job gets there and what is read."""

DDP = """import os
from datetime import datetime, timedelta
if os.environ.get("RANK", "0") == "0":
    world, clock = int(os.environ["WORLD_SIZE"]), datetime(2026, 11, 22, 10)
    steps = 12416 // world // 128
    def say(text):
        print(clock.strftime("[%m/%d/%Y %I:%M:%S %p] INFO - ") + text, flush=True)
    say("### model_name: vit"); say("### batch_size: 128"); say("### num_epochs: 5")
    say("### Total training samples (batches): %d (%d)" % (steps * 128, steps))
    for epoch in range(1, 6):
        say("[EPOCH: %d] Starting training loop..." % epoch)
        clock += timedelta(seconds=steps * 128 / 208.5)
        say("[EPOCH: %d] Training throughput: %.3f imgs/s" % (epoch, 208.5 * world))
    say("Training finished!")
    say("Complete training Time: 380 s ")
    say("Training throughput:    %d imgs/s" % int(208.5 * world))
"""
TORCHRUN = """#!/bin/bash
# A launcher as far as this test needs one: the first process of every node.
while [[ $1 == --* ]]; do
    case $1 in --nproc_per_node=*) each=${1#*=} ;; --nnodes=*) nodes=${1#*=} ;; --node_rank=*) node=${1#*=} ;; esac
    [ "$1" != --rdzv_backend=c10d ] || c10d=yes
    shift
done
[ -z "$c10d" ] || node=$SLURM_NODEID  # it numbers the nodes itself, whatever it is told
RANK=$((node * each)) WORLD_SIZE=$((nodes * each)) exec python "$@"
"""


@pytest.fixture
def session(tmp_path: Path, cluster: Cluster, student: Student) -> Iterator[Session]:
    folder = make_lab(tmp_path / "lab", student, student.port)
    for name in ("ResNet50.py", "ResNet50_seq.py"):
        (folder.scripts / name).write_text(KERAS)
    with Session.open(folder.path) as opened:
        yield opened


def install_pytorch(cluster: Cluster) -> None:
    """The site's PyTorch image, a launcher in every container, and the site's program beside singularity."""
    program = cluster.outside("/apps/modules/singularity/bin/bsc_singularity")
    if not program.is_symlink():
        program.symlink_to("singularity")
    image = cluster.outside("/gpfs/apps/MN5/ACC/SINGULARITY/SRC/images/nvidiaPytorch24.07")
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text("SIF_FAKE")
    launcher = cluster.outside("/apps/container/bin/torchrun")
    launcher.write_text(TORCHRUN)
    launcher.chmod(0o755)


def finished(session: Session, token: str) -> SubmissionState:
    """The submission when its job is over and its logs were read to their end."""

    def done() -> bool:
        item = session.state.submissions[token]
        assert item.status is not SubmissionStatus.REFUSED, item.sentence
        over = item.job is not None and item.job.phase is JobPhase.FINISHED
        read = bool(item.logs) and all(log.complete for log in item.logs.values())
        return over and read and all(session.state.runs[run].outcome is not None for run in item.run_ids)

    session.watch_logs({token})
    wait_until(done, what="the end of the job", deadline_s=600)
    return session.state.submissions[token]


def submit(session: Session, path: Path, **more: object) -> SubmissionState:
    draft = session.own_draft(path, **more)  # type: ignore[arg-type]
    preview = session.preview(draft)
    assert not [item for item in preview.findings if item.severity == "error"], preview.findings
    return finished(session, session.submit(draft).result(240))


def check_mirrors(cluster: Cluster, session: Session, item: SubmissionState) -> None:
    from labtui.slurm.job_control import log_path

    for stream in item.remote_logs:
        remote = log_path(item, stream)  # type: ignore[arg-type]
        mirror = session.log_path(item.token, stream)  # type: ignore[arg-type]
        assert remote is not None and mirror is not None, stream
        assert mirror.read_bytes() == cluster.outside(remote).read_bytes()


def test_a_file_that_tells_nothing_is_read_from_its_log(
    cluster: Cluster, student: Student, session: Session
) -> None:
    path = session.folder.slurm / "mystery.slurm"
    path.write_text(
        f"#!/bin/bash\n#SBATCH -A {student.account} -q acc_debug -t 5 --gres=gpu:2 -c 40\n"
        f"#SBATCH -o {student.scratch}/logs/%u-%x-%6j.txt\nbash steps.sh\n"
    )
    cluster.as_student(f"mkdir -p {student.scratch}/logs")
    (session.folder.scripts / "steps.sh").write_text(
        "echo ' Model ResNet152 2 GPUs '; echo 'Batch_size: 512'\n"
        "/apps/container/bin/python ResNet50.py --epochs 3 --batch_size 512 --n_gpus 2\n"
    )
    item = submit(session, path)
    assert item.remote_logs.keys() == {"out"}
    check_mirrors(cluster, session, item)
    (run,) = (session.state.runs[run_id] for run_id in item.run_ids)
    assert (run.spec.model, run.spec.n_gpus, run.spec.epochs, run.spec.unknown) == ("ResNet152", 2, 3, ())
    assert len(run.epochs) == 3
