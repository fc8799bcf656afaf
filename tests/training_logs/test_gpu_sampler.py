"""The GPU sampler's CSV: every form nvidia-smi writes, and its place beside the epochs."""

import pytest
from msgspec.structs import replace

from labtui.results.catalogue import job_gpu_chart
from labtui.training_logs.gpu_sampler import clocks, read_samples, samples_in_epochs
from tests.results.helpers import epoch

HEADER = "timestamp, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], power.draw [W]\n"
START = 1_763_718_000.0  # 2025-11-21 09:40:00 UTC


def line(second: int, index: int, busy: int) -> str:
    clock = f"09:{40 + second // 60:02d}:{second % 60:02d}.250"
    return f"2025/11/21 {clock}, {index}, {busy}, 30, 60000, 65247, 500.5\n"


@pytest.mark.parametrize(("text", "read"), [
    (HEADER + line(0, 0, 97) + line(0, 1, 0), [(0, 0.97), (1, 0.0)]),
    (HEADER + "2025/11/21 09:40:00.000, 0, 97 %, 30 %, 60000 MiB, 65247 MiB, 500.25 W\n", [(0, 0.97)]),
    (HEADER + "2025/11/21 09:40:02, 0, [N/A], 1, 2, 3, [Not Supported]\n", [(0, None)]),
    (HEADER + line(0, 0, 50) + "Unable to determine the device handle\n2025/11/2", [(0, 0.5)]),
    (f"node1, {HEADER}node1, {line(0, 1, 50)}", [(1, 0.5)]),
])  # fmt: skip
def test_the_samplers_lines(text, read):
    samples = read_samples(text.encode())
    assert [(sample.index, sample.utilization) for sample in samples] == read
    assert samples[0].at == pytest.approx(START, abs=2) and samples[0].name == f"GPU {samples[0].index}"


def test_the_gpus_of_several_nodes_are_numbered_through_and_named():
    """One file for all nodes, whose lines come as they are written, with a header from each node."""
    rows = [("node2", 1, 80), ("node1", 0, 20), ("node1", 1, 40), ("node2", 0, 60)]
    text = "".join(f"{node}, {HEADER}" for node in ("node1", "node2"))
    text += "".join(f"{node}, {line(second, gpu, busy)}" for second in (0, 2) for node, gpu, busy in rows)
    samples = read_samples(text.encode())
    assert {sample.name: sample.index for sample in samples}["node2 · GPU 1"] == 3
    named = [(series.name, series.group) for series in job_gpu_chart(samples).series]
    assert named[1:3] == [("node1 · GPU 1", "node1"), ("node2 · GPU 0", "node2")], "a panel for each node"


def test_utilisation_beside_the_epochs():
    busy = "".join(line(at, gpu, 100 if at >= 10 else 0) for at in range(0, 40, 2) for gpu in (0, 1))
    epochs = [epoch(1, 20, ended_at=START + 20), epoch(2, 10, ended_at=START + 30)]
    samples = read_samples((HEADER + busy).encode())
    inside = samples_in_epochs(samples, epochs)
    assert {(one.index, one.utilization) for one in inside} == {(0, 1.0), (1, 1.0)} and len(inside) == 12
    clocked = [replace(one, clock_mhz=1000.0 + one.index) for one in samples]
    assert clocks(clocked, epochs, n_gpus=1) == (1000.0, {}), "the first GPU alone"
    assert [series.name for series in job_gpu_chart(samples).series] == ["GPU 0", "GPU 1"]
    assert samples_in_epochs(samples, [epoch(1, 5), epoch(2, 5)]) == []
