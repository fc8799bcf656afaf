"""Every action once: its key, its label, its help. Bindings, palette, bottom line and help are made from it.

One key has one meaning everywhere; an action that a screen does not have is not bound there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Action:
    """`name` is the method (``action_<name>``) with its argument; `keys` the first one shown.

    `places` are the screens or panes where it can be used; `foot` puts it into the bottom line there.
    `urgent` ones are over before the next key is looked at: what follows is text, not the next action.
    `also` are words that the palette finds it by.
    """

    name: str
    keys: str
    label: str
    help: str
    group: str
    places: tuple[str, ...] = ("main",)
    foot: bool = False
    urgent: bool = False
    also: str = ""

    @property
    def id(self) -> str:
        """What the action is called in the settings file: ``cancel_run``, ``chart_next``, ``pane_task``."""
        method, _, argument = self.name.partition("(")
        argument = argument.strip("()'")
        return f"{method}_{_ARGUMENTS.get(argument, argument)}" if argument else method

    @property
    def key(self) -> str:
        """The first key it has now, as Textual calls it."""
        return _own_keys.get(self.id, self.keys).split(",")[0]

    @property
    def key_label(self) -> str:
        """How the key is written for a person."""
        return key_text(self.key or "full_stop")  # without a key of its own it is reached as the next step


_ARGUMENTS = {"1": "next", "-1": "previous", "2": "double", "0.5": "halve"}
_KEY_NAMES = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "full_stop": ".",
    "comma": ",",
    "slash": "/",
    "colon": ":",
    "asterisk": "*",
    "exclamation_mark": "!",
    "escape": "esc",
    "plus": "+",
    "minus": "-",
    "right": "→",
    "left": "←",
    "up": "↑",
    "down": "↓",
}
_own_keys: dict[str, str] = {}


def key_text(key: str) -> str:
    """How a key of Textual's is written for a person."""
    return _KEY_NAMES.get(key, key.replace("ctrl+", "^"))


def use_keys(keys: Mapping[str, str]) -> list[str]:
    """Take other keys for actions, by their ids; gives a sentence for each that cannot be taken.

    A single letter that does harm stays guarded: `GUARDED` actions need a key with a modifier.
    """
    _own_keys.clear()
    known = {action.id: action for action in ACTIONS}
    problems = []
    for name, key in keys.items():
        if name not in known:
            problems.append(f"The settings file names a key for {name}, but there is no such action.")
        elif name in GUARDED and len(key) == 1:
            problems.append(f"{known[name].label} is destructive, so its key cannot be a single letter.")
        else:
            _own_keys[name] = key
    return problems


def own_keys() -> dict[str, str]:
    """The keys that differ, by binding id."""
    return dict(_own_keys)


def named(name: str) -> Action | None:
    return next((action for action in ACTIONS if action.name == name), None)


GUARDED = frozenset({"cancel_run", "leave"})
CHANGING = frozenset(
    {
        *(
            "cancel_run",
            "end_after",
            "hold_run",
            "push",
            "send",
            "fix",
            "override",
            "test_only",
            "refresh_now",
        ),
        *("doctor", "edit", "start_copy", "export", "write_answer", "next_question"),
        "notifications",
    }
)
"""Methods of actions that change something, start a program or ask a cluster: not for those who only look."""


_pane = partial(Action, group="Panes")
_task = partial(Action, group="Tasks")
_run = partial(Action, group="Runs")
_chart = partial(Action, group="Charts", places=("charts",))
_log = partial(Action, group="Log", places=("log",))
_plan = partial(Action, group="Plan", places=("plan",))
_hood = partial(Action, group="Under the hood", places=("app",))
_everywhere = partial(Action, group="labtui", places=("app",))
"""An action of a group, and of the place that the group belongs to."""

ACTIONS: tuple[Action, ...] = (
    _pane("pane('task')", "t", "Task", "what to do, why, what is still missing"),
    _pane("pane('runs')", "r", "Runs", "the runs of this task with their state and their numbers"),
    _pane("pane('log')", "l", "Log", "the output of the selected run as it grows"),
    _pane("pane('charts')", "c", "Charts", "speedup, efficiency and all other charts of this task"),
    _pane("pane('answers')", "a", "Answers", "the questions of this task and what you write"),
    _task("task_list", "g", "tasks", "go to the list of tasks; enter goes back to the pane", foot=True),
    _task(
        "do_next",
        "full_stop",
        "do it",
        "do the next step, as the card says",
        also="next step continue what now",
    ),
    _task("next_open_task", "", "next task", "go to the next task that is not done"),
    _task("go_to_missing", "", "go to the run", "go to the task whose run is missing for this one"),
    _task("step_task(-1)", "left_square_bracket", "previous task", "go to the previous task"),
    _task("step_task(1)", "right_square_bracket", "following task", "go to the following task"),
    _run(
        "plan",
        "s",
        "submit",
        "see the plan of this task, change it, check it, submit it",
        also="plan sbatch run start launch job",
    ),
    _run(
        "halve_batch",
        "h",
        "halve batch",
        "after running out of memory: plan the task again with half the batch on every GPU count",
        also="oom out of memory gpu memory smaller batch",
    ),
    _run(
        "cancel_run",
        "ctrl+k",
        "cancel run",
        "cancel the selected run, after asking",
        also="cancel stop kill scancel abort end job",
    ),
    _run(
        "mark_run",
        "asterisk",
        "mark run",
        "mark the selected run: cancel, hold, limit and run again then apply to all marked runs; esc unmarks",
        also="select several multiple all",
    ),
    _run(
        "end_after",
        "T",
        "time limit",
        "have Slurm end the selected run's job after so many minutes, even when labtui is closed",
        also="end after limit minutes scontrol timelimit",
    ),
    _run(
        "retry_run",
        "R",
        "run again",
        "plan the selected run again: twice the time after a timeout, half the batch after running out of memory",
        also="retry again repeat resubmit time limit failed",
    ),
    _run(
        "hold_run",
        "H",
        "hold/release",
        "hold the selected run until it is released; release it",
        also="hold release wait scontrol",
    ),
    _run(
        "toggle_failed",
        "F",
        "hide failed",
        "hide runs that failed or were cancelled, or show them again",
        also="hide failed cancelled show filter",
    ),
    _run("push", "p", "push", "send the scripts to the cluster now (unchanged files are skipped)"),
    _chart("chart(1)", "right", "next chart", "show the next chart", foot=True),
    _chart("chart(-1)", "left", "previous chart", "show the previous chart"),
    _chart(
        "chart_kind",
        "y",
        "bars/lines",
        "draw the charts against the GPU count as bars, or as lines",
        foot=True,
    ),
    _chart("chart_network(1)", "down", "next network", "the charts of the next network alone"),
    _chart(
        "chart_network(-1)",
        "up",
        "previous network",
        "the charts of the previous network; before the first, all networks together",
    ),
    _chart(
        "scroll_numbers(1)",
        "pagedown",
        "more numbers",
        "the numbers and notes of the charts that do not fit on the screen",
    ),
    _chart("scroll_numbers(-1)", "pageup", "numbers above", "the numbers and notes above"),
    _chart(
        "enlarge_chart", "space", "one or four", "on large windows: the chosen chart alone, or four again"
    ),
    _log(
        "streams",
        "o",
        "out/err",
        "show standard output, standard error, or both",
        foot=True,
    ),
    _log("search", "slash", "search", "find a text in the log", foot=True),
    _log(
        "records",
        "z",
        "records",
        "show the machine-readable records (:::MLLOG) of the log, or fold them away; search still finds them",
        foot=True,
    ),
    _log("search_next(1)", "n", "next match", "go to the next match"),
    _log("search_next(-1)", "N", "previous match", "go to the previous match"),
    _log("follow", "end", "follow", "follow the end of the log; scrolling up stops it", foot=True),
    Action(
        "edit",
        "e",
        "edit",
        "open the job script, the training script, a copy of the log or the answers in your editor",
        "Files",
        ("main", "plan"),
    ),
    Action(
        "start_copy",
        "b",
        "begin copy",
        "start the script a task asks you to make from another; later: how yours differs",
        "Files",
    ),
    Action(
        "export",
        "x",
        "export",
        "write tables, charts and the slide deck into the lab folder",
        "Files",
        also="deck slides pdf powerpoint csv plots hand in",
    ),
    Action("write_answer", "enter", "write", "edit the chosen answer", "Files", ("answers",), foot=True),
    Action(
        "next_question",
        "ctrl+n",
        "next answer",
        "write the next answer that is missing; after the last one, go to the next task",
        "Files",
        ("answers", "typing"),
        foot=True,
        urgent=True,
    ),
    Action("leave_text", "escape", "back", "leave an answer's text", "Files", ("typing",), foot=True),
    _plan("change_cell", "enter", "change", "change the selected number", foot=True),
    _plan("send", "s", "submit", "submit what is shown, after asking", foot=True),
    _plan("fix", "f", "fix", "show what a fix would change, then apply it", foot=True),
    _plan("next_view", "v", "view", "findings, job script, files, difference", foot=True),
    _plan(
        "test_only",
        "i",
        "ask Slurm",
        "ask the cluster whether it would accept this (`sbatch --test-only`)",
        foot=True,
    ),
    _plan(
        "override",
        "O",
        "override",
        "submit in spite of the chosen finding; your reason appears in the hand-in; again: take it back",
        foot=True,
        also="accept ignore finding reason",
    ),
    _plan("scale_cell(2)", "plus", "double", "double the selected number"),
    _plan("scale_cell(0.5)", "minus", "halve", "halve the selected number"),
    _plan(
        "toggle_form",
        "J",
        "job form",
        "one job for all sizes or one per size; torchrun or srun for PyTorch; or a job file of your own in slurm/",
        foot=True,
    ),
    _plan("drop_row", "d", "leave out", "leave the selected run out of this plan, or take it back"),
    _plan("back", "escape", "back", "leave the plan; nothing is submitted", foot=True),
    Action(
        "shell_commands",
        "w",
        "by hand",
        "the shell commands that do the same by hand, ready to copy",
        "Under the hood",
        ("main", "plan"),
    ),
    _hood(
        "doctor",
        "D",
        "doctor",
        "check the connection, the account, the queues and the paths on the cluster",
        also="doctor check diagnose connection ssh paths account",
    ),
    _hood(
        "all_jobs",
        "Q",
        "my jobs",
        "all your jobs in the queue, including those labtui did not submit",
        also="jobs squeue queue all status",
    ),
    _hood(
        "remote_commands",
        "m",
        "requests",
        "every command labtui ran on the cluster, when, and how long it took",
    ),
    _hood("problems", "exclamation_mark", "problems", "problems that are not resolved yet, with hints"),
    _hood("refresh_now", "u", "update", "ask the cluster now; connect again when the connection is lost"),
    _everywhere(
        "notifications",
        "M",
        "notifications",
        "notify of a job's start, end and failure on the desktop and the terminal, on the terminal only, or not at all",
        also="bell notify mute silent off sound desktop",
    ),
    _everywhere("move('down')", "j", "down", "same as the arrow key, in lists, tables and texts"),
    _everywhere("move('up')", "k", "up", "same as the arrow key, in lists, tables and texts"),
    _everywhere("palette", "colon,ctrl+p", "palette", "find an action by its name", foot=True),
    _everywhere("help", "question_mark,f1", "help", "this page", foot=True),
    _everywhere(
        "leave", "q,ctrl+q", "quit", "quit; everything is stored, and jobs continue on the cluster", foot=True
    ),
)


def only_looks(name: str) -> bool:
    """Whether an action, by its name or method, may be done where nothing may be changed; those of widgets may."""
    return name.partition("(")[0].rpartition(".")[2] not in CHANGING


def actions_in(place: str) -> tuple[Action, ...]:
    """The actions a screen or pane has."""
    return tuple(action for action in ACTIONS if place in action.places)


def bindings(place: str) -> list[Binding]:
    """Textual's bindings for a screen or pane."""
    return [
        Binding(
            action.keys,
            action.name,
            action.label,
            show=False,
            tooltip=action.help,
            priority=action.urgent,
            id=action.id,
        )
        for action in actions_in(place)
        if action.keys
    ]


def foot(*places: str, first: Sequence[str] = ()) -> list[Action]:
    """The few actions of the bottom line: those that act on what is chosen `first`, then those of the innermost place.

    Going to other tasks comes last.
    """
    shown = [action for name in first if (action := named(name)) is not None]
    rest: list[Action] = []
    for place in places:
        rest += [action for action in actions_in(place) if action.foot and action not in rest]
    rest.sort(key=lambda action: action.group == "Tasks")
    kept: dict[str, Action] = {}
    for action in (*shown, *rest):
        kept.setdefault(action.keys, action)
    return list(kept.values())
