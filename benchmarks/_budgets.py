"""Compare what the benchmarks measured with their budgets, and make the exit status from that."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """A budget: `measured` has to be at most `most`, both in the unit named in `name`."""

    name: str
    measured: float
    most: float

    @property
    def kept(self) -> bool:
        """Whether this run is within the budget; NaN is not."""
        return self.measured <= self.most


def verdict(budgets: Iterable[Budget]) -> int:
    """Print the missed budgets on standard error; return 1 if there are any, else 0."""
    missed = [budget for budget in budgets if not budget.kept]
    for budget in missed:
        print(
            f"budget missed: {budget.name}: {budget.measured:.2f}, promised at most {budget.most:g}",
            file=sys.stderr,
            flush=True,
        )
    return 1 if missed else 0
