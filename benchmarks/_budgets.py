"""What the benchmarks measured beside what was promised, and the exit status that makes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """A promise: the figure `measured` is at most `most`, both in the unit that `name` tells."""

    name: str
    measured: float
    most: float

    @property
    def kept(self) -> bool:
        """Whether the promise holds in this run; a figure that is no number keeps none."""
        return self.measured <= self.most


def verdict(budgets: Iterable[Budget]) -> int:
    """Say on standard error which budgets were missed; 1 when one was, else 0."""
    missed = [budget for budget in budgets if not budget.kept]
    for budget in missed:
        print(
            f"budget missed: {budget.name}: {budget.measured:.2f}, promised at most {budget.most:g}",
            file=sys.stderr,
            flush=True,
        )
    return 1 if missed else 0
