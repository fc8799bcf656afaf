"""`labtui repair`: the mirrors and job scripts bring back what the database lost."""

import sqlite3

import pytest

from labtui.domain.errors import FolderError, StoreError
from labtui.domain.model import RunPhase, SubmissionStatus
from labtui.session.folder import LabFolder
from labtui.session.opening import repair, stored_state
from labtui.session.own_jobs import own_draft
from labtui.session.preview import commands_of_draft
from labtui.session.store import backup_path
from tests.session.conftest import Bench, draft, submit_two_runs, submitted
from tests.session.scripted import keras_log


def finished(bench: Bench) -> None:
    """Two runs in one job, done; and one that waits for its slot."""
    submit_two_runs(bench)
    bench.cluster.write("100", keras_log(9, 8, 8, 8, 8) + keras_log(5, 4, 4, 4, 4, n_gpus=2, batch=512))
    bench.cluster.write("100", b"some words\n", "err")
    bench.cluster.write("100", b"timestamp, index\n", "gpu.csv")
    bench.cluster.end("100")
    bench.run(200, lambda: bench.session.state.runs[2].outcome is not None)


@pytest.mark.parametrize("damage", ["gone", "text", "emptied"])
def test_a_lost_database_is_rebuilt(open_bench, damage):
    first = open_bench()
    finished(first)
    before = first.session.state
    first.session.close()
    path = first.path / "labtui.db"
    assert not list(first.path.glob("*.part*")), "the backup leaves nothing beside it"
    backup_path(path).unlink()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"this is no database\n" * 999 if damage == "text" else b"")
    with pytest.raises(StoreError):
        stored_state(LabFolder(first.path))
    report = repair(LabFolder.open(first.path))
    assert (report.submissions, report.rebuilt, report.epochs) == (1, 1, 10)
    second = open_bench(first.cluster)
    old, new = ([(run.spec, run.epochs) for run in s.runs.values()] for s in (before, second.session.state))
    assert old == new
    (submission,) = second.session.state.submissions.values()
    assert submission.job.job_id == "100"
    assert submission.remote_logs == next(iter(before.submissions.values())).remote_logs
    second.run(200, lambda: second.session.state.runs[2].phase is RunPhase.DONE)
    assert second.cluster.count("submit") == 1, "a rebuilt submission is never sent again"


@pytest.mark.parametrize("there", [True, False])
def test_what_was_not_known_to_be_sent_is_looked_up_and_never_sent(open_bench, there):
    first = open_bench()
    if there:
        first.online()
        first.cluster.submit_then_cut = 1
    first.cluster.reachable = there
    first.session.submit(draft())
    first.run(20, (lambda: len(first.cluster.jobs) == 1) if there else None)
    first.session.close()
    backup_path(first.path / "labtui.db").unlink()
    (first.path / "labtui.db").write_bytes(b"nothing")
    assert repair(LabFolder.open(first.path)).rebuilt == 1
    first.cluster.reachable = True
    first.cluster.calls.clear()
    second = open_bench(first.cluster)
    (submission,) = second.session.state.submissions.values()
    assert submission.status is SubmissionStatus.UNKNOWN
    second.run(60)
    verbs = [verb for verb, _ in second.cluster.calls if verb in ("find_token", "submit")]
    assert verbs[0] == "find_token", "whatever it was, it is looked up first"
    (submission,) = second.session.state.submissions.values()
    assert len(second.cluster.jobs) == int(there) and "submit" not in verbs
    assert (submission.job is not None) == bool(second.cluster.jobs)
    if submission.job is None:
        assert submission.status is SubmissionStatus.WITHDRAWN
        assert "the cluster has no job of it" in submission.sentence
        assert "Submit the task again" in submission.hint


def test_what_happened_after_the_backup_comes_from_the_files_beside_it(open_bench):
    first = open_bench()
    finished(first)
    first.session.close()
    second = open_bench(first.cluster)
    second.session.submit(draft(qos="acc_debug"))
    second.session.submit(draft(qos="acc_debug"))
    second.run(20, lambda: len(second.cluster.jobs) == 2)
    second.settled(second.session.hold(4))
    before = second.session.state
    second.session.close()
    (first.path / "labtui.db").write_bytes(b"nothing")
    report = repair(LabFolder.open(first.path))
    assert (report.submissions, report.rebuilt, report.damaged) == (3, 2, True)
    after = open_bench(first.cluster).session.state
    assert [run.epochs for run in after.runs.values()] == [run.epochs for run in before.runs.values()]
    assert [item.job and item.job.job_id for item in after.submissions.values()] == ["100", "101", None]
    assert [item.held for item in after.submissions.values()] == [False, False, True]
    assert after.submissions.keys() == before.submissions.keys()


def test_a_dry_run_and_commands_by_hand_are_no_submissions(open_bench):
    first = open_bench()
    first.online()
    assert first.settled(first.session.test_only(draft()), 20).result().ok
    commands = commands_of_draft(first.session, draft())
    assert any("slurm/by-hand/" in lesson.text for lesson in commands)
    assert len(list((first.path / "slurm/by-hand").glob("*/job.slurm"))) == 1
    first.session.close()
    (first.path / "labtui.db").unlink()
    assert repair(LabFolder.open(first.path)).rebuilt == 0


def test_a_healthy_database_survives_repair_unchanged_and_a_row_whose_bytes_changed_is_damage(open_bench):
    first = open_bench()
    finished(first)
    before = first.session.state
    first.session.close()
    report = repair(LabFolder.open(first.path))
    assert report.rebuilt == 0
    second = open_bench(first.cluster)
    with pytest.raises(FolderError, match="open"):
        repair(LabFolder.open(first.path))
    assert second.session.state.runs == before.runs
    assert report.old_database is not None and report.old_database.exists()
    assert not report.damaged and report.old_database.name.startswith("labtui.db.old-")
    second.session.close()
    with sqlite3.connect(first.path / "labtui.db") as connection:
        connection.execute("UPDATE submissions SET data = replace(data, '10.5', '10.6')")
    connection.close()
    report = repair(LabFolder.open(first.path))
    assert report.damaged and report.old_database is not None
    assert report.old_database.name.startswith("labtui.db.damaged-")


def test_a_job_with_the_id_of_an_earlier_one_has_a_log_of_its_own_also_after_repair(bench):
    path = bench.path / "own.slurm"
    path.write_text("#!/bin/bash\n#SBATCH -q acc_training -t 30 -o own_%j.out\npython a.py --epochs 5\n")
    for seconds, first_try in ((8, b""), (3, b"one line\n" * 999)):  # the second job starts again
        token = submitted(bench, own_draft(bench.session, path))
        bench.run(20)
        assert all(run.token != token or not run.epochs for run in bench.session.state.runs.values())
        remote = bench.session.state.submissions[token].remote_logs["out"].replace("%j", "100")
        for data in (first_try, keras_log(9, *[seconds] * 4)):
            bench.cluster.contents[log := f"{bench.cluster.home()}/{remote}"] = data
            bench.cluster.mtimes[log] = bench.clock.wall()
            bench.cluster.start("100")
            bench.run(40)
        bench.cluster.end("100")
        bench.run(200)
        bench.cluster.jobs.clear()
    bench.session.close()
    (bench.path / "logs/own_100.restart7.out").write_bytes(keras_log(2, 2, 2, 2, 2))
    for name in ("logs/own_100.restart1.out", "labtui.db.backup", "labtui.db"):
        (bench.path / name).unlink()
    assert repair(LabFolder.open(bench.path)).epochs == 10
    runs = stored_state(LabFolder(bench.path)).runs.values()
    assert [run.epochs[1].printed_seconds for run in runs if run.epochs] == [8, 3]
