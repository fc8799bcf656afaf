"""What a job's two logs tell of its planned runs, through the session's following."""

import pytest
from msgspec.structs import replace

from labtui.domain.model import JobPhase
from labtui.results.cost import lab_cost
from labtui.results.measured import NO_GPU_DOUBT
from labtui.session.folder import LabFolder
from labtui.session.run_matcher import UNPLANNED, match_runs
from labtui.session.settings import with_changes
from labtui.training_logs.reader import parse_log
from tests.session.conftest import Bench, accepted, draft, only, submitted
from tests.session.scripted import keras_log
from tests.training_logs import samples

NO_CUDA = "Could not find cuda drivers on your machine, GPU will not be used.\n"
BANNER = b"Model ResNet50 4 GPUs\n"


def the_run(bench: Bench):
    return bench.session.state.runs[1]


def ended(bench: Bench, state: str = "COMPLETED") -> None:
    bench.cluster.end("100", state=state)
    bench.run(200, lambda: all(only(bench).logs[each].complete for each in ("out", "err")))


def test_a_log_that_only_the_labs_own_pattern_reads_gives_the_runs_epochs(lab_path, open_bench):
    folder = LabFolder(lab_path)
    pattern = r"pass (?P<epoch>\d+) of (?P<epochs>\d+) took (?P<seconds>[\d.]+)"
    bench = open_bench()
    accepted(bench)
    bench.cluster.write("100", b"a warning\n", suffix="err")
    bench.cluster.write("100", b"starting\npass 1 of 5 took 29.5\npass 2 of 5 to")
    bench.run(40, lambda: "out" in only(bench).logs)
    folder.save_settings(with_changes(folder.settings(), log_patterns=(pattern,)))  # while it is followed
    bench.run(40, lambda: [one.epoch for one in the_run(bench).epochs] == [1])
    more = b"ok 13.6\npass 3 of 5 took 13.7\npass 4 of 5 took 13.5\npass 5 of 5 took 13.6\n"
    bench.cluster.write("100", more)
    bench.run(40, lambda: [one.epoch for one in the_run(bench).epochs] == [1, 2, 3, 4, 5])
    assert [one.seconds.value for one in the_run(bench).epochs] == [29.5, 13.6, 13.7, 13.5, 13.6]
    ended(bench)
    assert the_run(bench).outcome == "completed" and the_run(bench).diagnosis == ()
    folder.save_settings(with_changes(folder.settings(), log_patterns=(pattern.replace("pass", "other"),)))
    bench.run(40, lambda: not the_run(bench).epochs)


@pytest.mark.parametrize(("devices", "banner", "says"), [
    (1, b"", "planned: 4 GPUs"), (1, BANNER, BANNER.decode().strip()), (4, BANNER, ""),
])  # fmt: skip
def test_devices_in_the_err_that_contradict_the_plan_or_the_banner_are_told(bench, devices, banner, says):
    command, _, epochs = keras_log(40, 5, 5, 5, 5, batch=1024, n_gpus=4).partition(b"\n")
    run_one(bench, command + b"\n" + banner + epochs, samples.devices(*range(devices)).encode(), n_gpus=4)
    found = the_run(bench).diagnosis
    assert [(each.kind, each.stream) for each in found] == [("contradiction", "err")] * bool(says)
    assert all(says in each.text and "line 1 of the .err" in each.text for each in found)
    assert len(the_run(bench).epochs) == 5 and the_run(bench).outcome == "completed"
    assert any(row.contradicted for row in bench.session.results().rows) is bool(says)


def test_why_a_job_failed_is_told_within_five_seconds_of_its_end(bench):
    """Also where the log shows no end; one that Slurm calls completed may get its last lines late."""
    accepted(bench)
    bench.cluster.write("100", b"Epoch 1/5\n")
    bench.cluster.write("100", b"a warning\n", suffix="err")
    bench.session.watch_logs({only(bench).token})
    bench.run(60, lambda: all(log.size for log in only(bench).logs.values()))
    bench.settled(bench.session.submit(draft(2)))  # and the queue was read as often as is polite
    bench.run(8)
    bench.cluster.write("100", b"ModuleNotFoundError: No module named 'cifar'\n")
    bench.cluster.end("100", state="FAILED")
    bench.run(5, lambda: the_run(bench).outcome is not None)
    assert [found.kind for found in the_run(bench).diagnosis] == ["missing-module"]


@pytest.mark.parametrize(("state", "kinds"), [("FAILED", ["missing-file"]), ("COMPLETED", [])])
def test_a_job_that_fails_after_its_last_epoch_has_its_error_and_its_epochs(bench, state, kinds):
    run_one(bench, keras_log(40, 14, 14, 14, 14), b"FileNotFoundError: 'out/model.keras'\n", state)
    assert [found.kind for found in the_run(bench).diagnosis] == kinds
    assert the_run(bench).outcome == "completed"


def test_a_job_that_fails_between_two_polls_is_seen_by_its_log_also_off_the_screen(bench):
    submitted(bench)
    bench.run(100)
    bench.cluster.write("100", b"python: command not found\n", suffix="err")
    bench.cluster.end("100", state="FAILED")
    bench.run(5, lambda: only(bench).job.phase is JobPhase.FINISHED)


def test_a_rate_without_epochs_is_a_throughput_in_the_lab_folder_too(bench):
    log = b"1\timages/sec: 466.9 +/- 0.0 (jitter = 0.0)\t8.169\ntotal images/sec: 466.31\n"
    assert match_runs({1: UNPLANNED}, parse_log(log).runs, 2).run_ids == {0: 1}, "of an own job file"
    run_one(bench, log)
    (row,) = bench.session.results().measured
    assert (row.throughput.value, row.origins[0].line) == (466.31, 2)


@pytest.mark.parametrize("name", ["ResNet50.py", "run_log.py", "ResNet50_seq.py"])
def test_a_script_that_the_student_changed_may_train_on_other_images(bench, name):
    (bench.path / "scripts" / name).write_text("print('my own training')\n")
    run_one(bench, b"".join(b"Epoch %d/5 | time: 0.64s\n" % number for number in range(1, 6)))
    (row,) = bench.session.results().measured
    told = row.throughput is not None, not any("--images" in note for note in row.notes)
    assert told == ((name == "ResNet50_seq.py",) * 2), "the run neither starts nor imports that one"


@pytest.mark.parametrize(("out", "place"), [
    (b"it begins\n", ("err", 3)), (b"Model ResNet50 1 GPUs\n", ("err", 3)), (keras_log(40, 14, 14, 14, 14), ("out", 7)),
])  # fmt: skip
def test_epochs_that_only_standard_error_shows_are_the_runs_with_their_place_there(bench, out, place):
    bar = "Epoch %d/5: 100%%|##########| 100/100 [00:04<00:00, 22.22it/s, loss=1.4]\n"
    run_one(bench, out, "".join(bar % epoch for epoch in range(1, 6)).encode())
    run = the_run(bench)
    assert (len(run.epochs), run.outcome, run.stream, run.epochs[2].line) == (5, "completed", *place)
    (row,) = bench.session.results().measured
    assert all(each.source.endswith(f".{run.stream}") for each in row.origins)


@pytest.mark.parametrize(("head", "differs"), [
    (b"Model ResNet101 1 GPUs\n", "model ResNet101, planned ResNet50"),
    (b"Model ResNet50 4 GPUs\n", "GPUs 4, planned 1"),
])  # fmt: skip
def test_a_log_of_another_training_says_what_was_planned_and_what_ran(bench, head, differs):
    run_one(bench, head + keras_log(40, 14, 14, 14, 14, head=False))
    run = the_run(bench)
    assert (run.epochs, run.outcome, run.cause) == ((), "unfinished", "another training")
    found, text = run.diagnosis[0], f"The log is of another training: {differs}."
    assert (found.kind, found.line, found.text) == ("contradiction", 1, text)


@pytest.mark.parametrize(("state", "outcome"), [
    ("COMPLETED", "completed"), ("CANCELLED", "cancelled"), ("FAILED", "failed"), ("TIMEOUT", "time-limit"),
])  # fmt: skip
@pytest.mark.parametrize("log", [b">> pass #1 of 6: 3.00 sec\n", b"Epoch 1: loss 0.5, time 1.20 s\n"])
def test_a_job_of_which_nothing_was_planned_ended_as_slurm_says(bench, log, state, outcome):
    planned = draft()
    own = replace(planned, runs=(replace(planned.runs[0], unknown=("epochs",)),))
    run_one(bench, log, state=state, job=own)
    assert (the_run(bench).outcome, len(the_run(bench).epochs)) == (outcome, log.count(b"Epoch"))


@pytest.mark.parametrize(("state", "last"), [("COMPLETED", 3), ("TIMEOUT", 9), ("CANCELLED", 9)])
def test_a_script_that_finds_no_gpu_before_its_first_line_ran_on_the_cpu_however_it_ended(bench, state, last):
    planned = draft()
    spec = replace(planned.runs[0], device="cpu", n_gpus=0, unknown=("n_gpus", "batch_size", "epochs"))
    log = NO_CUDA.encode() + b"".join(b"Epoch [%d/%d] time 1.20 s\n" % (number, last) for number in (1, 2, 3))
    run_one(bench, log, state=state, job=replace(planned, runs=(spec,)))
    assert [row.configuration.device for row in bench.session.results().rows] == ["cpu"]


@pytest.mark.parametrize(("asks", "named"), [(True, ""), (False, ""), (False, NO_CUDA + samples.devices(0))])
def test_a_run_planned_for_a_gpu_that_had_none_is_on_the_cpu_everywhere(bench, asks, named):
    script = bench.session.preview(draft()).script.replace("#SBATCH --gres=gpu:1\n" * (not asks), "")
    script = script.replace("cpus-per-task=20", "cpus-per-task=40")
    assert bench.session.preview(draft(), script=script).draft.gpus == asks
    bench.settled(bench.session.submit(draft(), script=script), 30)
    assert only(bench).cpus == 40, "as the student edited it"
    bench.cluster.start("100")
    told = [("model_name", "ResNet50"), ("device", "cpu"), ("n_gpus", 0), ("train_samples", 320)] * asks
    log = "run-1:     model=ResNet50 device=gpu n_gpus=1 batch_size=256 epochs=5\n" + named
    log += "".join(samples.mllog(*each) for each in told) + keras_log(40, 5, 5, 5, 5, head=False).decode()
    bench.cluster.write("100", log.encode())
    bench.run(60, lambda: the_run(bench).epochs_read == 5)
    assert (the_run(bench).used.devices, the_run(bench).spec.n_gpus) == ("1 GPU" if named else "CPU", 1)
    rows, (job,) = bench.session.results().rows, lab_cost(bench.session.state).jobs
    assert named or (not any(row.n_gpus or row.speedup for row in rows) and (job.gpus, job.used) == (asks, 0))


@pytest.mark.parametrize(("log", "errors"), [
    (b"+ python\n", ["error: 2 GPUs were asked for", "error: 4 GPUs were asked for"]),
    (b"+ python\n", [f"error: Out of memory with a batch of 9 on {n} replica(s)" for n in (2, 4)]),
    (b"Model ResNet50 2 GPUs\nEpoch 1/5\nModel ResNet50 4 GPUs\nEpoch 1/5\n", [  # in their order
        "FileNotFoundError: [Errno 2] No such file or directory: 'a'", "ResourceExhaustedError: OOM when",
    ]),
    (b"Model ResNet50 2 GPUs\nEpoch 1/5\nModel ResNet50 4 GPUs\nEpoch 1/5\n", [NO_CUDA.strip()]),
])  # fmt: skip
def test_of_the_errors_of_several_sizes_each_run_shows_its_own(bench, log, errors):
    planned = draft(2)
    four = replace(planned.runs[0], n_gpus=4, batch_size=1024)
    ended = "error: this training ended with exit status 4\n"
    err = "".join(f"{error}\n{ended}" for error in errors).encode()
    run_one(bench, log, err, state="FAILED", job=replace(planned, runs=(*planned.runs, four)))
    texts = [[found.text for found in run.diagnosis] for run in bench.session.state.runs.values()]
    assert texts == ([[NO_GPU_DOUBT]] * 2 if NO_CUDA.strip() in errors else [[error] for error in errors])


def run_one(
    bench: Bench, log: bytes, err: bytes = b"a warning\n", state: str = "COMPLETED", **job: object
) -> None:
    """A job of one run from its submission to its end; `job` is for `accepted`."""
    accepted(bench, **job)  # type: ignore[arg-type]
    bench.cluster.write("100", err, suffix="err")
    bench.cluster.write("100", log)
    bench.run(60, lambda: {"out", "err"} <= set(only(bench).logs))
    ended(bench, state)
