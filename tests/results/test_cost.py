"""GPU-hours: what still runs, what practice costs, whose clock counts, and which job and log a run has."""

import pytest
from msgspec.structs import replace

from labtui.domain.model import Diagnosis, JobPhase
from labtui.domain.state import LabState, LogState
from labtui.export.tables import csv_text, readings_table, results_message
from labtui.lab.run_choice import rows_with_runs
from labtui.results.catalogue import catalogue, epoch_chart, lab_charts
from labtui.results.compute import compute_results, own_rows
from labtui.results.cost import lab_cost, run_utilization
from labtui.results.measured import measured_from_state
from labtui.results.messages import notes_with_names
from labtui.results.report import cost_json, cost_lines, report_text, short_report
from labtui.training_logs.gpu_sampler import GpuSample
from tests import changes
from tests.changes import accepted, after, ended, observed, planned

from .helpers import epoch, run, spec


def lab(*, practice: bool = False, phase: JobPhase = JobPhase.FINISHED, segment: int = 0) -> LabState:
    """One job with a run on one GPU and one on four, of 40 s each."""
    runs = {1: spec(1), 2: spec(4)}
    sent = {"form": "one-job", "job_name": "ResNet50-1-4gpu-ab12", "practice": practice}
    ended_at = None if phase is JobPhase.RUNNING else 1360.0
    state = after(
        planned("t1", runs, 900.0, gpus=4, cpus=80, **sent), accepted("t1", "77"),
        lambda state: state.with_log("t1", "out", LogState(segment=segment)),
        observed("t1", "77", phase, start_time=1000.0, end_time=ended_at),
        *(changes.epoch(n, each) for n in runs for each in (epoch(1, 30, line=5), epoch(2, 10, line=9))),
        *(ended(n, "completed") for n in runs),
    )  # fmt: skip
    return replace(state, runs={n: replace(run, practice=practice) for n, run in state.runs.items()})


def test_a_running_job_grows_and_practice_costs_nothing():
    state = lab(phase=JobPhase.RUNNING)
    assert lab_cost(replace(state, cluster_time=1090.0)).total.allocated == pytest.approx(4 * 90 / 3600)
    early = lab_cost(replace(state, cluster_time=1010.0)).total  # its log tells of 80 s already
    assert early.used <= early.allocated == pytest.approx(4 * 80 / 3600)
    begun = {"t2": replace(state.submissions["t1"], token="t2", job=None)}  # then rehearsed jobs cost nothing
    both = replace(lab(practice=True), submissions=lab(practice=True).submissions | begun)
    assert lab_cost(both).total.allocated == 0 and not lab_cost(both).practice
    rehearsed = lab_cost(lab(practice=True))
    assert cost_json(rehearsed)["practice"] and rehearsed.total.allocated == pytest.approx(4 * 360 / 3600)
    assert "fast clock" in report_text(compute_results(()), cost=rehearsed).split("of jobs (practice)")[1]
    assert not lab_cost(lab()).practice and not lab_cost(LabState()).practice
    asks_none = {"t1": replace(state.submissions["t1"], gpus=0)}  # its student told that it uses some
    cost = lab_cost(replace(state, submissions=asks_none))
    assert (cost.total.allocated, cost.total.used) == (0, pytest.approx(5 * 40 / 3600))
    tasks = {f"{used}": replace(cost.total, used=used) for used in (0.004, 0.014, 0.074, 0.048)}
    _, more, *rows = cost_lines(replace(cost, total=replace(cost.total, used=0.14), tasks=tasks))
    shown = " ".join(row.split()[-2] for row in rows)
    assert "do not ask Slurm" in more and shown == "0.00 0.01 0.05 0.07", "in the order of tasks"
    told, sample = (epoch(1, 9), epoch(2, 5, ended_at=14.0)), GpuSample(at=12.0, index=0, utilization=0.9)
    made = [run(1, [], epochs=told, tuning=tuning) for tuning in ((), (("device", "cpu"),))]
    assert [run_utilization(each, [sample]) is None for each in made] == [False, True], "on CPU devices"


def test_gpu_hours_follow_the_clusters_clock_and_stay_below_the_limit():
    """Not the laptop's: a day ahead it made 96 GPU-hours of two minutes."""
    state = lab(phase=JobPhase.RUNNING)
    job = replace(state.submissions["t1"].job, time_limit_s=1800.0, elapsed_s=80.0)

    def hours(cluster_time: float | None, **more: object) -> float:
        submissions = {"t1": replace(state.submissions["t1"], job=replace(job, **more))}
        return lab_cost(replace(state, submissions=submissions, cluster_time=cluster_time)).total.allocated

    assert hours(1120.0) == pytest.approx(4 * 120 / 3600) and hours(1000.0 + 86_400) == pytest.approx(4 * 0.5)
    assert hours(None) == pytest.approx(4 * 80 / 3600)
    assert hours(9e9, phase=JobPhase.QUEUED) == pytest.approx(4 * 80 / 3600), "its log is newer"
    assert hours(9e9, phase=JobPhase.UNKNOWN) == pytest.approx(4 * 80 / 3600)
    ended_by_its_log = {"phase": JobPhase.FINISHED, "elapsed_s": None}
    assert hours(9e9, **ended_by_its_log) == pytest.approx(4 * 80 / 3600), "while Slurm does not answer"
    assert hours(None, phase=JobPhase.FINISHED, end_time=2830.0) == pytest.approx(4 * 1830 / 3600)


def test_all_call_own_jobs_by_their_names_told_apart_and_a_line_of_several_jobs_by_its_model():
    jobs = [("keras", 8, 0.4), ("over", 4, 12), ("long", 4, 12), ("full", 32, 9), ("full", 16, 7)]
    runs = [run(0, [9, t, t], model="net", called=name, tuning=(("CPUs", f"{n}"),)) for name, n, t in jobs]
    results = compute_results([*(run(n, [9, 9 / n], called=f"on{n}", model="m") for n in (1, 2)), *runs])
    names = ["m", "m", "over/long", "keras", "full (CPUs 16)", "full (CPUs 32)"]
    assert [row.name for row in results.rows] == names and len({row.hue for row in results.rows}) == 4
    assert [cells[0] for cells in readings_table(results).rows if not cells[1:]] == names[1:]
    drawn = [line.name.rpartition(" · ")[0] for line in epoch_chart(results).series]
    assert drawn == ["m", "m", *["a run, over/long"] * 2, "keras", "full · CPUs 16", "full · CPUs 32"]
    assert [chart.key for chart in lab_charts(compute_results(runs[1:3]))] == ["epochs-over-long"]
    assert short_report(results)[:6] == "name  " and ",over/long,fingerprint" in csv_text(results)
    assert [row.name for _, row in own_rows(results)][2:4] == ["over", "long"], "each by itself"
    rows = [run(0, [9, t], model=name, tuning=(("t", f"{t}"),)) for name, t in (("a", 2), ("a", 3), ("b", 5))]
    rows += [run(0, [9, n], model="c", batch=n) for n in (6, 7)] + [run(0, [9, 8], model="d", called="b")]
    told = "a (t 2) takes 2.00 s, a (t 3) 3.00 s, b (network b, t 5) 5.00 s, c, batch 6 6.00 s"
    assert f"{told}, c, batch 7 7.00 s, b (network d) 8.00 s" in results_message(compute_results(rows))


@pytest.mark.parametrize(("numbers", "others"), [((12,), "1, run 4, of no"), ((1, 4), "12, of")])
def test_a_chart_draws_the_runs_of_its_task_and_notes_say_what_else_its_means_mix(numbers, others):
    sent = ((1, "", "batch"), (4, "", "gpu"), (12, "10.3", "gpu"))
    runs = [run(0, [9, n], run_id=n, task_id=task, partition=where) for n, task, where in sent]
    shown = rows_with_runs(compute_results(runs), [each for each in runs if each.run_id in numbers])
    (chart,) = (each for each in catalogue(shown) if each.family == "epochs")
    assert tuple(sorted(line.points[0].run for line in chart.series)) == numbers
    pooled, places = notes_with_names(shown.rows, "pooled")
    assert pooled.startswith(f"ResNet50 on the CPU: Pooled with run {others} task")
    assert "On partitions batch and gpu, whose" in places


def test_runs_of_a_folder_know_their_job_and_log():
    state = lab(segment=1)
    own = replace(state, submissions={"t1": replace(state.submissions["t1"], form="own")})
    tunings = [measured_from_state(own, scripts)[0].run.tuning for scripts in ((), ("ResNet50.py",))]
    assert tunings == [(("script", "ResNet50.py"),), ()], "of a script that is the edition's as for its runs"
    named = replace(own.submissions["t1"], job_file="mine.slurm", job_name="mine")
    drawn = epoch_chart(compute_results(measured_from_state(replace(own, submissions={"t1": named}))))
    assert [line.name.split(" · ")[0] for line in drawn.series] == ["mine", "mine"], "as in the table of runs"
    for found, device in (((), None), ((Diagnosis(kind="no-gpu", line=1, text="", advice=""),), "cpu")):
        plan = replace(spec(1), device="cpu", unknown=("n_gpus",))  # an own job that asks for no GPU
        asked = {**state.runs, 1: replace(state.runs[1], spec=plan, diagnosis=found)}
        assert measured_from_state(replace(state, runs=asked))[0].run.device == device
    first, second = measured_from_state(state)
    assert (first.job_id, first.source) == ("77", "logs/ResNet50-1-4gpu-ab12.77.restart1.out")
    assert second.run.n_gpus == 4 and not second.live and second.startup == (360 - 80) / 2
    unknown = lab(phase=JobPhase.RUNNING), lab(practice=True)
    assert [measured_from_state(each)[0].startup for each in unknown] == [None, None]
    rows = compute_results([first, second]).rows
    assert rows[1].speedup.value == pytest.approx(1.0) and rows[1].origins[0].line == 9
