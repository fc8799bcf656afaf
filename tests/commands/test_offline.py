"""The commands without any cluster: wrong use, empty folders, questions that must not be asked."""

import argparse
import io
import json
import re
import sys
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from labtui.cluster.target import LoginQuestion
from labtui.commands import follow, jobs, terminal
from labtui.commands.cli import main
from labtui.commands.job_files import runs_in_words
from labtui.commands.submit import _settled, exit_code
from labtui.domain.errors import ConnectionLost
from labtui.domain.model import Diagnosis, EpochSample, Interval, JobPhase, SubmissionDraft, SubmissionStatus
from labtui.domain.run import WHAT_COUNTS
from labtui.domain.state import ConnectionState, LabState, LogState
from labtui.session.planning import retry_after
from tests import changes
from tests.changes import after, ended
from tests.commands.conftest import answer_of
from tests.conftest import TextTerminal
from tests.tui.fed_session import finished_run, live_run, observed, open_session, planned, spec, write_log

DRY = ["--dry-run", "--offline"]


def test_an_empty_folder_answers_every_reading_verb(folder, command):
    assert '"runs": []' in command(["--trust", "--folder", str(folder.path), "queue", "--json"]).out
    lines = command(["watch", "--json"]).out.splitlines()
    assert [line.split('"')[3] for line in lines] == ["snapshot", "end"]
    assert "no run has been submitted yet" in command(["watch"]).err
    for words in (["log", "7"], ["cancel", "7"], ["hold", "7"]):
        assert "run 7 in this lab folder.\n  hint: `labtui queue` lists them; for" in command(words, 2).err
    assert "runs on one GPU and on more" in command(["why"], 1).err
    captured = command(["repair"])
    assert "epochs: 0" in captured.out and "labtui.db.old-" in captured.err and "No damage" in captured.err
    (folder.path / "lab.toml").write_text("edition = [")
    assert "(at the end: a value, quote or bracket is missing)." in command(["results"], 1).err
    assert command(["parse", "none.out"], 2).out == ""


@pytest.mark.parametrize(("arguments", "said"), [
    ("init new --lab hpc4ai-ch10 --cluster mn5 --host-key SHA256:a", "Argument --host-key: 'SHA256:a' is not"),
    ("submit 10.5 --epochs 10001", "Argument --epochs: 10,001 is more than 10,000."),
    ("watch --jsn", "Unrecognized arguments: --jsn. Did you mean `--json`?"),
    ("5b", "5b is neither a command of labtui nor a lab folder.\n  hint: For a task: `labtui check 5b`"),
    ("export --out lab.toml/x", "lab.toml/x cannot be written: "), ("key --cluster practice", "A practice lab needs"),
    ("export --only-plots", "Unrecognized"), ("stauts", "labtui has no command 'stauts'.\n  hint: Did you mean `lab"),
    ("completion fsh", "Argument shell: 'fsh' is not one of bash, zsh, fish. Did you mean 'fish'?"),
    ("init new --lab hpc4ai-ch1", "There is no lab 'hpc4ai-ch1'.\n  hint: Known labs: "), ("log", "RUN is missing."),
    ("submit 10.5 --gpus 9", "Task 10.5 plans no run on 9 GPUs."), ("submit 10.5 --script-args='x", "A quote in"),
    ("submit 10.5 --time 500", "A limit of 500 min is more than the 120 min that acc_debug allows."),
    ("submit 10.7", "Task 10.7 compares the runs of 10.5 and 10.6.\n  hint: `labtui submit 10.5` submits those"),
    ("labs --folder x", "Unrecognized arguments: --folder."), ("doctor --folder no", "There is no lab folder in"),
    ("submit 10", "hpc4ai-ch10 has no task '10'.\n  hint: Did you mean 10.1 to 10.7? It has"), ("--folder a", "a is n"),
    ("practice --factor x", "Argument --factor: 'x' is not a number."), ("submit 10.5 --gpus x", ""),
    ("submit 10.5 --gpus 1 --control independent --dry-run --offline", "No run of this plan has such a control"),
    ("results 10.8b", "hpc4ai-ch10 has no task '10.8b'."), ("plot 10.5", "plots/ has the charts of all tasks"),
    ("init new --python venv/bin/python3", "Argument --python: 'venv/bin/python3' is not an absolute path"),
    ("init new --lab hpc4ai-ch10 --cluster mn5 --container my.sif", "That is not valid: the container 'my.sif'"),
])  # fmt: skip
def test_a_task_or_choice_that_is_not_there_is_a_sentence(folder, command, arguments, said):
    err = command(arguments.split(), 2).err
    assert f"labtui: {said}" in err and "hint: " in err


@pytest.mark.parametrize("option", [(), ("--offline",)])
def test_a_dry_run_without_network_shows_the_files_and_whether_the_cluster_was_asked(folder, command, option):
    captured = command(["submit", "10.5", "--gpus=2", "--epochs=1", "--dry-run", *option], 0 if option else 2)
    assert all(word in captured.out for word in ("# file ResNet50.py", "0:39 to 3:18 min", "--job-name="))
    assert ("Not checked on the cluster." in captured.err) is (option == ())


def test_what_was_submitted_without_network_waits_and_can_be_taken_back(folder, command, monkeypatch):
    err = command(["submit", "10.5"], 2).err
    assert "Submitting 3 runs in 1 job for task 10.5 ...\n" in err
    assert "Not sent yet: 1 job; `labtui` or `labtui watch` sends what waits." in err
    assert "Runs 1 to 3 are held.\n" in command(["hold", "2"]).err
    assert "waiting (held)" in command(["queue"]).out
    command(["release", "1"])
    for words in (["queue"], ["log", "1", "--follow"]):  # which only show
        said = command(words, words[0] == "log")
        assert "`labtui watch` or `labtui` sends it." in said.out + said.err
    with monkeypatch.context() as patched:
        patched.setattr(terminal, "SLURM_ANSWER_S", 0)
        patched.setattr("labtui.session.session.Session.cancel", lambda *_: Future())
        assert "did not answer in time.\n  hint: Slurm may be busy" in command(["cancel", "1", "2"], 2).err
    assert "Runs 1, 2 were cancelled (and 3, in the same job).\n" in command(["cancel", "1", "2"]).err
    for word in ("cancel", "hold", "release"):  # one situation, one exit code
        assert command([word, "1"], 1).err == f"Run 1 is already over: there is nothing to {word}.\n"
    assert "Run 1 has no log. Withdrawn before it was sent.\n" in command(["log", "1"], 1).err
    assert "Nothing to watch: every run is over" in command(["watch"]).err


def test_a_run_that_is_over_is_not_cancelled_with_the_rest_of_its_job(folder, command, monkeypatch):
    with open_session(folder.path, start=False) as session:
        session.feed(changes.planned("lt1", {1: spec(), 2: spec(gpus=2)}), changes.accepted("lt1", "7"))
    waits = "Run 1 has no log. Its job waits in the queue.\n"
    assert waits in command(["log", "1"], 1).err
    with monkeypatch.context() as patched:
        patched.setattr("labtui.session.session.Session.start", lambda _session: None)
        patched.setattr(terminal.OpenLab, "updates", lambda *_, **__: iter(()))
        assert command(["log", "1", "-f"], 1).err.count(waits) == 2, "before it waits, and at the end"
    with open_session(folder.path, start=False) as session:
        session.feed(observed("lt1", "7", JobPhase.RUNNING), changes.ended(1, "completed"))
    assert "Run 1 is already over: there is nothing to cancel.\n" in command(["cancel", "1"], 1).err
    with open_session(folder.path, start=False) as session:
        session.feed(changes.ended(2, "completed"))
    assert "scancel 7" in command(["cancel", "1", "--show-commands"]).out, "the job hangs"


def test_only_missing_runs_are_sent_and_all_again_where_that_is_said(folder, capsys, command, monkeypatch):
    dry_run = ["submit", "10.5", "--dry-run", "--offline", "--json"]
    with open_session(folder.path, start=False) as session:
        one = replace(session.drafts("10.5")[0].runs[0], launcher="srun-python")  # counts all the same
        session._journal.change(*finished_run("lt1", "10.5", 1, one, "7"))

    def sizes(*more: str) -> list[int]:
        rows = json.loads(command([*dry_run, *more]).out)["submissions"]
        return [run["n_gpus"] for row in rows for run in row["runs"]]

    assert sizes() == [2, 4] and sizes("--again") == [1, 2, 4] and sizes("--epochs", "9") == [1, 2, 4]
    assert main(["submit", "10.5"]) == 2, "there is no cluster"
    assert "ResNet50 · 1 GPU: run 1 is done.\n" in capsys.readouterr().err
    err = command(dry_run, 1).err
    assert "ResNet50 · 4 GPUs: run 3 is waiting.\n" in err and "hint: --again" in err
    assert "hint: `labtui submit 10.6` submits those" in command(["submit", "10.7"], 2).err
    command(["submit", "10.6"], 2)
    assert "are done or under way.\n  hint: `labtui watch` follows" in command(["submit", "10.7"], 2).err
    shows = ["submit", "10.5", "--show-commands"]
    for arguments, answer, code in ((shows, "y", 0), (shows, "n", 1), (dry_run, "y", 1)):
        monkeypatch.setattr(sys, "stdin", TextTerminal(f"{answer}\n"))
        assert main(arguments) == code, "a dry run asks nothing"
    with open_session(folder.path, start=False) as session:
        token, over = session.state.runs[3].token, {"slurm_state": "TIMEOUT"}
        session.feed(changes.accepted(token, "9"), observed(token, "9", JobPhase.SETTLING, **over))
    capsys.readouterr()
    assert 4 in sizes(), "it is missing already while its log is being copied"


def test_submit_warns_of_a_batch_as_the_plan_does(folder, command, monkeypatch):
    words = ["submit", "10.5", "--gpus", "2", "--batch-size", "4096", "--again"]
    monkeypatch.setattr(sys, "stdin", TextTerminal("n\n"))
    with open_session(folder.path, start=False) as session:
        one, two, _ = (run for draft in session.drafts("10.5") for run in draft.runs)
        large = replace(two, batch_size=2 * 4096, epochs=0)
        session._journal.change(*finished_run("lt1", "10.5", 1, one, "7"))
        session._journal.change(*finished_run("lt2", "10.5", 2, large, "8", outcome="oom"))
    for err in (command([*words, *DRY]).err, command(words, 1).err):
        assert "warning: ResNet50: batches of 2,048 and 4,096 per GPU; only runs with the same can" in err
        assert "warning: ResNet50: a batch of 4,096 per GPU does not fit into memory." in err
    with open_session(folder.path, start=False) as session:
        session._journal.change(*finished_run("lt3", "10.5", 3, replace(large, epochs=2), "9"))
    assert "Nothing was submitted." in err and "fit" not in command([*words, *DRY]).err


def test_jobs_of_one_name_are_told_apart_by_their_options():
    runs = tuple(replace(spec(), extra_args=("--lr_policy", policy)) for policy in ("naive", "linear"))
    draft = SubmissionDraft(task_id="2", form="one-gpu", job_name="", runs=runs)
    assert [text.rpartition(", ")[2] for text in runs_in_words(draft, {}).split("; ")] == ["naive", "linear"]


def test_a_run_is_not_sent_again_while_the_same_is_under_way(folder, command):
    with open_session(folder.path, start=False) as session:
        one = session.drafts("10.5")[0].runs[0]
        session._journal.change(*finished_run("lt1", "10.5", 1, one, "7", outcome="failed"))
    again = ["retry", "1", "--dry-run", "--offline"]
    assert main(again) == 0
    with open_session(folder.path, start=False) as session:
        session._journal.change(planned("lt2", "10.5", 2, one))
    assert "same, and is waiting.\n  hint: Cancel it first: `labtui cancel 2`" in command(again, 2).err


def test_what_is_done_or_died_of_an_unknown_option_is_not_sent_again_unasked(folder, command, monkeypatch):
    with open_session(folder.path, start=False) as session:
        one = replace(session.drafts("10.5")[0].runs[0], extra_args=("--foo", "bar"))
        session._journal.change(*finished_run("lt1", "10.5", 1, one, "7", outcome="failed"))
        session._journal.change(*finished_run("lt2", "10.5", 2, replace(one, extra_args=()), "8"))
    assert "Run 2 is done. Nothing was submitted.\n  hint: --again" in command(["retry", "2"], 1).err
    err = command(["retry", "1"], 1).err
    assert "ResNet50.py has no option --foo: it ends at once. It has --batch_size, --control," in err
    assert "Nothing was submitted. Correct scripts/ or lab.toml" in err
    with monkeypatch.context() as patch:
        patch.setattr("labtui.domain.profile.Profile.node_gpus", 0)
        err = command(["submit", "10.5", "--again"], 1).err
        assert "expected time not known" in err and "No change of the plan helps here; to send" in err, err
    with open_session(folder.path, start=False) as session:
        session._journal.change(*finished_run("lt3", "10.5", 3, one, "9"))
    assert "Run 3 is the same again, and is done. Nothing was" in command(["retry", "1"], 1).err
    with terminal.OpenLab(SimpleNamespace(folder=folder.path, trust=False)) as lab:
        account = (draft := lab.session.drafts("10.5")[0]).account
        lab.session.note_paths({draft.data_dir: False})
    assert f"Correct the account {account} in lab.toml (see `la" in command(["submit", "10.4"], 1).err
    assert "Correct --script-args, or" in command(["submit", "10.5", "--script-args=--foo bar"], 1).err


def test_the_log_of_a_failed_run_says_where_its_error_stands(folder, capsys, command):
    found = Diagnosis(kind="missing-module", line=3, text="No module named 'x'", advice=".", stream="err")
    with open_session(folder.path, start=False) as session:
        session._journal.change(*finished_run("lt1", "10.5", 1, spec(), "7"), ended(1, "failed", (found,)))
        write_log(session, "lt1", "Hello\n")
        write_log(session, "lt1", "", "err")
        read = lambda state: state.with_log("lt2", "out", LogState(complete=True))  # noqa: E731
        lost = observed("lt2", "8", JobPhase.FINISHED, slurm_state="FAILED", reason="BadConstraints")
        session._journal.change(*finished_run("lt2", "10.5", 2, spec(), "8"), ended(2, "failed"), lost, read)
        write_log(session, "lt2", "Killed\n", "err")
        quiet = lambda state: state.with_log("lt3", "err", LogState(complete=True))  # noqa: E731
        session._journal.change(*finished_run("lt3", "10.5", 3, spec(), "9"), quiet)
    assert "Run 3 wrote nothing to its error file." in command(["log", "3", "--err"], 1).err
    assert main(["log", "1"]) == 0
    told = "Run 1 failed: No module named 'x' (line 3 of standard error; `labtui log 1 --err` prints it).\n"
    err = capsys.readouterr().err
    assert told in err and "The end of the log was not checked yet" in err and "may have grown" not in err
    assert main(["log", "1", "--gpu", "-f"]) == 1  # and ends at once
    assert "Run 1 writes no such file." in capsys.readouterr().err
    assert "(line 3 of standard error).\n" in command(["log", "1", "--err"]).err
    told = "nothing: it failed. No node can ever give what it asks for. `labtui log 2 --err` prints"
    assert told in command(["log", "2"], 1).err


def test_a_placeholder_account_and_what_else_is_wrong_is_told(tmp_path, monkeypatch, command):
    made, words = tmp_path / "lab", ["--lab", "hpc4ai-ch10", "--cluster", "mn5", "--user", "nct01001"]
    err = command(["init", str(made), *words, "--account", "nct_NNN"]).err
    assert "nct_NNN" in err and "`account`" in err and "lab.toml" in err
    wrong = ("--user", "bad user", "--account", "bad account", "--identity", "/gone/key")
    err = command(["init", f"{made}-2", *words, *wrong, "--data-dir", "data"]).err
    assert "data is looked for in your home: " in err and "You log in" not in err
    assert all(word in err for word in ("'bad user' is", "'bad account' cannot", "/gone/key does not exist"))
    monkeypatch.chdir(made)
    shown = command(["submit", "10.5", *DRY], 1).out.splitlines()
    (finding,) = [line for line in shown if ": error: " in line]
    assert "nct_NNN stands for your account: set `account` in lab.toml." in finding


def test_nothing_is_asked_when_stdin_is_no_terminal_and_a_question_is_wrapped(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\nsecret\n"))
    prompter = terminal.TerminalPrompter()
    for kind in ("password", "passphrase", "code", "host-key"):
        assert prompter(LoginQuestion(kind=kind, text="Password:\x1b]0;x\x07", host="h")) is None
    assert "\x1b" not in prompter.unasked
    monkeypatch.setattr(terminal, "window_width", lambda _stream: 40)
    assert terminal.read_line("The host's key is new. Is this fingerprint correct?") == "yes"
    assert capsys.readouterr().err == "The host's key is new. Is this\n  fingerprint correct? "


def test_the_command_line_of_the_readme_works_in_a_process_of_its_own(labtui):
    words = ("--lab", "hpc4ai-ch10", "--cluster", "mn5", "--account", "nct_345")
    done = labtui("init", str(labtui.folder), *words)
    assert done.stdout.strip() == str(labtui.folder) and "You log in as" in done.stderr
    assert 'account = "nct_345"' in (labtui.folder / "lab.toml").read_text() and "Next:" in done.stderr


def test_the_queue_says_that_a_limit_comes_before_the_end(folder, capsys, command):
    now = time.time()
    with open_session(folder.path, start=False) as session:
        times = {"elapsed_s": 93.0, "time_limit_s": 150.0, "start_time": now - 93}
        tight = observed("lt1", "7", JobPhase.RUNNING, now, **times)
        session._journal.change(*live_run("lt1", "10.5", 1, spec(epochs=20), "7", 3), tight)
    assert "its time limit will end it in epoch 5 of 20 or later." in command(["queue", "--offline"]).out
    (row,) = answer_of(capsys, "queue", "--offline")["runs"]
    assert row["limit_warning"].endswith("of 20 or later.") and row["job"]["time_limit_s"] == 150.0
    with open_session(folder.path, start=False) as session:
        waits = observed("lt1", "7", JobPhase.QUEUED, now, reason="Resources")
        session._journal.change(waits, lambda state: state.with_submission("lt1", cancelling=True))
    assert not {"pace", "line"} & set(command(["queue", "--offline"]).out.split())


def test_the_queue_advises_nothing_on_the_reason_of_a_job_that_has_ended(folder, command):
    killed = Diagnosis(kind="process-lost", line=9, text="/a/b.sh: Killed", advice="Killed: by you. Look.")
    scaled = replace(spec("=SUM(A1)[red]", 2), extra_args=("--lr_policy", "linear"))
    with open_session(folder.path, start=False) as session:
        session._journal.change(
            *live_run("lt1", "10.5", 1, spec(), "7", 0), ended(1, "failed", (killed,)),
            observed("lt1", "7", JobPhase.FINISHED, slurm_state="FAILED", reason="BadConstraints"),
            *finished_run("lt2", "10.5", 2, scaled, "9"),
            observed("lt2", "9", JobPhase.FINISHED, slurm_state="FAILED", reason="NonZeroExitCode"),
        )  # fmt: skip
    out = command(["queue", "--offline"]).out
    assert "failed" in out and "Cancel it" not in out and "Killed: by you.\n" in out and "b.sh" not in out
    assert "done" in out and "NonZeroExitCode" not in out and "[red], linear " in out and "4,096" not in out
    heads, *rows = out.splitlines()
    assert {row.index(job) for row, job in zip(rows, "79", strict=True)} == {heads.index("job")}


def test_the_queue_and_watch_say_that_no_time_was_read(folder, command):
    with open_session(folder.path, start=False) as session:
        before = session.state
        session._journal.change(*live_run("lt1", "10.5", 1, spec(), "7", 0), ended(1, "completed"))
        *_, (row, _, told) = follow.news_of(before, session.state, {})
    assert row["run"] == 1 and " done; no epoch time was read (see" in told[0], "the name that a snapshot has"
    assert "no epoch time was read" in command(["queue", "--offline"]).out


def test_what_a_row_and_its_remark_continue_has_one_indent(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "window_width", lambda: 30)
    terminal.print_table(
        [["run", "note"], ["1", "a word " * 6], ["10", "a word " * 6]], {"run"}, ["", "so it is " * 5]
    )
    lines = capsys.readouterr().out.splitlines()[2:]
    assert {len(line) - len(line.lstrip()) for line in lines if line.lstrip()[0] in "aswi"} == {5}, lines


@pytest.mark.parametrize(("asked", "lines"), [(True, 1), (False, 3)])
def test_watch_does_not_explain_a_cancel_that_was_asked_for(folder, asked, lines):
    found = Diagnosis(kind="cancelled", line=3, text="slurmstepd: CANCELLED AT", advice="Submit it again.")
    rate = EpochSample(epoch=2, seconds=Interval.exact(5), metrics={"images_per_second": 100.94})
    with open_session(folder.path, start=False) as session:
        before = session.state
        session._journal.change(*live_run("lt1", "10.5", 1, spec(), "7", 0), changes.epoch(1, rate))
        session._journal.change(lambda state: state.with_submission("lt1", cancelling=asked))
        session._journal.change(ended(1, "cancelled", (found,)))
        *_, (_, _, epoch), (_, _, told) = follow.news_of(before, session.state, {})
    assert epoch[0].endswith("images/s 100.9") and len(told) == lines and told[0].endswith("cancelled")


def test_the_queue_and_check_say_of_a_run_what_the_screens_say(folder, command):
    found = Diagnosis(kind="node-lost", line=0, text="Job 7 ended.", advice="Submit it again.")
    refused = SubmissionStatus.REFUSED
    with open_session(folder.path, start=False) as session:
        session._journal.change(
            *live_run("lt1", "10.5", 1, spec(), "7", 1), ended(1, "failed", (found,)),
            *live_run("lt2", "10.5", 2, spec(gpus=2), "8", 0), ended(2, "oom", (replace(found, kind="oom"),)),
            *live_run("lt3", "10.5", 3, spec(gpus=4), "9", 1),
            observed("lt3", "9", JobPhase.FINISHED, slurm_state="TIMEOUT"),
            *finished_run("lt4", "10.3", 4, spec(gpus=0), "10"),
            *live_run("lt5", "10.3", 5, spec(gpus=0), "11", 1), ended(5, "failed", (found,)),
            *live_run("lt6", "10.4", 6, spec(batch=256), "12", 1), ended(6, "time-limit"),
            lambda state: state.with_runs([replace(state.runs[6], practice=True)]),  # its log has that mark
            *live_run("lt7", "10.4", 7, spec(batch=256), "13", 1), ended(7, "time-limit"),
            lambda state: state.with_runs([replace(state.runs[7], device="cpu")]),
            changes.planned("lt8", {8: spec(), 9: spec(gpus=2)}),
            lambda state: state.with_submission("lt8", status=refused, sentence="No.", hint="Mend it."),
        )  # fmt: skip
        assert all(WHAT_COUNTS in retry_after(session, number).sentence for number in (6, 7))
    shown = command(["queue", "--offline"]).out.splitlines()[1:]
    node, advice, memory, limit, _, _, none, *small, eighth, ninth, hint = shown
    assert eighth.endswith("No.") and ninth.endswith("No.") and hint.strip() == "Mend it.", "once"
    assert len(small) == 2 and all(row.endswith(WHAT_COUNTS) for row in small)
    assert WHAT_COUNTS in command(["check", "10.4"], 1).out
    assert none.strip() == "The task needs no other run.", "nor an advice to submit it again"
    assert "failed: node failure" in node and advice.strip() == found.advice
    assert "`labtui retry 2` plans a smaller" in memory and "`labtui retry 3` plans more time" in limit
    shown = command(["check", "10.5"], 1).out
    assert shown.startswith("✘ 10.5   failed ") and "run 2 ran out of memory." in shown
    with open_session(folder.path, start=False) as session:
        session._journal.change(*finished_run("lt9", "10.5", 10, spec(gpus=2), "14"))
    rows = command(["queue", "--offline"]).out.splitlines()
    assert "Run 10 is the same again, and is done." in rows[rows.index(ninth) + 1]


def test_what_led_to_the_end_is_told_before_the_end(folder, monkeypatch):
    """The session's state may be ahead of its updates: a command must not leave before it heard the last of them."""
    with terminal.OpenLab(argparse.Namespace(folder=str(folder.path), trust=False)) as lab:
        lab.session._journal.change(*finished_run("lt1", "10.5", 1, spec(), "7"))
        states = list(lab.updates(lambda state: state.runs[1].outcome is not None, limit_s=240))
        online = {"connection": ConnectionState(status="online")}
        begun = changes.status("lt2", SubmissionStatus.SENDING), lambda state: replace(state, **online)
        lab.session._journal.change(planned("lt2", "10.5", 2, spec()), *begun)
        answers = [changes.accepted("lt2", "8")]
        answered = lambda *_: (answers and lab.session._journal.change(answers.pop())) or lab.state  # noqa: E731
        monkeypatch.setattr(lab.session, "next_state", answered)
    assert states[-1].runs[1].outcome == "completed"
    assert lab.state.submissions["lt2"].job is not None, "a command ends after Slurm's answer"


def test_a_session_that_has_not_tried_yet_has_a_line_and_cancel_names_the_runs_that_were_not_over():
    told = "connecting", "online", "stale", "needs-login", "offline"
    tried = [ConnectionState(status=each, sentence="So it is.").tried for each in told]
    assert tried == [False, True, True, True, True] and not ConnectionState().tried
    job = changes.planned("lt1", {number: spec() for number in (28, 29, 30, 31, 32)})
    state = after(job, ended(28, "completed"), ended(29, "failed"))
    assert jobs.also_ended_text(state, state.submissions["lt1"], [30]) == " (and 31, 32, in the same job)"


@pytest.mark.parametrize(("statuses", "broken", "code"), [
    ({"accepted"}, False, 0), ({"accepted"}, True, 0),  # what the connection did after Slurm's answer is no failure
    ({"accepted", "refused"}, True, 1), ({"accepted", "unknown"}, True, 2),
    ({"waiting"}, True, 2), ({"waiting"}, False, 0),
])  # fmt: skip
def test_submits_exit_code_is_what_slurm_answered(statuses, broken, code):
    trouble = ConnectionLost("It broke.") if broken else None
    assert exit_code(statuses, trouble, elsewhere=False) == code
    sent = {"waiting"} == statuses  # by the process that has the folder open
    assert exit_code(statuses, trouble, elsewhere=True) == (0 if sent else code)


@pytest.mark.parametrize("queue", [{"qos": "debug"}, {"qos": "", "partition": "debug"}])
def test_submit_does_not_wait_for_a_queue_that_refused_lately(folder, queue):
    sentence = "The queue takes no more of your jobs now."
    state = planned("lt01", "10.4", 1, spec(), sentence=sentence, **queue)(LabState())
    with open_session(folder.path, start=False) as session:
        lab = SimpleNamespace(session=session, check_connection=lambda patient: None)
        assert _settled(lab, state, ["lt01"], wait=False) and not _settled(lab, state, ["lt01"], wait=True)


@pytest.mark.parametrize(("folder", "control", "sizes"), [
    (False, "independent", {2, 4}), (False, "one-batch", {1, 2, 4}), (True, "one-batch", set()),
], indirect=["folder"])  # fmt: skip
def test_the_runs_are_made_once_more_but_not_in_practice(folder, capsys, control, sizes):
    refused = main(["submit", "10.5", "--control", control, *DRY]) == 2
    shown, err = capsys.readouterr()
    assert refused is (not sizes) is ("The practice cluster has no control runs." in err)
    commands = [line for line in shown.splitlines() if f"--control {control}" in line]
    assert {int(found) for line in commands for found in re.findall(r"--n_gpus (\d+)", line)} == sizes, shown
    assert all("ResNet50.py" in line and "--epochs 6" in line for line in commands)
