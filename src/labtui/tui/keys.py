"""Bindings as the panes declare them, one line each with what it does; actions that change something."""

from __future__ import annotations

from textual.binding import Binding

_RUNS = {"cancel_run", "end_after", "hold_run", "retry_run", "halve_batch"}
_PLAN = {"plan", "send", "fix", "test_only"}
_FILES = {"edit", "start_copy", "export", "write_answer", "next_question"}
CHANGING = frozenset(_RUNS | _PLAN | _FILES | {"refresh_now", "doctor"})
"""Actions that change something, start a program or ask a cluster: not for those who only look."""


def key(
    keys: str, action: str, label: str, help: str, *, show: bool = False, urgent: bool = False
) -> Binding:
    """A binding: `show` puts it into the footer; an `urgent` one is over before the next key is looked at.

    The help page and the palette list the bindings that have a tooltip.
    """
    shown = "enter" if keys.startswith("enter") else None  # Textual has a sign for it that not every font has
    return Binding(keys, action, label, show, shown, priority=urgent, tooltip=help)
