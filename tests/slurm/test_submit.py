"""Submitting once, and looking a lost submission up: a real bash runs the scripts with pretend Slurm programs."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from labtui.domain.errors import ConnectionLost, SubmitRefused
from labtui.slurm import submit as sending
from labtui.slurm.job_control import check_script, control, end_after, only_own
from labtui.slurm.remote_command import Call, CommandResult, T
from tests import changes
from tests.slurm.recorded import NONCE, accounting_row, queue_row, read

TOKEN, NAME = "lt0f3a77aa00000000b2c4", "ResNet50-b2c4"
ANOTHERS = "1234"
"""A job of another submission."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


class Site:
    """A directory, and programs `sbatch`, `squeue`, `sacct` that do what a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.environment = os.environ | {"PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}
        self.dir = folder / "a dir" / TOKEN
        self.dir.mkdir(parents=True)
        self.sent = folder / "sent"
        says = 'echo Hi; echo "Submitted batch job 4711 on cluster b"; echo Bye'
        self.program("sbatch", f'echo "$@" >>{self.sent}; {says}')
        self.program("squeue", ":")
        self.program("sacct", ":")

    def program(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def queue_holds(self, job_id: str, comment: str, name: str, work_dir: str = "") -> None:
        fields = {"job_id": job_id, "state": "PENDING", "comment": comment, "name": name}
        (self.folder / "rows").write_text(queue_row(fields | {"work_dir": work_dir}))
        self.program("squeue", f"cat {self.folder / 'rows'}")

    def run(self, call: Call[Any]) -> CommandResult:
        words = ["bash", "-c", call.text(NONCE)]
        done = subprocess.run(words, capture_output=True, env=self.environment, cwd=self.folder)
        return CommandResult(done.stdout, done.stderr, done.returncode)

    def submit(self, attempt: int = 0, name: str = NAME) -> CommandResult:
        call = sending.submit(str(self.dir), "job.slurm", TOKEN, name, ["--time=5"], attempt=attempt)
        return self.run(call)

    def times_sent(self) -> int:
        return len(self.sent.read_text().splitlines()) if self.sent.exists() else 0

    def ask(self, call: Call[T]) -> T:
        return call.answer(self.run(call), NONCE)

    def look(self, name: str = NAME) -> sending.Lookup:
        return self.ask(sending.lookup(str(self.dir), TOKEN, name, [ANOTHERS]))


def test_a_submission_is_sent_once_and_leaves_a_receipt(site):
    first = site.submit()
    assert (first.status, sending.parse_submit(first.out)) == (0, "4711")
    assert site.submit().status == sending.BLOCKED and site.times_sent() == 1
    words = "--parsable --no-requeue --comment=labtui:lt0f3a77aa00000000b2c4 --job-name=ResNet50-b2c4"
    assert words in site.sent.read_text() and site.look().job_id == "4711"


@pytest.mark.parametrize("says", ["Your job went to the other cluster.", f"Submitted batch job {ANOTHERS}"])
def test_an_accepted_job_without_a_number_of_its_own_is_never_sent_again(site, says):
    site.program("sbatch", f'echo "$@" >>{site.sent}; echo "{says}"')
    assert sending.parse_submit(site.submit().out, [ANOTHERS]) is None
    for _ in range(3):
        look = site.look()
        assert (look.job_id, look.certain) == (None, False) and look.no_job_at is not None
        assert look.accepted and says in look.problem
    site.queue_holds("12", sending.comment_of(TOKEN), NAME)
    assert site.look().job_id == "12", "it is looked up by its token all the same"


def test_a_number_in_a_banner_is_not_taken_for_the_job(site):
    site.program("sbatch", "echo 4")
    assert sending.parse_submit(site.submit().out) == "4" == site.look().job_id
    site.queue_holds("4", "", "a stranger's", "/home/them")
    assert (site.look().job_id, site.look().accepted) == (None, True), "the queue says that it is another's"


def test_an_unreadable_row_of_the_job_leaves_it_open(site):
    site.program("sbatch", "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1")
    site.submit()
    site.queue_holds("0x12", sending.comment_of(TOKEN), NAME)
    look = site.look()
    assert not look.certain and look.no_job_at is None and "cannot be read" in look.problem


def test_a_try_is_refused_beside_one_it_does_not_know_of(site):
    """Two processes of one folder, or of its copy, without a lock that holds."""
    answer = site.folder / "answer"
    site.program("sbatch", f'echo "$@" >>{site.sent}; until [ -e {answer} ]; do sleep 0.05; done; echo 4711')
    text = sending.submit(str(site.dir), "job.slurm", TOKEN, NAME, attempt=0).text(NONCE)
    first = subprocess.Popen(["bash", "-c", text], env=site.environment, stdout=subprocess.PIPE)
    while not site.times_sent():
        assert first.poll() is None
    assert site.submit(attempt=0).status == sending.BLOCKED
    look = site.look()
    assert not look.certain and look.job_id is None, "the first may still get its job"
    answer.touch()
    first.wait()
    assert site.times_sent() == 1 and site.look().job_id == "4711"


@pytest.mark.parametrize(
    "ours", [f"/d\\037labtui:{TOKEN}", f"/d/{TOKEN}\\037(null)", f"/d e/{TOKEN}/.\\037mine"]
)
def test_a_job_that_is_there_is_adopted_under_the_guard_of_sbatch(site, ours):
    """The receipt was removed, so nothing but the queue knows."""
    others = f"17\\037/d/{TOKEN}\\037labtui:other\\n12\\037/d\\037(null)\\n"
    site.program("squeue", f"printf '99\\037{ours}\\n{others}'")
    result = site.submit()
    assert (result.status, sending.parse_submit(result.out)) == (0, "99")
    assert site.times_sent() == 0 and site.look().job_id == "99"


def test_the_jobs_own_word_goes_before_receipts(site):
    site.submit()
    started = site.dir / ".labtui" / "started"
    started.mkdir()
    (started / "job").symlink_to("4690")
    look = site.look()
    assert (look.job_id, look.started_id) == ("4690", "4690")
    assert sending.parse_submit(site.submit(attempt=2).out) == "4690" and site.times_sent() == 1


@pytest.mark.parametrize(
    "squeue", ["echo 'Unable to contact slurm controller' >&2; exit 1", "kill -SEGV $$", "kill -TERM $$"]
)
def test_a_controller_that_does_not_answer_gets_no_sbatch(site, squeue):
    site.program("squeue", squeue)
    assert site.submit().status == sending.NOT_ASKED and site.times_sent() == 0
    look = site.look()
    assert look.certain and look.attempts == 2, "a try that did not run sbatch is closed"


def test_a_lookup_takes_a_submission_on_its_way_away(site):
    found = site.look()
    assert (found.job_id, found.certain) == (None, True)
    assert site.submit(attempt=0).status == sending.BLOCKED and site.times_sent() == 0
    assert site.submit(attempt=1).status == 0 and site.look().job_id == "4711"


@pytest.mark.parametrize(("comment", "work_dir", "ours"), [
    ("labtui:1111-2222-b2c4", "", False),  # two tokens that end alike
    ("labtui:1111-2222-b2c4", "/gpfs/lab/token", False),
    ("", "/gpfs/lab/lt00112233445566778899", False),  # in another submission's directory
    ("", "/gpfs/lab/elsewhere", True),
    ("charged to course 7", "", True),  # the site's own comment says nothing
    (sending.comment_of(TOKEN), "/gpfs/lab/elsewhere", True),
    ("", f"/gpfs/lab/{TOKEN}/.", True),  # a site that drops comments
])  # fmt: skip
def test_whose_a_job_is_by_its_comment_then_its_directory_then_its_name(site, comment, work_dir, ours):
    site.queue_holds("96", comment, NAME, work_dir)
    assert site.look().job_id == ("96" if ours else None)
    site.queue_holds("97", comment, "train", work_dir)
    known = "97" if TOKEN in comment + work_dir else None
    assert site.look("ResNet50").job_id == known, "a name without the token proves nothing"


def test_the_queue_tells_whose_job_it_is_when_accounting_does_not_yet(site):
    site.queue_holds("96", "labtui:1111-2222-b2c4", NAME)
    (site.folder / "accounts").write_text(accounting_row(JobIDRaw="96", State="RUNNING", JobName=NAME))
    site.program("sacct", f"cat {site.folder / 'accounts'}")
    assert site.look().job_id is None
    site.program("squeue", ":")
    assert site.look().job_id == "96", "its name is all that is known of it"


def test_an_sbatch_that_may_still_be_at_work_is_waited_for(site):
    site.program("sbatch", "kill -9 $PPID; kill -9 $(ps -o ppid= $PPID); sleep 0.1")
    site.submit()
    control = site.dir / ".labtui" / "attempt-0"
    (control / "status").unlink(missing_ok=True)
    look = site.look()
    assert not look.certain and look.no_job_at is None, "an answer before its end says nothing"
    ended = time.time() - sending.SETTLE_S - 5
    os.utime(control, (ended, ended))
    assert site.look().no_job_at is not None


def test_a_killed_sbatch_is_no_refusal_and_no_certainty(site):
    """Its request may lie with a frozen controller although the queue shows nothing."""
    site.program("sbatch", "kill -9 $$")
    assert site.submit().status == 137
    look = site.look()
    assert (look.job_id, look.certain, look.refusal) == (None, False, None)
    assert look.no_job_at is not None and not sending.no_job(sending.empty_answers((), look))
    look = site.ask(sending.lookup(str(site.dir), TOKEN, NAME, (), 1))  # by now known to have made no job
    assert (look.certain, look.attempts) == (True, 3)


@pytest.mark.parametrize(("answers", "certain"), [
    *(((0, 100, 310), True), ((0, 10, 20, 30, 310), True), ((0, 310), False), ((0, 100, 309), False)),
    ((0, 100, None, 310), False),  # an outage: the first answer after it begins anew
    *(((0, None, 100, 200, 409), False), ((0, None, 100, 200, 410), True), ((), False)),
])  # fmt: skip
def test_no_job_after_three_complete_answers_over_310_seconds(answers, certain):
    times: tuple[float, ...] = ()
    for at in answers:
        times = sending.empty_answers(times, sending.Lookup(no_job_at=at))
    assert sending.no_job(times) is certain


def test_a_plain_refusal_is_certain_once_the_queue_answers(site):
    """A site's wrapper may fail after the job was taken; soon after it the queue alone knows."""
    site.program("sbatch", "echo 'line 3: log: Disk quota exceeded' >&2; exit 1")
    assert site.submit().status == 1
    for program in ("squeue", "sacct"):
        site.program(program, "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    assert not site.look().certain and "contact" in site.look().problem
    site.program("squeue", ":")
    assert site.look().certain
    os.utime(site.dir / ".labtui" / "attempt-0" / "status", (time.time() - 250,) * 2)
    assert not site.look().certain, "it may have left the queue: accounting is needed, too"


def test_a_silent_controller_leaves_it_open_until_it_speaks(site):
    site.program("sbatch", "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1")
    site.submit()
    site.program("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    found = site.look()
    assert not found.certain and "contact" in found.problem and found.no_job_at is None
    site.program("squeue", ":")
    assert site.look().no_job_at is not None
    site.program("sacct", "echo 'sacct: error: Problem talking to the database' >&2; exit 1")
    assert not site.look().certain and site.look().no_job_at is None


def test_a_directory_that_cannot_be_written_or_no_answer_leaves_it_open(site):
    (site.dir / ".labtui").write_text("in the way")
    assert not site.look().certain
    with pytest.raises(ConnectionLost):
        read(sending.lookup("/d", TOKEN, NAME), "", status=None)
    with pytest.raises(SubmitRefused, match="directory"):
        site.ask(sending.submit(str(site.dir / "gone"), "job.slurm", TOKEN, NAME, attempt=0))
    assert site.times_sent() == 0


def test_hostile_words_stay_words(site):
    name = "$(touch pwned); touch pwned; '; touch pwned; '\n-q root"
    assert site.submit(name=name).status == 0 and name in site.sent.read_text()
    assert not list(site.folder.rglob("pwned"))


@pytest.mark.parametrize(("text", "job_id"), [
    *(("123\n", "123"), ("123;mn5\n", "123"), ("Welcome to 2026\n77\n", "77"), ("77\nbye\n", "77"), ("", None)),
    *(("5\n4", None), ("Submitted batch job 12 on cluster other\n", "12"), ("007\n", None)),
    *(("\u0661\u0662\n", None), ("9" * 5000, None), ("job 12\n", None)),
])  # fmt: skip
def test_job_ids(text, job_id):
    assert sending.parse_submit(text) == job_id


@pytest.mark.parametrize("token", ["", "a b", "x;y", "$(id)", "-abc", "a" * 99])
def test_tokens_that_are_none(token):
    with pytest.raises(ValueError, match="token"):
        sending.comment_of(token)


@pytest.mark.parametrize(("words", "named"), [
    ("Invalid account specification", "Open to you: course_a, course_b."),
    ("Invalid qos specification", "Open to you: normal, debug."),
    ("invalid partition specified: gpux", "Partitions here: acc, gpp."),
    ("Requested time limit is invalid (missing or exceeds some limit)", "Time limits here: acc 120 min."),
    ("Requested node configuration is not available", "Most for a job here: acc 4 GPUs a node, acc 8 nodes."),
])  # fmt: skip
def test_a_refused_account_queue_time_limit_or_size_names_what_there_is(site, words, named):
    site.program("sacctmgr", "echo 'course_a|normal|normal'; echo 'course_b|debug|normal'")
    partitions = "acc MaxTime=120 MaxNodes=8 TotalNodes=1 TRES=gres/gpu=4", "gpp", "old State=DOWN MaxTime=6"
    site.program("scontrol", "\n".join(f"echo 'PartitionName={words}'" for words in partitions))
    site.program("sbatch", f"echo 'sbatch: error: {words}' >&2; exit 1")
    with pytest.raises(SubmitRefused) as caught:
        site.ask(sending.submit(str(site.dir), "job.slurm", TOKEN, NAME, attempt=0))
    assert named in caught.value.hint and named in site.ask(check_script(options=())).hint
    site.program("sbatch", "echo 'sbatch: Job 1 to start at 9 using 1 processors in partition old' >&2")
    assert "accept this job. The partition old is down" in site.ask(check_script(options=())).sentence


def test_a_limit_of_the_queue_asks_nothing_more(site):
    site.program("sacctmgr", f"touch {site.folder / 'asked'}")
    site.program("sbatch", "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1")
    with pytest.raises(SubmitRefused) as caught:
        site.ask(sending.submit(str(site.dir), "job.slurm", TOKEN, NAME, attempt=0))
    assert caught.value.wait and not (site.folder / "asked").exists()


@pytest.mark.parametrize(("row", "said"), [
    *((f"/d/{TOKEN}/.|x|(null)", ""), ("/d|x|labtui:" + TOKEN, ""), (f"/d|{NAME}|", ""), ("", "Invalid job id")),
    *((row, "gave its ID to another") for row in (f"/d/lt{'0' * 20}|{NAME}|", f"/d|{NAME}|labtui:lt1", "/d|x|")),
])  # fmt: skip
def test_nothing_is_done_to_another_job_that_got_the_id(site, row, said):
    own = changes.after(changes.planned(TOKEN, {}, job_name=NAME)).submissions[TOKEN]
    site.program("squeue", f"tr '|' '\\037' <<<'{row}'")
    site.program("scontrol", 'echo "did $*" >&2')
    for call, did in (
        (control("release", "5"), "release 5"),
        (end_after("5", 9), "update JobId=5 TimeLimit=9"),
    ):
        err = site.run(only_own(call, own)).err
        assert said in err and (f"did {did}" in err) is not bool(said)
