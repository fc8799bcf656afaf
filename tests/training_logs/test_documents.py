"""Every log line that the lab's documents print is read, and gives the figures they print."""

from pathlib import Path

import pytest

from labtui.training_logs.diagnosis import join_streams
from labtui.training_logs.keras import CLOCK_SECONDS
from labtui.training_logs.reader import parse_log

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"

PRINTED = {
    "hpc4ai-ch10-cpu": [(None, None, [(220, 219.5, 220.5), (215, 214.5, 215.5)])],
    "hpc4ai-ch10-gpu": [(None, None, [(24, 23.618, 23.814), (14, 14.21, 14.406)])],
    "hpc4ai-ch10-resnet50": [
        (1, 2048, [(29, 28.5, 29.5), (14, 13.5875, 13.6125)]),
        (2, 4096, [(31, 30.5, 31.5), (8, 8.0925, 8.1055)]),
        (4, 8192, [(47, 46.5, 47.5), (5, 5.3725, 5.3795)]),
    ],
    "hpc4ai-ch10-resnet152": [
        (1, 1024, [(63, 62.5, 63.5), (33, 32.7075, 32.7565)]),
        (2, 2048, [(76, 75.5, 76.5), (18, 17.9375, 17.9625)]),
        (4, 4096, [(126, 125.5, 126.5), (10, 10.0425, 10.0555)]),
    ],
    "sa-miri-2021-ex12": [(None, None, [(41, 40.5, 41.5)])],
}
PRINTED["sa-miri-2025-pg-resnet50"] = PRINTED["hpc4ai-ch10-resnet50"]
PRINTED["sa-miri-2025-pg-resnet152"] = PRINTED["hpc4ai-ch10-resnet152"]


@pytest.mark.parametrize("name", PRINTED)
def test_keras_logs(name):
    runs = parse_log((LOGS / f"{name}.out").read_bytes()).runs
    assert len(runs) == len(PRINTED[name])
    for run, (gpus, batch, epochs) in zip(runs, PRINTED[name], strict=True):
        assert (run.n_gpus, run.batch_size) == (gpus, batch)
        assert run.model == (f"ResNet{name.rpartition('resnet')[2]}" if "resnet" in name else None)
        read = [(one.printed_seconds, one.seconds.lo, one.seconds.hi) for one in run.epochs]
        assert [entry[0] for entry in read] == [entry[0] for entry in epochs]
        for entry, expected in zip(read, epochs, strict=True):
            assert entry[1:] == pytest.approx(expected[1:], abs=CLOCK_SECONDS * 1.001)


def test_the_exercise_ran_into_its_time_limit():
    out = parse_log((LOGS / "sa-miri-2021-ex12.out").read_bytes())
    err = parse_log((LOGS / "sa-miri-2021-ex12.err").read_bytes(), stream="err")
    joined = join_streams(out, err)
    assert [(run.outcome, run.epochs_planned) for run in joined.runs] == [("time-limit", 5)]
    assert [(found.kind, found.stream) for found in joined.diagnosis] == [("time-limit", "err")]


BATCHES = {
    "thesis-figure11": 0.632,
    "thesis-figure12-pytorch": 18.532,
    "thesis-figure12-horovod": 9.696,
    "thesis-figure13-pytorch": 21.925,
    "thesis-figure13-horovod": 9.95,
}


@pytest.mark.parametrize("name", BATCHES)
def test_pytorch_logs_of_the_thesis(name):
    (run,) = parse_log((LOGS / f"{name}.out").read_bytes()).runs
    assert run.batch_seconds is not None
    assert run.batch_seconds.value == BATCHES[name]
    assert run.batch_seconds.half_width == pytest.approx(0.0005)
    assert (run.framework, run.epochs, run.throughput) == ("pytorch", (), None)
