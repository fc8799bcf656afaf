"""The door: `labtui` and its verbs.

Only the module of the verb that was asked for is imported; `labtui --version` and `--help` load
neither Textual nor pandas nor paramiko. Exit codes: 0 done, 1 the answer is "no", 2 wrong use or
cannot, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from labtui.errors import LabError, UsageError
from labtui.stdio import guarded

VERBS: dict[str, str] = {
    "practice": "open labtui on the rehearsal cluster inside this program",
    "init": "make a lab folder",
    "labs": "list, show and check lab editions",
    "doctor": "find what would go wrong, before it does",
    "push": "send scripts to the cluster (unchanged files cost nothing)",
    "submit": "submit the runs of a task",
    "watch": "follow the runs until they end",
    "queue": "show the jobs and the waiting line",
    "log": "show a run's output",
    "cancel": "cancel a run",
    "check": "say which tasks are done, by evidence",
    "parse": "read training logs and print what they say",
    "results": "epoch time, throughput, speedup and efficiency, with their uncertainty",
    "plot": "draw the charts into files",
    "export": "write tables, plots and the slide deck",
    "repair": "rebuild the database from the mirrors",
}


def _run_verb(name: str, arguments: Sequence[str]) -> int:
    from labtui.parser import Parser

    module = importlib.import_module(f"labtui.verbs.{name}")
    parser = Parser(prog=f"labtui {name}", description=VERBS[name].capitalize() + ".")
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(arguments)))


def _dispatch(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in VERBS:
        return _run_verb(arguments[0], arguments[1:])
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and not os.path.exists(first):  # noqa: PTH110 (pathlib is not needed to start)
        _refuse_misspelt(first)
    from labtui.verbs import open_screen

    if len(arguments) <= 1 and not first.startswith("-"):
        return open_screen.open_folder(first or None)  # no parser is needed to start
    from labtui.parser import overview

    return open_screen.open_folder(overview(VERBS).parse_args(arguments).folder)


def _refuse_misspelt(word: str) -> None:
    """A word that is nearly a verb is meant as one."""
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=1, cutoff=0.7)
    if near:
        raise UsageError(
            f"labtui has no verb {word!r}.", f"Did you mean `labtui {near[0]}`? `labtui --help` lists them."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run labtui; returns the exit code. Errors become a sentence and a hint on stderr."""
    with guarded():
        return _guarded_main(arguments)


def _guarded_main(arguments: Sequence[str] | None) -> int:
    try:
        return _dispatch(sys.argv[1:] if arguments is None else arguments)
    except LabError as error:
        print(f"labtui: {error.sentence}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our pipe went away (`labtui results | head`): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        print(f"labtui: {what}{error.strerror or error}.", file=sys.stderr)
        return 2
    except Exception as error:
        print(f"labtui: Something went wrong inside labtui ({type(error).__name__}).", file=sys.stderr)
        if written := _keep(error):
            print(f"  hint: the details are in {written}; please report them.", file=sys.stderr)
        return 2


def _keep(error: Exception) -> str:
    """Write the traceback of a bug into a file for its owner alone; its path, empty when that failed, too."""
    import tempfile
    import traceback

    try:
        handle, path = tempfile.mkstemp(prefix="labtui-problem-", suffix=".log")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123 (a descriptor)
            traceback.print_exception(error, file=file)
    except OSError:
        return ""
    return path
