"""labtui's load on a cluster and its delays, compared with the tools that a student would use instead.

* the delay from a job's write to labtui's mirror; `ssh host tail -F` without inotify, which GPFS lacks
* controller requests per minute while a job runs and its log is open, counted by sdiag; `watch -n2 squeue --me`
* fetching a large log, on loopback and over a line with 200 Mbit/s and a round trip of 30 ms; `sftp get`

`python benchmarks/cluster_talk.py [--log-mb 1000]`, as root on Debian: it starts a real OpenSSH and a real Slurm.
Exit status 1 if a budget is missed: a line within 100 ms (median; 95th percentile 150 ms), at most 6 requests per
minute with one job and its log open, fetching at least 0.8 times as fast as `sftp get`. If no cluster can be started,
nothing is measured and the exit status is 0.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._budgets import Budget, verdict
from benchmarks._slow_link import SlowLink
from labtui.domain.model import JobPhase
from labtui.session.session import Session
from tests.real_cluster import Cluster, ClusterSettings, Student, missing_requirements
from tests.real_cluster.cluster import wait_until
from tests.session.small_job import draft, make_lab

HEAD = (
    "#!/bin/bash\n#SBATCH --account={account}\n#SBATCH --qos=gp_training\n#SBATCH --time=00:20:00\n"
    "#SBATCH --output=%x.%j.out\n#SBATCH --error=%x.%j.err\n"
)
LINES = 60
LINE_BYTES_S, LINE_DELAY_S = 25e6, 0.015
"""A good home connection: 200 Mbit/s, 15 ms each way."""
AFAR_MB = 100


def ssh_words(student: Student, program: str = "ssh") -> list[str]:
    """The command line of OpenSSH's client for a login without questions."""
    port = "-P" if program == "sftp" else "-p"
    return [
        program, "-q", port, str(student.port), "-i", str(student.key), "-o", "IdentitiesOnly=yes",
        "-o", "BatchMode=yes",
        "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", f"{student.user}@{student.host}",
    ]  # fmt: skip


def submit(session: Session, student: Student, script: str) -> str:
    """Submit a job through labtui; return its token once it runs."""
    token = session.submit(
        draft(student.account), script=HEAD.format(account=student.account) + script
    ).result(60)
    session.watch_logs({token})

    def runs() -> bool:
        job = session.state.submissions[token].job
        return job is not None and job.phase in (JobPhase.RUNNING, JobPhase.FINISHED)

    wait_until(runs, what="the job to run", deadline_s=120)
    return token


def remote_path(session: Session, token: str) -> str:
    """The path of the job's log on the cluster."""
    item = session.state.submissions[token]
    return item.remote_logs["out"].replace("%j", item.job.job_id)


def delay_of_a_line(session: Session, student: Student) -> tuple[float, float, float]:
    """Seconds from a job's write to labtui's mirror (median, 95th percentile), and to `tail -F` over ssh (median)."""
    token = submit(
        session, student, f"sleep 3; for i in $(seq 1 {LINES}); do date +%s.%N; sleep 0.31; done; sleep 2\n"
    )
    tail = subprocess.Popen(
        [*ssh_words(student), f"tail ---disable-inotify -n +1 -F {remote_path(session, token)}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    theirs: list[float] = []

    def listen() -> None:
        for line in tail.stdout:
            theirs.append(time.time() - float(line))

    threading.Thread(target=listen, daemon=True).start()
    ours, seen = [], 0
    while len(ours) < LINES:
        path = session.log_path(token, "out")
        lines = path.read_bytes()[seen:].split(b"\n")[:-1] if path else []
        now = time.time()
        seen += sum(len(line) + 1 for line in lines)
        ours += [now - float(line) for line in lines]
        time.sleep(0.003)
    tail.kill()
    # Leave out the first lines, which were there before tail began.
    late = statistics.quantiles(ours[5:], n=20)[-1]
    return statistics.median(ours[5:]), late, statistics.median(theirs[5:])


def requests_a_minute(cluster: Cluster, session: Session, student: Student) -> tuple[float, float]:
    """Controller requests per minute with one running job and its log open, and those of `watch -n2 squeue --me`."""
    submit(session, student, "for i in $(seq 1 600); do echo $i; sleep 0.5; done\n")
    time.sleep(15)  # labtui asks more often about a job that has just begun
    before = cluster.student_requests()
    time.sleep(60)
    ours = cluster.student_requests() - before
    session.close()
    before = cluster.student_requests()
    watch = subprocess.Popen(
        [*ssh_words(student), "bash -lc 'for i in $(seq 1 10); do squeue --me; sleep 2; done'"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    watch.wait()
    theirs = (cluster.student_requests() - before) * 3.0
    return float(ours), theirs


def fetching(cluster: Cluster, session: Session, student: Student, megabytes: int) -> tuple[float, float]:
    """Seconds to fetch a large finished log: with labtui (mirrored and checked), and with `sftp get`."""
    line = "1234/5000 [=====>........] - ETA: 12s - loss: 2.1234 - accuracy: 0.2345 of a long progress bar"
    script = f"yes '{line}' | head -c {megabytes}000000 > big; cat big; rm big\n"
    hold = cluster.outside(f"{student.scratch}/hold-{time.time_ns()}")
    gate = str(hold)[str(hold).index("/gpfs") :]
    token = submit(session, student, f"while [ ! -e {gate} ]; do sleep 0.1; done\n{script}")
    session.close()  # labtui is not running while the log grows
    hold.touch()
    path = remote_path(session, token)
    wait_until(
        lambda: cluster.outside(path).exists() and cluster.outside(path).stat().st_size >= megabytes * 1_000_000,
        what="the large log", deadline_s=300,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [*ssh_words(student, "sftp")[:-1], "-b", "-", ssh_words(student)[-1]],
            input=f"get {path} {folder}/log\n", text=True, check=True, capture_output=True,
        )  # fmt: skip
        theirs = time.perf_counter() - began
    with Session.open(session.folder.path) as again:
        again.watch_logs({token})
        wait_until(lambda: again.state.connection.status == "online", what="a connection", deadline_s=60)
        began = time.perf_counter()
        wait_until(
            lambda: (found := again.log_path(token, "out")) is not None
            and found.stat().st_size >= megabytes * 1_000_000,
            what="the mirror", deadline_s=300,
        )  # fmt: skip
        ours = time.perf_counter() - began
    return ours, theirs


def report(what: str, ours: float, other: str, theirs: float, ratio: float) -> None:
    """Print a line of the table; the ratio is labtui's figure divided by the other's."""
    print(f"{what:<34} labtui {ours:9.2f}   {other:<17}{theirs:9.2f}   ratio {ratio:.2f}", flush=True)


def budgets(
    line_s: float, late_s: float, requests: float, fetching_ratio: float, afar_ratio: float
) -> list[Budget]:
    """The budgets for a line's median delay and 95th percentile in seconds, requests per minute, and fetching.

    The ratios are times of fetching divided by those of `sftp get`, on loopback and (`afar_ratio`) over a slow line.
    """
    return [
        Budget("a line on its way, median, ms", 1000 * line_s, 100.0),
        Budget("a line on its way, 95 of 100, ms", 1000 * late_s, 150.0),
        Budget("controller requests a minute, one job, open log", requests, 6.0),
        Budget("fetching a large log over a line, times `sftp get`", afar_ratio, 1 / 0.8),
        Budget("fetching a large log on loopback, times `sftp get`", fetching_ratio, 1 / 0.8),
    ]


def measure(cluster: Cluster, folder: Path, log_mb: int) -> list[Budget]:
    """Make all comparisons on one cluster and print each when it is done."""
    student = cluster.student

    def session(name: str, port: int = student.port) -> Session:
        opened = Session.open(make_lab(folder / name, student, port).path)
        wait_until(lambda: opened.state.connection.status == "online", what="a connection")
        return opened

    with session("line") as opened:
        line, late, theirs = delay_of_a_line(opened, student)
        report("a line on its way, median, ms", 1000 * line, "ssh tail -F", 1000 * theirs, line / theirs)
        print(f"  95 of 100 lines within {1000 * late:.0f} ms")
    requests, theirs = requests_a_minute(cluster, session("requests"), student)
    report("controller requests a minute", requests, "watch -n2 squeue", theirs, requests / theirs)
    cluster.cancel_all()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fetch, theirs = fetching(cluster, session("fetch"), student, log_mb)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report(f"fetching a log of {log_mb} MB, s", fetch, "sftp get", theirs, fetch / theirs)
    print(f"  peak memory {after / 1024:.0f} MB, {(after - before) / 1024:.0f} MB of it for the fetching")
    on_loopback = fetch / theirs
    afar = SlowLink((student.host, student.port), rate=LINE_BYTES_S, delay_s=LINE_DELAY_S)
    there = type(student)(**(vars(student) | {"port": afar.port}))
    fetch, theirs = fetching(cluster, session("afar", afar.port), there, AFAR_MB)
    afar.close()
    report(f"the same, {AFAR_MB} MB over a line, s", fetch, "sftp get", theirs, fetch / theirs)
    return budgets(line, late, requests, on_loopback, fetch / theirs)


def main() -> int:
    """Print the table; return 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log-mb", type=int, default=1000)
    options = parser.parse_args()
    if missing := missing_requirements():
        print(f"no cluster here: {'; '.join(missing)}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster.start(settings=ClusterSettings())
        try:
            promises = measure(cluster, Path(folder), options.log_mb)
        finally:
            cluster.down()
    return verdict(promises)


if __name__ == "__main__":
    sys.exit(main())
