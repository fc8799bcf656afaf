"""Every action once: its key, its label, its help. Bindings, palette, bottom line and help are made from it.

One key has one meaning everywhere; an action that a screen does not have is not bound there.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Action:
    """`name` is the method (``action_<name>``) with its argument; `keys` the first one shown.

    `places` are the screens or panes where it can be used; `foot` puts it into the bottom line there.
    `urgent` ones are over before the next key is looked at: what follows is text, not the next action.
    """

    name: str
    keys: str
    label: str
    help: str
    group: str
    places: tuple[str, ...] = ("main",)
    foot: bool = False
    urgent: bool = False

    @property
    def key_label(self) -> str:
        """How the key is written for a person."""
        names = {
            "left_square_bracket": "[",
            "right_square_bracket": "]",
            "question_mark": "?",
            "slash": "/",
            "colon": ":",
            "exclamation_mark": "!",
            "escape": "esc",
            "plus": "+",
            "minus": "-",
            "enter": "enter",
        }
        first = self.keys.split(",")[0]
        return names.get(first, first.replace("ctrl+", "^"))


ACTIONS: tuple[Action, ...] = (
    Action("pane('task')", "t", "Task", "what to do, why, what is still missing", "Panes"),
    Action("pane('runs')", "r", "Runs", "the runs of this task with their state and their numbers", "Panes"),
    Action("pane('log')", "l", "Log", "the output of the selected run as it grows", "Panes"),
    Action("pane('charts')", "c", "Charts", "speedup, efficiency and all other charts of this task", "Panes"),
    Action("pane('answers')", "a", "Answers", "the questions of this task and what you write", "Panes"),
    Action(
        "task_list", "g", "tasks", "go to the list of tasks; enter goes back to the pane", "Tasks", foot=True
    ),
    Action("step_task(-1)", "left_square_bracket", "task before", "go to the task before", "Tasks"),
    Action("step_task(1)", "right_square_bracket", "next task", "go to the task after", "Tasks", foot=True),
    Action(
        "plan", "s", "submit", "see the plan of this task, change it, check it, submit it", "Runs", foot=True
    ),
    Action(
        "halve_batch",
        "h",
        "halve batch",
        "after an out-of-memory: plan the task again with half the batch on every GPU count",
        "Runs",
    ),
    Action(
        "search_batch",
        "B",
        "search batch",
        "plan one job that finds the largest batch that fits one GPU",
        "Runs",
    ),
    Action("cancel_run", "k", "cancel run", "cancel the selected run, after asking", "Runs"),
    Action(
        "end_after",
        "K",
        "end after ...",
        "let Slurm end the job of the selected run after so many minutes, also when labtui is closed",
        "Runs",
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
        "enlarge_chart",
        "space",
        "one or four",
        "on large windows: the chosen chart alone, or four again",
        "Charts",
        ("charts",),
    ),
    Action(
        "streams", "o", "out/err", "show standard output, standard error, or both", "Log", ("log",), foot=True
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
    Action("search_next(1)", "n", "next", "go to the next match", "Log", ("log",)),
    Action("search_next(-1)", "N", "previous", "go to the match before", "Log", ("log",)),
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
        "open the job script, the training script or the answers in your editor",
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
        foot=True,
    ),
    Action(
        "next_question",
        "ctrl+n",
        "next question",
        "go to the next question without an answer and write",
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
    Action("scale_cell(2)", "plus", "double", "double the selected number", "Plan", ("plan",)),
    Action("scale_cell(0.5)", "minus", "halve", "halve the selected number", "Plan", ("plan",)),
    Action(
        "toggle_form",
        "j",
        "job form",
        "one job for all sizes, or one job per size",
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
        "shell words",
        "the plain shell commands this amounts to, ready to copy",
        "Looking behind",
        ("main", "plan"),
    ),
    Action(
        "remote_commands",
        "m",
        "asked the cluster",
        "what labtui asked the cluster, when, how long it took",
        "Looking behind",
        ("app",),
    ),
    Action(
        "problems",
        "exclamation_mark",
        "problems",
        "errors that are not over yet, with hints",
        "Looking behind",
        ("app",),
    ),
    Action(
        "refresh_now",
        "u",
        "update",
        "ask the cluster now; connect again if the line is down",
        "Looking behind",
        ("app",),
    ),
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


def actions_in(place: str) -> tuple[Action, ...]:
    """The actions a screen or pane has."""
    return tuple(action for action in ACTIONS if place in action.places)


def bindings(place: str) -> list[Binding]:
    """Textual's bindings for a screen or pane."""
    return [
        Binding(
            action.keys, action.name, action.label, show=False, tooltip=action.help, priority=action.urgent
        )
        for action in actions_in(place)
    ]


def foot(*places: str) -> list[Action]:
    """The few actions of the bottom line, those of the innermost place first, going to other tasks last."""
    shown: list[Action] = []
    for place in places:
        shown += [action for action in actions_in(place) if action.foot and action not in shown]
    shown.sort(key=lambda action: action.group == "Tasks")
    keys: set[str] = set()
    return [action for action in shown if not (action.keys in keys or keys.add(action.keys))]  # type: ignore[func-returns-value]
