"""Every action once: its key, its label, its help. Bindings, palette, bottom line and help are made from it.

One key has one meaning everywhere; an action that a screen does not have is not bound there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
            problems.append(f"{known[name].label} does harm, so its key is not a single letter.")
        else:
            _own_keys[name] = key
    return problems


def own_keys() -> dict[str, str]:
    """The keys that differ, by binding id."""
    return dict(_own_keys)


def named(name: str) -> Action | None:
    return next((action for action in ACTIONS if action.name == name), None)


GUARDED = frozenset({"cancel_run", "leave"})
LOOKING = frozenset(
    {
        *(
            "pane",
            "task_list",
            "do_next",
            "next_open_task",
            "step_task",
            "jump",
            "palette",
            "help",
            "leave",
            "move",
        ),
        *(
            "chart",
            "chart_kind",
            "chart_network",
            "enlarge_chart",
            "scroll_numbers",
            "streams",
            "records",
            "search",
            "search_next",
        ),
        *(
            "select_lines",
            "copy_lines",
            "follow",
            "leave_text",
            "shell_commands",
            "all_jobs",
            "remote_commands",
        ),
        *(
            "problems",
            "plan",
            "halve_batch",
            "search_batch",
            "retry_run",
            "change_cell",
            "scale_cell",
            "toggle_form",
        ),
        *("drop_row", "next_view", "back", "mark_run", "toggle_failed", "wrap_lines"),
    }
)
"""Methods of actions that change nothing, start no program and ask no cluster: the ones for those who only look."""


ACTIONS: tuple[Action, ...] = (
    Action("pane('task')", "t", "Task", "what to do, why, what is still missing", "Panes"),
    Action("pane('runs')", "r", "Runs", "the runs of this task with their state and their numbers", "Panes"),
    Action("pane('log')", "l", "Log", "the output of the selected run as it grows", "Panes"),
    Action("pane('charts')", "c", "Charts", "speedup, efficiency and all other charts of this task", "Panes"),
    Action("pane('answers')", "a", "Answers", "the questions of this task and what you write", "Panes"),
    Action(
        "task_list", "g", "tasks", "go to the list of tasks; enter goes back to the pane", "Tasks", foot=True
    ),
    Action(
        "do_next",
        "full_stop",
        "do it",
        "do the next step, as the card says",
        "Tasks",
        also="next step continue what now",
    ),
    Action(
        "next_open_task",
        "",
        "next task",
        "go to the next task that is not done",
        "Tasks",
    ),
    Action("step_task(-1)", "left_square_bracket", "task before", "go to the task before", "Tasks"),
    Action("step_task(1)", "right_square_bracket", "task after", "go to the task after", "Tasks"),
    Action(
        "plan",
        "s",
        "submit",
        "see the plan of this task, change it, check it, submit it",
        "Runs",
        also="plan sbatch run start launch job",
    ),
    Action(
        "halve_batch",
        "h",
        "halve batch",
        "after an out-of-memory: plan the task again with half the batch on every GPU count",
        "Runs",
        also="oom out of memory gpu memory smaller batch",
    ),
    Action(
        "search_batch",
        "B",
        "search batch",
        "plan one job that finds the largest batch that fits one GPU",
        "Runs",
        also="oom memory largest maximum",
    ),
    Action(
        "cancel_run",
        "ctrl+k",
        "cancel run",
        "cancel the selected run, after asking",
        "Runs",
        also="cancel stop kill scancel abort end job",
    ),
    Action(
        "mark_run",
        "asterisk",
        "mark run",
        "mark the selected run: cancel, hold, limit and run again are then for all marked ones; esc unmarks",
        "Runs",
        also="select several multiple all",
    ),
    Action(
        "end_after",
        "T",
        "time limit",
        "let Slurm end the job of the selected run after so many minutes, also when labtui is closed",
        "Runs",
        also="end after limit minutes scontrol timelimit",
    ),
    Action(
        "retry_run",
        "R",
        "run again",
        "plan the selected run again: twice the time after a time-out, half the batch after an out-of-memory",
        "Runs",
        also="retry again repeat resubmit time limit failed",
    ),
    Action(
        "hold_run",
        "H",
        "hold/release",
        "let the selected run wait until it is released; release it",
        "Runs",
        also="hold release wait scontrol",
    ),
    Action(
        "toggle_failed",
        "F",
        "hide failed",
        "leave runs that failed or were cancelled out of the table, or show them again",
        "Runs",
        also="hide failed cancelled show filter",
    ),
    Action("push", "p", "push", "send the scripts to the cluster now (unchanged files cost nothing)", "Runs"),
    Action("chart(1)", "right", "next chart", "show the next chart", "Charts", ("charts",), foot=True),
    Action("chart(-1)", "left", "previous chart", "show the chart before", "Charts", ("charts",)),
    Action(
        "chart_kind",
        "y",
        "bars/lines",
        "draw the charts against the GPU count as bars, or as lines",
        "Charts",
        ("charts",),
        foot=True,
    ),
    Action(
        "chart_network(1)",
        "down",
        "next network",
        "the charts of the next network alone",
        "Charts",
        ("charts",),
    ),
    Action(
        "chart_network(-1)",
        "up",
        "previous network",
        "the charts of the network before; before the first come all together",
        "Charts",
        ("charts",),
    ),
    Action(
        "scroll_numbers(1)",
        "pagedown",
        "more numbers",
        "the numbers and notes of the charts that do not fit on the screen",
        "Charts",
        ("charts",),
    ),
    Action(
        "scroll_numbers(-1)", "pageup", "numbers before", "the numbers and notes above", "Charts", ("charts",)
    ),
    Action(
        "enlarge_chart",
        "space",
        "one or four",
        "on large windows: the chosen chart alone, or four again",
        "Charts",
        ("charts",),
    ),
    Action(
        "streams",
        "o",
        "out/err",
        "show standard output, standard error, or both; with another run marked (*), its output beside this one's",
        "Log",
        ("log",),
        foot=True,
        also="beside compare two logs",
    ),
    Action("search", "slash", "search", "find a text in the log", "Log", ("log",), foot=True),
    Action(
        "records",
        "z",
        "records",
        "show the machine-readable records (:::MLLOG) of the log, or fold them away; searching finds them, too",
        "Log",
        ("log",),
        foot=True,
    ),
    Action("search_next(1)", "n", "next match", "go to the next match", "Log", ("log",)),
    Action("search_next(-1)", "N", "match before", "go to the match before", "Log", ("log",)),
    Action(
        "select_lines",
        "V",
        "select",
        "select lines of the log: the arrow keys, page up and down, home and end take in more",
        "Log",
        ("log",),
        foot=True,
        also="mark visual lines",
    ),
    Action(
        "copy_lines",
        "C",
        "copy",
        "copy the selected lines to the clipboard",
        "Log",
        ("log",),
        also="clipboard",
    ),
    Action(
        "save_lines",
        "S",
        "save",
        "write the selected lines into a file in the lab folder",
        "Log",
        ("log",),
        also="file part",
    ),
    Action(
        "wrap_lines",
        "W",
        "wrap",
        "show the selected lines, or those on the screen, on a page that wraps long ones",
        "Log",
        ("log",),
        foot=True,
        also="wrap long lines full width",
    ),
    Action(
        "follow",
        "end",
        "follow",
        "follow the end of the log; scrolling up stops it",
        "Log",
        ("log",),
        foot=True,
    ),
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
        "write the next answer that is missing; after the last one go on with the next task",
        "Files",
        ("answers", "typing"),
        foot=True,
        urgent=True,
    ),
    Action("leave_text", "escape", "back", "leave an answer's text", "Files", ("typing",), foot=True),
    Action("change_cell", "enter", "change", "change the selected number", "Plan", ("plan",), foot=True),
    Action("send", "s", "submit", "submit what is shown, after asking", "Plan", ("plan",), foot=True),
    Action("fix", "f", "fix", "show what a fix would change, then apply it", "Plan", ("plan",), foot=True),
    Action("next_view", "v", "view", "findings, job script, files, difference", "Plan", ("plan",), foot=True),
    Action(
        "test_only",
        "i",
        "ask Slurm",
        "ask the cluster whether it would accept this (`sbatch --test-only`)",
        "Plan",
        ("plan",),
        foot=True,
    ),
    Action(
        "override",
        "O",
        "override",
        "submit in spite of the chosen finding: your reason is kept and stands in the appendix; again: take it back",
        "Plan",
        ("plan",),
        foot=True,
        also="accept ignore finding reason",
    ),
    Action("scale_cell(2)", "plus", "double", "double the selected number", "Plan", ("plan",)),
    Action("scale_cell(0.5)", "minus", "halve", "halve the selected number", "Plan", ("plan",)),
    Action(
        "toggle_form",
        "J",
        "job form",
        "one job for all sizes, one job per size, or a job file of your own in slurm/",
        "Plan",
        ("plan",),
        foot=True,
    ),
    Action(
        "drop_row",
        "d",
        "leave out",
        "leave the selected run out of this plan, or take it back",
        "Plan",
        ("plan",),
    ),
    Action("back", "escape", "back", "leave the plan; nothing is submitted", "Plan", ("plan",), foot=True),
    Action(
        "shell_commands",
        "w",
        "by hand",
        "the shell commands that do the same by hand, ready to copy",
        "Under the hood",
        ("main", "plan"),
    ),
    Action(
        "doctor",
        "D",
        "doctor",
        "check the connection, the account, the queues and the paths on the cluster",
        "Under the hood",
        ("app",),
        also="doctor check diagnose connection ssh paths account",
    ),
    Action(
        "jump",
        "ctrl+o",
        "jump",
        "show a letter on every part of the screen; the letter goes there",
        "labtui",
        ("app",),
        also="focus go to",
    ),
    Action(
        "all_jobs",
        "Q",
        "my jobs",
        "every living job of yours on the cluster, also those labtui did not send",
        "Under the hood",
        ("app",),
        also="jobs squeue queue all status",
    ),
    Action(
        "remote_commands",
        "m",
        "requests",
        "every command labtui ran on the cluster, when, and how long it took",
        "Under the hood",
        ("app",),
    ),
    Action(
        "problems",
        "exclamation_mark",
        "problems",
        "errors that are not over yet, with hints",
        "Under the hood",
        ("app",),
    ),
    Action(
        "refresh_now",
        "u",
        "update",
        "ask the cluster now; connect again when the connection is lost",
        "Under the hood",
        ("app",),
    ),
    Action(
        "notifications",
        "M",
        "notifications",
        "tell a job's start, end and failure on the desktop and the terminal, on the terminal alone, or not at all",
        "labtui",
        ("app",),
        also="bell notify mute silent off sound desktop",
    ),
    Action("move('down')", "j", "down", "as the arrow key, in lists, tables and texts", "labtui", ("app",)),
    Action("move('up')", "k", "up", "as the arrow key, in lists, tables and texts", "labtui", ("app",)),
    Action("palette", "colon,ctrl+p", "palette", "find an action by its name", "labtui", ("app",), foot=True),
    Action("help", "question_mark,f1", "help", "this page", "labtui", ("app",), foot=True),
    Action(
        "leave",
        "q,ctrl+q",
        "quit",
        "leave; everything is stored and goes on where it is",
        "labtui",
        ("app",),
        foot=True,
    ),
)


def only_looks(name: str) -> bool:
    """Whether an action, by its name or method, may be done where nothing may be changed; those of widgets may."""
    method = name.partition("(")[0].rpartition(".")[2]
    return method in LOOKING or all(each.name.partition("(")[0] != method for each in ACTIONS)


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
