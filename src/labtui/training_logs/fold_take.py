"""Each meaning of a line, and who takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labtui.training_logs.fold import Fold
from labtui.training_logs.fold_epochs import (
    take_epoch,
    take_first_step,
    take_keras_line,
    take_measures,
    take_opens,
    take_progress,
)
from labtui.training_logs.fold_heads import take_begins, take_says, take_shortage, take_starts
from labtui.training_logs.fold_rates import take_ends, take_rate, take_totals
from labtui.training_logs.keras import FirstStep
from labtui.training_logs.said import (
    Begins,
    Ends,
    Epoch,
    KerasLine,
    Measures,
    Opens,
    Progress,
    Rate,
    Said,
    Says,
    Shortage,
    Starts,
    Totals,
)

_TAKERS: dict[type, Callable[[Fold, int, Any], None]] = {
    Says: take_says,
    Begins: take_begins,
    Opens: take_opens,
    KerasLine: take_keras_line,
    FirstStep: take_first_step,
    Progress: take_progress,
    Epoch: take_epoch,
    Measures: take_measures,
    Rate: take_rate,
    Totals: take_totals,
    Ends: take_ends,
    Starts: take_starts,
    Shortage: take_shortage,
}


def take(fold: Fold, line: int, said: Said) -> None:
    """Give one line's meaning to the fold."""
    _TAKERS[type(said)](fold, line, said)
