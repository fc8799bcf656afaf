"""The lab without a screen, on a real OpenSSH and a real Slurm: init, submit, watch, results."""

import itertools
from pathlib import Path

import pytest

from labtui.session.session import Session
from tests.commands.conftest import init_arguments, remote_file
from tests.real_cluster import Cluster
from tests.real_cluster.cluster import wait_until

pytestmark = pytest.mark.cluster


def check_mirrors(cluster: Cluster, folder: Path, streams: tuple[str, ...] = ("out", "err", "gpu")) -> int:
    """Every mirror is its remote file, byte for byte; how many bytes that was."""
    total = 0
    with Session.open(folder, start=False) as session:
        for token, submission in session.state.submissions.items():
            for stream in streams:
                if stream not in submission.remote_logs:
                    continue
                mirror = session.log_path(token, stream)  # type: ignore[arg-type]
                assert mirror is not None, (token, stream)
                path = submission.remote_logs[stream].replace("%j", submission.job.job_id)
                remote = remote_file(cluster, path)
                assert mirror.read_bytes() == remote
                total += len(remote)
    return total


def test_three_runs_go_through_the_waiting_line(lab, cluster):
    """acc_debug takes one job per user: none of the three is ever refused in the student's face."""
    report = lab.json("submit", "10.5", "--form", "job-per-size", "--force", "a test", "--epochs", "2")
    assert [item["status"] for item in report["submissions"]] == ["accepted", "waiting", "waiting"]
    events = lab.lines("watch")
    assert not [event for event in events if event["type"] in ("error",) or event.get("status") == "refused"]
    assert [run["phase"] for run in events[-1]["runs"]] == ["done"] * 3
    queue = lab.json("queue", "--offline")["runs"]
    assert len({run["job"]["job_id"] for run in queue}) == 3
    starts = sorted((run["job"]["start_time"], run["job"]["end_time"]) for run in queue)
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(starts))
    assert check_mirrors(cluster, lab.folder, ("out", "err")) > 0
    assert [row["n_gpus"] for row in lab.json("results")["rows"]] == [1, 2, 4]


def test_a_failed_run_is_a_no_with_its_reason(lab):
    lab("submit", "10.5", "--gpus", "1", "--force", "a test", "--script-args=--fail")
    events = lab.lines("watch", code=1)
    ended = next(event for event in events if event["type"] == "run-ended")
    assert ended["outcome"] == "failed"
    missing = next(found for found in ended["diagnosis"] if found["kind"] == "missing-module")
    assert missing["text"] in lab("queue", "--offline").stdout
    assert lab.json("queue", "--offline")["runs"][0]["job"]["exit_code"] in (None, "1:0")


def test_cancel_a_running_and_a_waiting_run(lab, cluster):
    words = ("10.5", "--form", "job-per-size", "--gpus", "1,2", "--force", "a test")
    lab("submit", *words, "--script-args=--pace 30")
    said = lab("cancel", "2", "1").stderr
    assert "Slurm was asked to cancel run 1.\n" in said and "Run 2 was cancelled.\n" in said
    lab("watch", code=1)
    runs = lab.json("queue", "--offline")["runs"]
    assert [run["phase"] for run in runs] == ["cancelled", "cancelled"]
    assert [run["submission"]["status"] for run in runs] == ["accepted", "withdrawn"]
    assert "CANCELLED" in cluster.jobs().values()


def test_a_dry_run_shows_everything_and_sends_nothing(lab, cluster):
    before = cluster.jobs()
    report = lab.json("submit", "10.5", "--dry-run")
    (row,) = report["submissions"]
    assert row["script"].startswith("#!/bin/bash\n") and row["test_only"]["ok"]
    assert {"job.slurm", "ResNet50.py"} <= {item["path"] for item in row["files"]}
    assert [item["path"] for item in row["files"] if item["changed"]] == ["ResNet50.py", "ResNet50_seq.py"]
    assert cluster.jobs().keys() <= before.keys()  # Slurm forgets old jobs after a while
    assert lab.json("queue", "--offline")["runs"] == []
    written = [path for path in lab.folder.glob("slurm/**/*.slurm") if path.parent.name != "templates"]
    assert not written, "nothing here says that it was wanted"


def test_the_log_is_followed_to_its_end(lab, cluster):
    lab("submit", "10.5", "--gpus", "1", "--epochs", "10", "--force", "a test", "--script-args=--pace 0.3")
    followed = lab("log", "1", "--follow").stdout
    assert followed.count("loss:") == 10
    assert lab("log", "#1").stdout == followed
    assert check_mirrors(cluster, lab.folder, ("out",)) == len(followed.encode())


@pytest.mark.parametrize(
    ("name", "wrong", "says"), [("user", "nobody01", "accept"), ("host_key", f"SHA256:{'A' * 43}", "key")]
)
def test_a_wrong_connection_is_a_sentence_and_loses_nothing(labtui, student, cluster, name, wrong, says):
    before = cluster.jobs()
    labtui(*init_arguments(labtui, student, **{name: wrong}))
    refused = labtui("submit", "10.5", code=2)
    assert says in refused.stderr and "hint:" in refused.stderr
    assert cluster.jobs().keys() <= before.keys()  # Slurm forgets old jobs after a while
    assert len({run["submission"]["token"] for run in labtui.json("queue", "--offline")["runs"]}) == 1
    path = labtui.folder / "lab.toml"
    path.write_text(path.read_text().replace(wrong, getattr(student, name)))
    process = labtui.start("watch", "--json", "--trust")  # where it connects has changed
    sent = lambda: cluster.jobs().keys() - before.keys()  # noqa: E731
    wait_until(lambda: bool(sent()) or process.poll() is not None, what="the stored submission to be sent")
    process.kill()
    process.wait()
    assert len(sent()) == 1


def test_commands_beside_an_open_window_are_done_by_it(lab, cluster):
    with Session.open(lab.folder) as window:
        wait_until(lambda: window.state.connection.status == "online", what="the connection")
        words = ("10.5", "--gpus", "1", "--force", "a test", "--script-args=--pace 30")
        (sent,) = lab.json("submit", *words)["submissions"]
        assert sent["status"] == "accepted" and sent["job_id"] in cluster.jobs()
        assert sent["token"] in window.state.submissions
        lab("cancel", "1", "--after", "5")
        assert cluster.as_student("squeue --me -h -o %l").out.split() == ["5:00"]
        lab("cancel", "1")
    assert list(cluster.jobs().values()).count("CANCELLED") >= 1
