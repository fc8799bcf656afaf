"""`labtui why`: the parts of the lost efficiency."""

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from labtui.commands.cli import main
from labtui.domain import model, state
from labtui.results.compute import NO_ONE_GPU_RUN
from labtui.results.rows import StepTimes, step_times_of
from tests.commands.conftest import answer_of
from tests.tui.fed_session import finished_run, make_folder, open_session, spec

LOG = Path(__file__).parents[1] / "fixtures" / "logs" / "hpc4ai-ch10-resnet50.out"


def test_the_books_run_is_split_into_the_short_batch_and_slower_steps(tmp_path, capsys, command):
    practice = "practice: yes (labtui's rehearsal of TensorFlow: nothing was trained)\n"
    (tmp_path / "job.out").write_text(practice + LOG.read_text(encoding="utf-8"))
    assert command(["why", str(tmp_path / "job.out")]).err == "", "practice has no control runs"
    assert main(["why", str(LOG)]) == 0
    shown, hint = capsys.readouterr()
    assert "--control independent" in hint
    rows = r"ResNet50 +2 GPUs .*\n.*63\.2 % +26 +11\n"
    assert re.search(rows, shown), "the largest last, as in every table"
    assert "each cause (" in shown and shown.count("slower steps: from the time of a step") == 1
    two, four = answer_of(capsys, "why", str(LOG))["rows"]
    assert (two["n_gpus"], four["n_gpus"], four["pop"], four["slowest_rank"]) == (2, 4, {}, None)
    total = sum(part["share"]["value"] for part in four["parts"])
    assert total == pytest.approx(1 - four["efficiency"]["value"])


def test_networks_follow_each_other_what_loses_nothing_has_no_cause_and_no_baseline_is_said(tmp_path, capsys):
    for name, gpus in (("50", 1), ("50", 2), ("101", 1), ("101", 2), ("101", 4), ("152", 2)):
        steps = 32 // gpus
        epoch = f"{steps}/{steps} - {steps / 2:.0f}s - loss: 2.0 - 500ms/step\n"
        head = f" Model ResNet{name} {gpus} GPUs \nBatch_size: {64 * gpus}\n"
        (tmp_path / f"{name}-{gpus}.out").write_text(
            head + "".join(f"Epoch {k}/3\n{epoch}" for k in (1, 2, 3))
        )
    assert main(["why", *map(str, sorted(tmp_path.glob("*.out")))]) == 0
    _, first, *_, last = (shown := capsys.readouterr().out).splitlines()
    assert first.endswith("100.0 %"), "no cause"
    assert re.findall(r"^ResNet(\w+) +(\d)", shown, re.MULTILINE) == [("50", "2"), ("101", "2"), ("101", "4")]
    assert last == f"ResNet152 on 2 GPUs: {NO_ONE_GPU_RUN}"
    (tmp_path / "1.out").write_text("".join(f"Epoch {k}/3 | Time: 47.0{k}s\n" for k in (1, 2, 3)))
    assert main(["results", str(tmp_path / "1.out")]) == 0
    assert "printed" not in (shown := capsys.readouterr().out) and "47.0" in shown


BEGAN = 1_763_718_000.0
HEADER = "timestamp, index, utilization.gpu [%], clocks.current.sm [MHz], clocks_event_reasons.active\n"


def sampled(gpus: int, clock: int, bits: int) -> str:
    """Samples of each GPU every two seconds, for 502 s."""
    moments = [datetime.fromtimestamp(BEGAN + at, UTC) for at in range(0, 502, 2)]
    return HEADER + "".join(
        f"{moment:%Y/%m/%d %H:%M:%S}.000, {gpu}, 97, {clock}, 0x{bits:016x}\n"
        for moment in moments
        for gpu in range(gpus)
    )


def test_the_parts_come_with_the_clocks_that_differ(tmp_path, monkeypatch, command):
    """On one GPU, and on four whose clocks the power cap holds down; each epoch ends 100 s after the one before."""
    folder = make_folder(tmp_path / "lab")
    monkeypatch.chdir(folder.path)
    with open_session(folder.path, start=False) as session:
        for run_id, gpus, clock, bits in ((1, 1, 1980, 0), (2, 4, 1620, 4)):
            session.feed(*finished_run(f"lt{run_id}", "10.5", run_id, spec(gpus=gpus), f"{run_id}"))
            run = session.state.runs[run_id]
            ends = tuple(replace(each, ended_at=BEGAN + 100 * each.epoch) for each in run.epochs)
            session.feed(partial(state.LabState.with_runs, runs=[replace(run, epochs=ends)]))
            path = folder.path / session.state.submissions[run.token].mirror("gpu")
            path.parent.mkdir(exist_ok=True)
            path.write_text(sampled(gpus, clock, bits))
    shown = command(["why"]).out
    assert "GPU clock: 1,620 MHz on 4 GPUs, 1,980 MHz on one; power cap in 100 % of the samples." in shown


def steps(*means: float, **more: float) -> StepTimes | None:
    """Epochs whose step takes 1.0 s of which `means` are waiting for data."""
    same = {"step_seconds": 1.0, **{f"step_{n}_seconds": 0.1 for n in ("compute", "imbalance", "allreduce")}}
    told = enumerate((same | {"step_data_seconds": mean, **more} for mean in means), 2)
    how = {"seconds": model.Interval.exact(1.0), "source": "mllog", "line": 1}
    return step_times_of(model.EpochSample(epoch=epoch, metrics=metrics, **how) for epoch, metrics in told)


def test_a_part_has_bounds_by_how_much_its_epochs_differ():
    found = steps(0.2, 0.4, 0.3)
    assert found is not None and found.data_seconds.value == pytest.approx(0.3)
    # At 95 %: 4.303 standard errors for three epochs.
    assert found.data_seconds.half_width == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3)
    assert steps(0.2) is None  # one epoch says nothing of how much it differs
    assert steps(0.2, float("nan")) is None
    often = steps(0.2, 0.2, last_rank=3.0, last_rank_share=0.5)
    assert often is not None and often.slowest_rank is None, "not the last in every epoch"
