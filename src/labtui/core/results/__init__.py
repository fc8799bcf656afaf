"""Numbers a student can be graded on: from runs to rows, laws, predictions and charts as data.

Enter through `compute_results`. What may not enter: files, clocks, pandas, numpy.
"""

from labtui.core.results.compute import CIFAR10_IMAGES, compute_results
from labtui.core.results.measured import MeasuredRun, measured_from_reports, measured_from_state
from labtui.core.results.rows import Configuration, LawFit, LeftOut, Prediction, ResultRow, Results
from labtui.core.results.serialize import interval_json, results_json
from labtui.core.results.trace import Origin, cite

__all__ = [
    "CIFAR10_IMAGES",
    "Configuration",
    "LawFit",
    "LeftOut",
    "MeasuredRun",
    "Origin",
    "Prediction",
    "ResultRow",
    "Results",
    "cite",
    "compute_results",
    "interval_json",
    "measured_from_reports",
    "measured_from_state",
    "results_json",
]
