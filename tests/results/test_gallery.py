"""Which charts a screen pages through: those with something in them, of one network or of several together."""

from __future__ import annotations

from labtui.results.catalogue import catalogue, networks
from labtui.results.rows import of_rows
from labtui.results.run_charts import job_gpu_chart
from labtui.training_logs.gpu_sampler import GpuSample

from .helpers import results_of

ONE = ("ResNet50.31337.out",)
BOTH = (*ONE, "ResNet152.31338.out")


def test_one_network_has_its_analysis_and_several_only_what_compares_them() -> None:
    alone = [chart.family for chart in catalogue(results_of(*ONE))]
    assert alone[:4] == ["epoch-time", "throughput", "speedup", "efficiency"]
    assert {"efficiency-loss", "laws", "epochs"} < set(alone)
    results = results_of(*BOTH)
    assert networks(results) == ("ResNet50", "ResNet152")
    together = catalogue(results)
    assert {"speedup", "efficiency-loss"} <= {chart.family for chart in together}
    assert all(chart.family != "tuning" for chart in together)
    assert all(len(chart.series) <= 6 for chart in together)
    assert [chart.key for chart in catalogue(results, model="ResNet50")] == [
        chart.key for chart in catalogue(results_of(*ONE))
    ]


def test_a_chart_that_says_nothing_is_not_there() -> None:
    results = results_of(*ONE)
    lone = of_rows(results, [row for row in results.rows if row.n_gpus == 1])
    assert {chart.family for chart in catalogue(lone)}.isdisjoint({"cpu-gpu", "efficiency-loss"})
    assert not any(chart.empty for chart in catalogue(lone))
    assert catalogue(of_rows(results, ())) == ()


def test_one_moment_of_a_gpu_is_no_chart() -> None:
    moments = [GpuSample(at=float(at), index=0, utilization=0.9) for at in (1, 3)]
    assert job_gpu_chart(moments[:1], "7") is None
    chart = job_gpu_chart(moments, "7_1")
    assert chart is not None and chart.key == "gpu-utilization-7_1" and "job 7_1" in chart.title
