"""Mirrors: always a prefix of the remote file, equal in the end, never two files in one."""

import random
import shutil
from pathlib import Path

import pytest

from labtui.domain.errors import RemoteFailure, failure
from labtui.domain.model import RunPhase
from labtui.domain.state import LogState
from labtui.session import mirrors
from labtui.session.session import Session
from labtui.slurm.probe import FileDigest
from tests.session.conftest import Bench, accepted, draft, only, submit_two_runs
from tests.session.scripted import CUT, keras_log
from tests.session.test_run_matcher import the_run as run


def segments_of(session: Session, token: str) -> list[Path]:
    """Every copy that was made of a submission's standard output, oldest first."""
    submission = session.state.submissions[token]
    numbers = mirrors.segments_on_disk(session.folder, submission, "out")
    return [session.folder.path / submission.mirror("out", number) for number in numbers]


def test_epochs_count_once_whatever_is_cut_between(bench):
    token = accepted(bench)
    whole = keras_log(5, 4, 4, 4, 4)
    chooser, position = random.Random(20260), 0
    while position < len(whole):
        step = chooser.randrange(1, 60)
        bench.cluster.write("100", whole[position : position + step])
        position += step
        if chooser.random() < 0.3:
            bench.cluster.fail(chooser.choice(("stat", "read")), CUT)
        bench.run(chooser.choice((0.5, 3, 8)))
        assert bench.cluster.contents[bench.cluster.log("100")].startswith(bench.mirror(token))
    bench.cluster.end("100")
    bench.run(300, lambda: run(bench).phase is RunPhase.DONE)
    assert [sample.epoch for sample in run(bench).epochs] == [1, 2, 3, 4, 5]
    assert bench.mirror(token) == whole
    assert not [path for path in bench.path.rglob("*") if path.stat().st_mode & 0o077], "for the owner alone"


def test_a_training_begun_again_in_the_same_log_counts_once(open_bench):
    first = open_bench()
    token = accepted(first)
    first.cluster.write("100", keras_log(9, 8, 9))
    first.run(60, lambda: len(run(first).epochs) == 3)
    assert run(first).phase is RunPhase.RUNNING
    first.cluster.write("100", keras_log())
    first.run(30)
    assert (run(first).outcome, len(run(first).epochs)) == (None, 3), "it is not over: it begins again"
    first.cluster.write("100", keras_log(5, 4, head=False))
    first.run(60, lambda: len(run(first).epochs) == 2)
    assert [sample.printed_seconds for sample in run(first).epochs] == [5, 4]
    before = first.session.state.runs
    first.session.close()
    second = open_bench(first.cluster)
    second.run(30)
    assert second.session.state.runs == before
    second.cluster.write("100", keras_log(5, 4, 4, 4, 4)[len(keras_log(5, 4)) :])
    second.cluster.end("100")
    second.run(200, lambda: run(second).outcome == "completed")
    assert [sample.printed_seconds for sample in run(second).epochs] == [5, 4, 4, 4, 4]
    assert len(segments_of(second.session, token)) == 1


def test_a_complete_log_that_goes_on_is_read_to_its_end_by_the_next_process(open_bench):
    first = open_bench()
    token = accepted(first)

    def log(bench: Bench) -> LogState | None:
        return bench.session.state.submissions[token].logs.get("out")

    first.cluster.write("100", keras_log(5, 4))
    first.cluster.end("100")
    first.run(120, lambda: log(first) is not None and log(first).complete)
    first.cluster.write("100", keras_log(5, 4, 3)[len(keras_log(5, 4)) :])
    first.run(120, lambda: len(run(first).epochs) == 3)
    assert not log(first).complete
    first.session.close()
    whole = keras_log(5, 4, 3, 3, 3)
    first.cluster.write("100", whole[len(keras_log(5, 4, 3)) :])
    second = open_bench(first.cluster)
    assert not log(second).complete
    second.run(200, lambda: len(run(second).epochs) == 5)
    assert second.mirror(token) == whole


NODE_FAILED = b"slurmstepd: error: *** JOB 100 ON n1 CANCELLED AT 2026-11-21T10 DUE TO NODE FAILURE ***\n"
FIVE = [5, 4, 4, 4, 4]
ENDS: dict[str, tuple[bytes, bytes, str, str, list[int]]] = {
    # name: (log, standard error, Slurm's word; how the run ended, its epochs as they were printed)
    "last line without a newline": (keras_log(*FIVE).rstrip(b"\n"), b"", "COMPLETED", "completed", FIVE),
    "another try after a complete one": (keras_log(*FIVE) + keras_log(9), b"", "COMPLETED", "completed", FIVE),
    "another try after a failure": (
        keras_log() + b"tensorflow ResourceExhaustedError: OOM when allocating tensor\n" + keras_log(*FIVE),
        b"", "COMPLETED", "completed", FIVE,
    ),
    "no log": (b"", b"", "FAILED", "failed", []),
    "time limit": (keras_log(5, 4), b"", "TIMEOUT", "time-limit", [5, 4]),
    "cancelled": (keras_log(5, 4), b"", "CANCELLED", "cancelled", [5, 4]),
    "out of memory": (keras_log(5, 4), b"", "OUT_OF_MEMORY", "oom", [5, 4]),
    "node failure": (keras_log(5, 4), NODE_FAILED, "NODE_FAIL", "failed", [5, 4]),
    "node failure without a word in its logs": (keras_log(5, 4), b"", "NODE_FAIL", "failed", [5, 4]),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_log_and_slurms_word_say_how_a_run_ended(bench, name):
    log, err, state, outcome, printed = ENDS[name]
    accepted(bench)
    for data, suffix in ((log, "out"), (err, "err")):
        if data:
            bench.cluster.write("100", data, suffix)
    bench.cluster.end("100", state)
    bench.run(200, lambda: run(bench).outcome is not None)
    for _ in range(2):
        assert run(bench).outcome == outcome
        assert (run(bench).cause == "node failure") is (state == "NODE_FAIL")
        assert [sample.printed_seconds for sample in run(bench).epochs] == printed
        bench.run(200)  # a log that is complete is looked at once more


@pytest.mark.parametrize(("state", "outcome", "cause"), [
    ("OUT_OF_MEMORY", "oom", "node memory"), ("TIMEOUT", "time-limit", "time limit"),
])  # fmt: skip
def test_a_run_that_never_began_is_not_what_ended_the_one_before_it(bench, state, outcome, cause):
    submit_two_runs(bench)
    bench.cluster.write("100", keras_log(5, 4))
    bench.cluster.end("100", state)
    bench.run(200, lambda: bench.session.state.runs[2].outcome is not None)
    ended = [bench.session.state.runs[number] for number in (1, 2)]
    assert [(run.outcome, run.cause) for run in ended] == [(outcome, cause), ("unfinished", "never started")]


def test_many_logs_at_once_are_all_served_and_those_on_screen_first(bench):
    futures = [bench.session.submit(draft()) for _ in range(6)]
    bench.run(60, lambda: all(future.done() for future in futures))
    for number in range(6):
        bench.cluster.start(str(100 + number))
    bench.run(60)
    tokens = [future.result() for future in futures]
    bench.session.watch_logs({tokens[0]})
    bench.cluster.calls.clear()
    for _ in range(12):
        for number in range(6):
            bench.cluster.write(str(100 + number), b"a line of a log\n" * 100)
        bench.run(1)
    looks = dict.fromkeys(map(bench.cluster.log, map(str, range(100, 106))), 0)
    for verb, what in bench.cluster.calls:
        path = what[0] if verb == "peek" else what
        if verb in ("stat", "peek") and path in looks:
            looks[path] += 1
    assert looks.pop(bench.cluster.log("100")) > 2 * max(looks.values()) and min(looks.values()) >= 5
    logs = [bench.cluster.contents[bench.cluster.log(str(100 + number))] for number in range(6)]
    bench.run(200, lambda: list(map(bench.mirror, tokens)) == logs)


def test_a_file_the_server_refuses_does_not_stop_the_others_and_a_deleted_folder_is_made_again(bench):
    token = accepted(bench)
    bench.cluster.fail("stat", *[RemoteFailure("It is closed.")] * 2, failure("no-sftp", host="login1"))
    bench.cluster.write("100", keras_log(5))
    bench.run(60, lambda: bool(bench.session.state.problems))
    assert "login1 offers no usable file transfer" in bench.session.state.problems[0].sentence
    bench.run(60, lambda: len(run(bench).epochs) == 1)
    assert bench.mirror(token) == keras_log(5) and bench.session.state.problems == ()
    shutil.rmtree(bench.session.folder.logs)
    bench.cluster.write("100", keras_log(5, 4)[len(keras_log(5)) :])
    bench.run(60, lambda: len(run(bench).epochs) == 2)
    assert bench.mirror(token) == keras_log(5, 4) and bench.session.state.problems == ()


def test_an_endless_log_is_copied_up_to_the_limit(bench):
    accepted(bench)
    bench.worker._context.max_log_bytes = 10_000
    bench.cluster.write("100", keras_log(5, 4))
    bench.run(30, lambda: len(bench.session.state.runs[1].epochs) == 2)
    for number in range(40):
        bench.cluster.write("100", f"line {number} ".encode() * 500)
        bench.run(5)
    mirror = bench.path / only(bench).mirror("out")
    assert mirror.stat().st_size == 10_000
    assert bench.cluster.contents[bench.cluster.log("100")].startswith(mirror.read_bytes())
    (problem,) = bench.session.state.problems
    assert "is not copied further" in problem.sentence and "max_log_gib" in problem.hint
    bench.worker._context.max_log_bytes = 1 << 30
    bench.run(60, lambda: mirror.read_bytes() == bench.cluster.contents[bench.cluster.log("100")])
    assert bench.session.state.problems == ()


def test_of_a_log_that_is_rewritten_again_and_again_the_newest_copies_stay(bench):
    accepted(bench)
    for number in range(12):
        bench.cluster.put("100", f"try {number}\n".encode() * (20 - number))
        bench.run(8)
    names = sorted(path.name.split(".", 2)[2] for path in bench.session.folder.logs.iterdir())
    assert names == sorted(f"restart{number}.out" for number in range(7, 12))
    assert any("newest 5 copies" in problem.hint for problem in bench.session.state.problems)


def changed_unseen(bench: Bench, at: int = 5000) -> bytes:
    """A byte in the middle of the remote log becomes another one; size, beginning, end and time stay."""
    path = bench.cluster.log("100")
    data = bytearray(bench.cluster.contents[path])
    data[at] ^= 1
    bench.cluster.contents[path] = bytes(data)
    return bytes(data)


def ended_with_a_long_log(bench: Bench) -> str:
    token = accepted(bench)
    bench.cluster.write("100", keras_log(5, 4, 4, 4, 4) + b"a line of the log\n" * 600)
    bench.run(60, lambda: bench.mirror(token) == bench.cluster.contents[bench.cluster.log("100")])
    bench.cluster.end("100")
    return token


@pytest.mark.parametrize("differs", [False, True])
def test_at_the_end_both_sides_are_compared_and_a_copy_that_differs_is_made_again_once(bench, differs):
    token = ended_with_a_long_log(bench)
    copies = [bench.mirror(token), *([changed_unseen(bench)] if differs else [])]
    bench.run(200, lambda: only(bench).logs["out"].complete)
    bench.run(200)
    assert [path.read_bytes() for path in segments_of(bench.session, token)] == copies
    assert bench.cluster.count("digest") == len(copies) and bench.session.state.problems == ()
    assert not bench.session.readings._readers, "none is kept of a log that is over"
    assert len(run(bench).epochs) == 5 and run(bench).outcome == "completed"


def test_a_copy_that_differs_twice_is_told(bench, monkeypatch):
    token = ended_with_a_long_log(bench)
    digest = bench.cluster.digest
    monkeypatch.setattr(bench.cluster, "digest", lambda path: digest(path)._replace(sha256="0" * 64))
    bench.run(200, lambda: only(bench).logs["out"].complete)
    assert len(segments_of(bench.session, token)) == 2
    (problem,) = bench.session.state.problems
    assert "job 100 differs from the log on the cluster" in problem.sentence


def test_a_line_that_comes_while_both_sides_are_compared_is_copied(bench, monkeypatch):
    token = ended_with_a_long_log(bench)
    digest, late = bench.cluster.digest, [b"late\n"]

    def after_a_line(path: str) -> FileDigest:
        if late:
            bench.cluster.write("100", late.pop())
        return digest(path)

    monkeypatch.setattr(bench.cluster, "digest", after_a_line)
    bench.run(200, lambda: only(bench).logs["out"].complete)
    assert bench.mirror(token).endswith(b"late\n") and len(segments_of(bench.session, token)) == 1


@pytest.mark.parametrize("refusal", [None, RemoteFailure("The login shell ended before the command.")])
def test_without_sha256sum_sizes_alone_are_compared(bench, refusal):
    bench.cluster.has_sha256sum = False
    bench.cluster.fail("digest", refusal)
    token = ended_with_a_long_log(bench)
    changed_unseen(bench)
    bench.run(200, lambda: only(bench).logs["out"].complete)
    assert len(segments_of(bench.session, token)) == 1 and bench.session.state.problems == ()
