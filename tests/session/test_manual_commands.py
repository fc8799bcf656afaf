"""The plain commands of drafts, runs and verbs: from the files that are meant, to the place that is meant."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from labtui.domain.errors import UsageError
from labtui.domain.model import SubmissionStatus
from labtui.domain.profile import Profile
from labtui.session.manual_commands import (
    ManualCommands,
    address_of,
    commands_of_cancel,
    commands_of_draft,
    commands_of_push,
    commands_of_submission,
)
from labtui.session.settings import changed, write_settings
from labtui.slurm.job_control import log_path
from tests.session.conftest import Bench, draft, only


def by_action(commands: tuple[ManualCommands, ...]) -> dict[str, tuple[str, ...]]:
    return {item.action: item.commands for item in commands}


def waiting(bench: Bench) -> str:
    """The token of a submission that the line has not sent yet."""
    bench.session.submit(draft())
    (token,) = bench.session.state.submissions
    return token


def test_an_edited_job_script_is_the_one_that_is_copied(bench: Bench) -> None:
    commands = by_action(commands_of_draft(bench.session, draft(), "#!/bin/bash\r\necho mine\r\n"))
    copied = shlex.split(commands["push"][1])[-2]
    assert (bench.path / copied).read_bytes() == b"#!/bin/bash\necho mine\n"


def test_a_waiting_run_is_sent_by_hand_from_its_own_files(bench: Bench) -> None:
    token = waiting(bench)
    item = bench.session.state.submissions[token]
    commands = by_action(commands_of_submission(bench.session, item))
    assert list(commands) == ["log-in", "push", "test", "submit", "queue", "push-scripts"]
    assert shlex.split(commands["push"][1])[-3:] == [
        "scripts/.",
        item.script_file,
        f"login1:{item.remote_dir}/",
    ]
    assert item.remote_dir in commands["push"][0]
    assert "twice" in next(
        one.sentence for one in commands_of_submission(bench.session, item) if one.action == "submit"
    )
    (bench.path / "scripts/ResNet50.py").write_text("edited since\n")
    commands = by_action(commands_of_submission(bench.session, item))
    place, there = shlex.split(commands["push"][1])[-2:]
    assert there == f"login1:{item.remote_dir}/"
    folder = bench.path / place
    assert {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    } == bench.session.files_of(token)
    assert "job.slurm" in commands["submit"][0]


def test_a_limit_set_before_the_job_was_sent_is_told_to_sbatch(bench: Bench) -> None:
    token = waiting(bench)
    future = bench.session.end_after(1, 7)
    bench.step()
    assert future.done()
    item = bench.session.state.submissions[token]
    assert "--time=7" in by_action(commands_of_submission(bench.session, item))["submit"][0]


def test_what_may_have_reached_slurm_is_looked_for_and_not_sent_again(bench: Bench) -> None:
    bench.online()
    bench.cluster.submit_then_cut = 1
    token = waiting(bench)
    bench.run(5, lambda: bench.session.state.submissions[token].status is SubmissionStatus.UNKNOWN)
    item = bench.session.state.submissions[token]
    commands = by_action(commands_of_submission(bench.session, item))
    assert list(commands) == ["log-in", "queue", "accounting", "push-scripts"]
    assert f"--name={item.job_name}" in commands["accounting"][0]
    assert commands_of_cancel(bench.session, item) == ()


def test_a_job_is_followed_and_ended_by_its_number(bench: Bench) -> None:
    bench.online()
    token = waiting(bench)
    bench.run(20, lambda: bench.session.state.submissions[token].job is not None)
    item = bench.session.state.submissions[token]
    commands = by_action(commands_of_submission(bench.session, item))
    assert list(commands) == [
        "log-in", "queue", "log", "cancel", "end-after", "accounting", "results", "push-scripts",
    ]  # fmt: skip
    assert "scancel 100" in by_action(commands_of_cancel(bench.session, item))["cancel"][0]
    assert "TimeLimit=9" in by_action(commands_of_cancel(bench.session, item, 9))["end-after"][0]
    assert f"{item.job_name}.100.out" in commands["log"][0] and "-j 100" in commands["accounting"][0]


def test_nothing_but_words_comes_of_asking_for_the_commands(bench: Bench) -> None:
    bench.online()
    calls = len(bench.cluster.calls)
    commands_of_submission(bench.session, None)
    (push,) = commands_of_push(bench.session)
    assert push.commands[1] == "scp -r -- scripts/. login1:labtui/hpc4ai-ch10/scripts/"
    assert len(bench.cluster.calls) == calls
    assert not bench.session.state.submissions


def test_a_shared_directory_that_cannot_be_told_is_said_where_it_is_asked_for(bench: Bench) -> None:
    session = bench.session
    session.settings = changed(session.settings, root="/gpfs/{account}/x")
    session.profile = msgspec.structs.replace(session.profile, default_account="")
    with pytest.raises(UsageError, match="account"):
        commands_of_push(session)
    assert list(by_action(commands_of_submission(session, None))) == ["log-in", "queue"]


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "transfer1.bsc.es"),
        ({"host": "alogin2.bsc.es"}, "transfer1.bsc.es"),
        ({"host": "my-alias"}, ""),
        ({"host": "alogin1.bsc.es", "port": 2222}, ""),
    ],
)
def test_copies_go_to_the_sites_own_host_only_where_the_site_is_meant(
    bench: Bench, settings: dict[str, object], host: str
) -> None:
    session = bench.session
    write_settings(session.folder.settings_path, changed(session.settings, profile="mn5", **settings))
    from labtui.session.session import Session

    bench.session.close()
    with Session.open(bench.path, start=False) as opened:
        assert address_of(opened).data_host == host


def test_a_profile_without_hosts_for_copies_has_none() -> None:
    assert Profile(id="p", title="p", login_hosts=("a",)).data_host("a") == ""


@pytest.mark.parametrize(
    ("pattern", "name"), [("logs/%x-%A.out", "logs/train-100.out"), ("%5j_%x.log", "00100_train.log")]
)
def test_the_commands_name_the_log_that_labtui_follows(bench: Bench, pattern: str, name: str) -> None:
    job_file = bench.session.folder.slurm / "train.slurm"
    job_file.write_text(f"#!/bin/bash\n#SBATCH -J train -o {pattern} -t 5\npython ResNet50.py --epochs 5\n")
    bench.online()
    sent = bench.session.submit(bench.session.own_draft(job_file))
    bench.run(20, sent.done)
    submission = only(bench)
    assert log_path(submission, "out") == f"{submission.remote_dir}/{name}"
    (command,) = by_action(commands_of_submission(bench.session, submission))["log"]
    assert f"{submission.remote_dir}/{name}" in command
