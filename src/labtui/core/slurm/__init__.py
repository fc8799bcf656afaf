"""Slurm's commands and the readers of their answers, in pairs; its words in plain language."""

from labtui.core.slurm.accounting import AccountingRow
from labtui.core.slurm.details import JobDetails, expand_pattern
from labtui.core.slurm.queue import JobRow
from labtui.core.slurm.refusals import Refusal, classify
from labtui.core.slurm.states import phase_of, plain_state, state_sentence
from labtui.core.slurm.test_only import TestOnly
from labtui.core.slurm.tick import Tick

__all__ = [
    "AccountingRow",
    "JobDetails",
    "JobRow",
    "Refusal",
    "TestOnly",
    "Tick",
    "classify",
    "expand_pattern",
    "phase_of",
    "plain_state",
    "state_sentence",
]
