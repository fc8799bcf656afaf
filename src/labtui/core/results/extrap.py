"""The measurements in Extra-P's JSON-Lines form, so that the field's own modelling tool opens them.

One line is one measurement; lines with equal parameters are repetitions. Parameter ``p`` is the GPU count,
the call path the network, the metrics are ``epoch_seconds`` (one line per steady epoch) and
``throughput``. Extra-P models time against p; for fixed data it needs negative exponents: ``--options
allow_negative_exponents=1``. It wants five GPU counts before it trusts a model. Format: Extra-P's
documentation, "JSON Lines".
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from labtui.core.results.rows import ResultRow, Results
from labtui.core.results.steady import SHORTEST, steady_samples

PARAMETER = "p"


def extrap_lines(results: Results) -> str:
    """JSON Lines of all GPU rows with a time, "" without any; the call path tells practice runs."""
    lines = [
        _line(row, metric, value) for row in results.measured if row.n_gpus for metric, value in _values(row)
    ]
    return "\n".join(lines) + "\n" if lines else ""


def _line(row: ResultRow, metric: str, value: float) -> str:
    point = {"params": {PARAMETER: row.n_gpus}, "callpath": _callpath(row), "metric": metric, "value": value}
    return json.dumps(point)


def _callpath(row: ResultRow) -> str:
    parts = [row.model, row.configuration.framework]
    batch = row.baseline.per_gpu_batch if row.baseline else row.configuration.per_gpu_batch
    if batch is not None:
        parts.append(f"{batch:.0f} per GPU")
    if row.practice:
        parts.append("practice")
    return ", ".join(filter(None, parts))


def _values(row: ResultRow) -> Iterable[tuple[str, float]]:
    if row.from_rate:
        for run in row.members:
            if run.run.throughput is not None and run.run.throughput.value >= SHORTEST:
                yield "epoch_seconds", row.configuration.images / run.run.throughput.value
                yield "throughput", run.run.throughput.value
        return
    for run in row.members:
        for sample in steady_samples(run):
            if sample.seconds.value >= SHORTEST:
                yield "epoch_seconds", sample.seconds.value
                yield "throughput", row.configuration.images / sample.seconds.value
