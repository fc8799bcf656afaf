"""`labtui why`: the parts of the lost efficiency, and what differs between two runs."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from labtui.commands.cli import main
from labtui.domain.model import EpochSample, Interval
from labtui.domain.state import LabState
from labtui.results.rows import StepTimes, step_times_of
from labtui.session.folder import SCRIPT_NAME, LabFolder
from labtui.session.session import Session
from labtui.tui.app import LabApp
from tests.commands.conftest import answer_of
from tests.tui.fed_session import NOW, finished_run, make_folder, open_session, spec
from tests.tui.waiting import text_of, until

LOG = Path(__file__).parents[1] / "fixtures" / "logs" / "hpc4ai-ch10-resnet50.out"


def test_the_books_run_is_split_into_the_short_batch_and_slower_steps(capsys):
    assert main(["why", str(LOG)]) == 0
    shown, hint = capsys.readouterr()
    assert "--control independent" in hint
    assert "Four GPUs lose 36.8 points of efficiency: 10.7 short last batch, 26.1 ±0.1 slower steps." in shown
    assert re.search(r"short last batch +10\.7 +the number of steps", shown)
    assert shown.startswith("ResNet50, 4 GPUs")  # the largest size first
    assert "POP" not in shown  # its log says nothing of a step's parts
    two, four = answer_of(capsys, "why", str(LOG))["rows"]
    assert (two["n_gpus"], four["n_gpus"], four["pop"], four["slowest_rank"]) == (2, 4, {}, None)
    total = sum(part["share"]["value"] for part in four["parts"])
    assert total == pytest.approx(1 - four["efficiency"]["value"])


def test_one_run_alone_has_nothing_to_split(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(make_folder(tmp_path / "lab").path)
    assert main(["why"]) == 1
    assert "a run on one GPU and one on more" in capsys.readouterr().err


def test_what_differs_between_two_runs(tmp_path, monkeypatch, capsys):
    folder = make_folder(tmp_path / "lab")
    monkeypatch.chdir(folder.path)
    with open_session(folder.path, start=False) as session:
        session._journal.change(
            *finished_run("lt1", "10.5", 1, spec(), "7"),
            *finished_run("lt2", "10.5", 2, spec(gpus=4, batch=1024), "8"),
            *finished_run("lt3", "10.5", 3, replace(spec(), named=True, arguments=("--base", "8")), "9"),
            lambda state: state.with_submission("lt3", form="own"),
        )
    assert main(["why", "1", "2"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^batch per GPU +2,048 +1,024$", shown, re.MULTILINE)
    assert "Repeat run 2 with the batch per GPU of run 1" in shown
    found = answer_of(capsys, "why", "1", "2")
    assert found["runs"] == [1, 2]
    assert {"what": "GPUs", "first": "1 GPU", "second": "4 GPUs"} in found["differences"]
    assert main(["why", "1", "1"]) == 0
    assert "Nothing differs" in capsys.readouterr().out
    assert main(["why", "1", "3"]) == 0
    assert re.search(r"^options +– +base 8$", capsys.readouterr().out, re.MULTILINE)
    assert main(["why", "1", "9"]) == 2


HEADER = "timestamp, index, utilization.gpu [%], clocks.current.sm [MHz], clocks_event_reasons.active\n"
JOB = "export CIFAR10_DATA={data}\nrun singularity exec --nv {image} python -u ResNet50.py --epochs 5\n"


def sampled(began: float, seconds: int, gpus: int, clock: int, bits: int) -> str:
    """Two-second samples of each GPU."""
    moments = [datetime.fromtimestamp(began + at, UTC) for at in range(0, seconds, 2)]
    return HEADER + "".join(
        f"{moment:%Y/%m/%d %H:%M:%S}.000, {gpu}, 97, {clock}, 0x{bits:016x}\n"
        for moment in moments
        for gpu in range(gpus)
    )


BEGAN = 1_763_718_000.0


def dated(state: LabState) -> LabState:
    """Each epoch ends 100 s after the one before."""
    runs = {
        number: replace(
            run, epochs=tuple(replace(each, ended_at=BEGAN + 100 * each.epoch) for each in run.epochs)
        )
        for number, run in state.runs.items()
    }
    return replace(state, runs=runs)


@pytest.fixture
def two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabFolder:
    """On one GPU, and on four whose clocks the power cap holds down; with their job scripts and GPU samples."""
    folder = make_folder(tmp_path / "lab")
    monkeypatch.chdir(folder.path)
    with open_session(folder.path, start=False) as session:
        session._journal.change(
            *finished_run("lt1", "10.5", 1, spec(), "7"), *finished_run("lt2", "10.5", 2, spec(gpus=4), "8")
        )
        sent = {
            "lt1": {SCRIPT_NAME: JOB.format(data="/gpfs/a", image="/gpfs/23.03.sif").encode()},
            "lt2": {SCRIPT_NAME: JOB.format(data="/gpfs/b", image="/gpfs/24.01.sif").encode()},
        }
        monkeypatch.setattr(Session, "files_of", lambda self, token: sent[token])
        session._journal.change(dated)
        for run_id, gpus, clock, bits in ((1, 1, 1980, 0), (2, 4, 1620, 4)):
            run = session.state.runs[run_id]
            path = folder.path / session.state.submissions[run.token].mirror("gpu")
            path.parent.mkdir(exist_ok=True)
            path.write_text(sampled(BEGAN, 100 * len(run.epochs) + 2, gpus, clock, bits))
    return folder


def test_clocks_container_data_and_parts_of_two_runs(two_runs, capsys):
    found = answer_of(capsys, "why", "1", "2")
    rows = {each["what"]: (each["first"], each["second"]) for each in found["differences"]}
    assert rows["GPU clock"] == ("1,980 MHz", "1,620 MHz")
    assert rows["GPUs slowed by"][1] == "power cap in 100 % of the samples"
    assert rows["container"] == ("/gpfs/23.03.sif", "/gpfs/24.01.sif")
    assert rows["data path"] == ("/gpfs/a", "/gpfs/b")
    assert rows["lost to short last batch"][1] == "10.7 points"
    assert found["next"].startswith(
        "3 things differ. Repeat run 2 with the container of run 1 to see what that costs."
    )


def test_a_script_of_another_model_and_the_node_are_no_cause(two_runs, monkeypatch, capsys):
    """Only what the run's own script imports can have made it slower."""
    mine = {"ResNet50.py": b"import resnet_lab as lab\n", "resnet_lab.py": b"from mllog import point\n"}
    other = {**mine, "mllog.py": b"slower\nlines\n", "ResNet152.py": b"another model\n"}
    sent = {"lt1": {**mine, "mllog.py": b"lines\n"}, "lt2": other}
    monkeypatch.setattr(Session, "files_of", lambda self, token: sent[token])
    found = answer_of(capsys, "why", "1", "2")
    files = {each["what"]: each for each in found["differences"] if each["what"].endswith(".py")}
    assert files.keys() == {"mllog.py"} and files["mllog.py"]["second"] == "1 line of its own"
    assert "with the mllog.py of run 1" in found["next"]
    same = {token: {**files, "mllog.py": b""} for token, files in sent.items()}
    monkeypatch.setattr(Session, "files_of", lambda self, token: same[token])
    assert main(["why", "1", "2"]) == 0
    assert "Only the number of GPUs differs" in capsys.readouterr().out


def test_the_parts_come_with_the_clocks_that_differ(two_runs, capsys):
    assert main(["why"]) == 0
    shown = capsys.readouterr().out
    assert "GPU clock: 1,620 MHz on 4 GPUs, 1,980 MHz on one; power cap in 100 % of the samples." in shown


async def test_two_marked_runs_are_compared_on_the_screen(two_runs):
    with open_session(two_runs.path) as session:
        app = LabApp(session, clock=lambda: NOW, pane="runs")
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await until(pilot, lambda: app.view_model.loaded and app.view_model.run_id is not None)
            app.go_to_task("10.5")
            for run_id in (1, 2):
                await app.choose_run(run_id)
                await pilot.press("w")
            said = "3 things differ. Repeat run 2 with the container of run 1 to see what that costs."
            told = ("Run 1 and run 2", "1,620 MHz", said)
            await until(pilot, lambda: all(each in text_of(app) for each in told), "each on one line")


def test_runs_of_two_models_are_told_to_be_no_comparison(tmp_path, monkeypatch, capsys):
    folder = make_folder(tmp_path / "lab")
    monkeypatch.chdir(folder.path)
    with open_session(folder.path, start=False) as session:
        other = finished_run("lt2", "10.6", 2, spec("ResNet152"), "8")
        session._journal.change(*finished_run("lt1", "10.5", 1, spec(), "7"), *other)
    assert main(["why", "1", "2"]) == 0
    assert "trainings of two models" in capsys.readouterr().out


def steps(*means: float, **more: float) -> StepTimes | None:
    """Epochs whose step takes 1.0 s of which `means` are waiting for data."""
    names = ("compute", "imbalance", "allreduce")
    told = [
        {
            "step_seconds": 1.0,
            "step_data_seconds": mean,
            **{f"step_{name}_seconds": 0.1 for name in names},
            **more,
        }
        for mean in means
    ]
    second = Interval.exact(1.0)
    return step_times_of(
        EpochSample(epoch=2 + place, seconds=second, metrics=metrics, source="mllog", line=1)
        for place, metrics in enumerate(told)
    )


def test_a_part_has_bounds_by_how_much_its_epochs_differ():
    found = steps(0.2, 0.4, 0.3)
    assert found is not None and found.data_seconds.value == pytest.approx(0.3)
    # At 95 %: 4.303 standard errors for three epochs.
    assert found.data_seconds.half_width == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3)
    assert steps(0.2) is None  # one epoch says nothing of how much it differs
    assert steps(0.2, float("nan")) is None
    often = steps(0.2, 0.2, last_rank=3.0, last_rank_share=0.5)
    assert often is not None and often.slowest_rank is None, "not the last in every epoch"
