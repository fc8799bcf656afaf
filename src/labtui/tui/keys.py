"""Bindings as the panes declare them: one line each, with what it does and the words that the palette finds it by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding

GUARDED = frozenset({"cancel_run", "leave"})
"""They do harm: their keys must not be a single letter."""
CHANGING = frozenset(
    [
        "cancel_run",
        "end_after",
        "hold_run",
        "retry_run",
        "halve_batch",
        "push",
        "send",
        "fix",
        "override",
        "test_only",
        "refresh_now",
        "doctor",
        "edit",
        "start_copy",
        "export",
        "write_answer",
        "next_question",
        "notifications",
        "plan",
    ]
)
"""Actions that change something, start a program or ask a cluster: not for those who only look."""
ALSO = {
    "plan": "submit sbatch run start launch job",
    "cancel_run": "stop kill scancel abort end job",
    "halve_batch": "oom out of memory smaller",
    "retry_run": "retry repeat resubmit failed",
    "end_after": "end after limit minutes",
    "hold_run": "hold release wait",
    "export": "deck slides pdf powerpoint csv plots hand in",
    "doctor": "check diagnose connection ssh paths account",
    "all_jobs": "squeue queue status",
    "notifications": "bell mute silent sound desktop",
    "do_next": "next step continue what now",
}
_ARGUMENTS = {"1": "next", "-1": "previous", "2": "double", "0.5": "halve"}


def binding_id(action: str) -> str:
    """What an action is called in the settings file: ``cancel_run``, ``pane_task``, ``step_task_next``."""
    method, _, argument = action.partition("(")
    method = method.rpartition(".")[2]
    argument = argument.strip("()'")
    return f"{method}_{_ARGUMENTS.get(argument, argument)}" if argument else method


def key(
    keys: str, action: str, label: str, help: str, *, show: bool = False, urgent: bool = False
) -> Binding:
    """A binding: `show` puts it into the footer; an `urgent` one is over before the next key is looked at."""
    shown = "enter" if keys.startswith("enter") else None  # Textual has a sign for it that not every font has
    return Binding(keys, action, label, show, shown, priority=urgent, tooltip=help, id=binding_id(action))


def own_keys(keys: Mapping[str, str], bindings: Iterable[Binding]) -> tuple[dict[str, str], list[str]]:
    """The student's own keys that can be taken, by binding id, and a sentence for each that cannot."""
    known = {each.id for each in bindings}
    taken, problems = {}, []
    for name, own in keys.items():
        if name not in known:
            problems.append(f"The settings file names a key for {name}, but there is no such action.")
        elif name in GUARDED and len(own) == 1:
            problems.append(f"{name} does harm, so its key cannot be a single letter.")
        else:
            taken[name] = own
    return taken, problems
