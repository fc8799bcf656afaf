"""Which batches fit."""

from __future__ import annotations

from dataclasses import replace

from labtui.domain.model import Diagnosis
from labtui.session.planning import too_large
from tests.lab.builders import full, with_runs


def test_the_smallest_batch_that_did_not_fit():
    def change(run):
        if run.spec.model != "ResNet152":
            return run
        batch = {1: 1024, 2: 2 * 2048, 4: 4 * 4096}[run.spec.n_gpus]
        run = replace(run, spec=replace(run.spec, batch_size=batch))
        return run if run.spec.n_gpus == 1 else replace(run, outcome="oom", epochs=())

    assert too_large(with_runs(full(), change).state.runs.values(), "ResNet152") == 2048


def test_main_memory_says_nothing_about_the_batch():
    """The node's memory ran out, not the GPU's: the batch may well fit, and half of it is no cure."""
    finding = Diagnosis(
        kind="host-memory", line=9, text="oom_kill", advice="Ask for more CPUs.", stream="err"
    )

    def change(run):
        return replace(run, outcome="oom", epochs=(), diagnosis=(finding,))

    runs = with_runs(full(), change).state.runs.values()
    assert not any(run.gpu_memory_ran_out for run in runs)
    assert too_large(runs, "ResNet152") is None
    both = (finding, replace(finding, kind="oom"))
    assert all(replace(run, diagnosis=both).gpu_memory_ran_out for run in runs)
