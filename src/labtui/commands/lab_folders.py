"""`labtui init` makes a lab folder, `check` says which tasks are done, `labs` lists, shows and checks editions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from labtui.cluster.local_files import expand_home
from labtui.commands import options, terminal
from labtui.commands.terminal import print_json, print_line, print_wrapped, say
from labtui.domain import model, run
from labtui.domain.errors import LabError, UsageError, failure
from labtui.domain.profile import DATA_FOLDER, Profile
from labtui.domain.terminal_text import printable
from labtui.lab.checks import TaskCheck, progress
from labtui.lab.edition import Edition
from labtui.lab.plan import task_of
from labtui.preflight.pasted import is_no_account
from labtui.results.cost import lab_cost
from labtui.session import lab_cluster, labs
from labtui.session.folder import LabFolder, refuse_lab_folder
from labtui.session.opening import lock_folder
from labtui.session.settings import Settings, cluster_user, load_profile, profile_of_host, with_changes
from labtui.slurm.job_script import render
from labtui.slurm.site_profile import Choices, SiteQuestion
from labtui.tui.view import TaskLine, View

if TYPE_CHECKING:
    from labtui.doctor.setup import SiteSetup


def init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", nargs="?", default=".", metavar="DIR", help="folder to make (default: here)")
    parser.add_argument("--lab", metavar="ID", help="the lab edition, or a .toml file (see `labtui labs`)")
    parser.add_argument("--data-dir", default="", metavar="REMOTE_DIR", help="the lab's data on the cluster")
    parser.add_argument("--container", default="", metavar="REMOTE_FILE", help="container on the cluster")
    words = "with --host: the module, or the absolute path of the Python, that has TensorFlow or PyTorch"
    parser.add_argument("--python", type=options.python, default="", metavar="MODULE|PATH", help=words)
    parser.add_argument("--reservation", default="", help="Slurm reservation")
    parser.add_argument("--group", default="", metavar="NAME", help="your group's name, for the slides")


def run_init(args: argparse.Namespace) -> int:
    """Make the folder and say what to do next."""
    from labtui.doctor.setup import PROFILE_FILE

    if not args.lab:
        raise failure("name-lab", known=", ".join(item.id for item in labs.list_editions()))
    edition = labs.load_edition(args.lab)
    cluster = id_or_path(args.cluster) if args.cluster else profile_of_host(args.host)
    keys = (*options.CONNECTION_KEYS, "data_dir", "container", "reservation", "group")
    values = {key: getattr(args, key) for key in keys}
    settings = with_changes(Settings(edition=id_or_path(args.lab), profile=cluster or "slurm"), **values)
    brought = {}
    if cluster:
        profile = load_profile(cluster)
    else:
        setup = _ask_cluster(args, settings, edition)
        own = dict.fromkeys(lab_cluster.IN_PROFILE, "") | {"profile": PROFILE_FILE, "qos": setup.qos}
        profile, settings, brought = setup.profile, with_changes(settings, **own), {PROFILE_FILE: setup.text}
    folder = LabFolder.create(args.dir, settings, wanted=edition.needs, extra=brought)
    print(folder.path)
    say(f"A lab folder for {edition.title}, on {profile.title}.")
    if is_no_account(settings.account):
        say(f"Your account is missing: set `account` (now {settings.account}) in {folder.settings_path}.")
    if not (settings.user or profile.user):
        say(f"You log in as {cluster_user(settings, profile)}; to change that, set `user` in lab.toml.")
    if settings.data_dir and not settings.data_dir.startswith("/"):
        say(f"{settings.data_dir} is looked for in your home: set data_dir to the absolute path.")
    for error in _faults(folder, settings, profile):
        say(f"Still to do: {error.sentence} {error.hint}")
    say(f'Next: `cd "{folder.path}"`, then `labtui doctor`.')
    return 0


def _faults(folder: LabFolder, settings: Settings, profile: Profile) -> Iterator[LabError]:
    """What can be seen to be wrong without the network, in the settings or with the folder's disk."""
    from labtui.cluster.target import is_here

    tries: tuple[Callable[[], object], ...] = (
        lambda: lab_cluster.check_settings(settings, profile),
        lambda: render("#SBATCH @{account}" if settings.account else "", {"account": settings.account}),
        lambda: lock_folder(folder.lock_path),  # which is released at once, as nothing keeps it
    )
    for attempt in tries:
        try:
            attempt()
        except LabError as error:
            yield error
    if settings.identity and not is_here(expand_home(settings.identity)):
        yield failure("key-missing", path=settings.identity)


def id_or_path(name: str) -> str:
    """An id unchanged, a file as its absolute path, so that the setting works from any directory."""
    if name.endswith(".toml") or "/" in name or "\\" in name:
        return str(expand_home(name).resolve())
    return name


# --------------------------------------------------------------------------- a cluster without a profile


def _ask_cluster(args: argparse.Namespace, settings: Settings, edition: Edition) -> SiteSetup:
    """Read the site's settings from the cluster, and ask the student for what the lab needs and it cannot tell."""
    from labtui.doctor.setup import set_up_site
    from labtui.session.settings import list_profiles

    if not args.host:
        raise failure("name-cluster", known=", ".join(list_profiles()))
    refuse_lab_folder(args.dir)
    same = {name: getattr(args, name) for name in ("account", "qos", "data_dir")}
    needs = labs.requirements_of(None, settings, load_profile("slurm"), edition)
    data, training = " and ".join(needs.image_sets), args.container or args.python
    data = DATA_FOLDER if needs.data_dir else data
    choices = Choices(queue=args.partition, training=training, framework=needs.framework, data=data, **same)
    connection = lab_cluster.connection_to(settings, load_profile("slurm"), terminal.TerminalPrompter())
    try:
        connection.connect()
        say(f"Reading the site's settings on {connection.host} ...")
        setup = set_up_site(connection, settings.host, choices, _ask_student)
    finally:
        connection.close()
    for sentence in lab_cluster.site_words(setup):
        say(sentence)
    say("Written to cluster.toml, each value with its source; correct what is wrong.")
    return setup


def _ask_student(question: SiteQuestion, accept: Callable[[str], Choices]) -> Choices:
    """What `accept` makes of the student's answer, asked for until it is valid; of none without a terminal."""
    if not terminal.at_terminal():
        return accept("")
    for number, option in enumerate(question.options, 1):
        say(f"  {number}  {option}")
    default = f" [{question.default}]" if question.default else ""
    while True:
        try:
            return accept(terminal.read_line(f"{question.text}{default}"))
        except (ValueError, UsageError) as error:
            say(f"That is not valid: {str(error).rstrip('.')}.")


# --------------------------------------------------------------------------- the tasks of a folder


def check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="*", metavar="TASK", help="a task's number (default: all of them)")


def run_check(args: argparse.Namespace) -> int:
    """Check tasks by the evidence in the folder, without the cluster; return 1 if one of them is not done."""
    with terminal.OpenLab(args, view_only=True) as lab:
        edition = lab.session.edition
        task_ids = [task_of(edition, name).id for name in args.task] or [task.id for task in edition.tasks]
        view = terminal.checked(lab, View.of(lab.session, edition=edition))
        lines = {line.task_id: line for line in view.tasks}
        bill = lab_cost(lab.state)
    far = progress(edition, tuple(view.checks.values()))
    wanted = [check for check in view.checks.values() if check.task_id in task_ids]
    if args.json:
        rows = [msgspec.to_builtins(check) | {"title": lines[check.task_id].title} for check in wanted]
        print_json({"lab": edition.id, "tasks": rows, "progress": far, "spent": bill})
    else:
        printed: set[str] = set()
        for check in wanted:
            notes = tuple(each for each in check.notes if each not in printed)  # each once
            _print_task(lines[check.task_id], replace(check, notes=notes), full=bool(args.task))
            printed.update(notes)
        if not args.task:
            where = f"; next is task {far.current}" if far.current else ""
            print(f"{far.done} of {far.total} tasks done{where}.")
    return 0 if all(check.done for check in wanted) else 1


def _print_task(line: TaskLine, check: TaskCheck, *, full: bool) -> None:
    word = line.word + (run.mark_words(check.mark) if check.status == "done" else "")
    print_wrapped(printable(f"{line.sign} {check.task_id:<6} {word:<16} {line.title}"))
    lacks = [item for item in check.items if item.missing]
    yes = [item for item in check.items if not item.missing]
    for item in (*yes, *lacks) if full else ():  # what is missing last: it stays in the window
        mark = "outdated" if item.met and item.stale else "yes" if item.met else "no"
        word = "" if item.met else "does not count: " if item.mark == "small" else "so far: "
        shown = f"  [{word}{item.evidence}]" if item.evidence else ""
        print_wrapped(printable(f"         {mark:<8} {item.sentence}{shown}"))
        if item.evidence and item.missing not in ("", check.missing):
            print_wrapped(printable(f"                  {item.missing}"))
    for note in check.notes:
        print_wrapped(printable(f"         note: {note}"))
    if check.missing:
        more = f" And {len(lacks) - 1} more: `labtui check {check.task_id}`." * (len(lacks) > 1)
        far = f"{len(yes)} of {len(check.items)} done. {check.missing}" if full else f"{check.missing}{more}"
        print_wrapped(printable(f"         {far}"))


# --------------------------------------------------------------------------- editions


def labs_arguments(parser: argparse.ArgumentParser) -> None:
    words = "show this lab's tasks; `check FILE...` checks edition files: the schema, and the names in them"
    parser.add_argument("names", nargs="*", metavar="LAB", help=words)


def run_labs(args: argparse.Namespace) -> int:
    """List editions or the tasks of some, or check files."""
    if args.names[:1] == ["check"]:
        return _check(args)
    entries = list(map(labs.load_edition, args.names)) or labs.list_editions()
    if args.json:
        rows = [{"id": e.id, "title": e.title, "term": e.term, "tasks": len(e.tasks)} for e in entries]
        print_json({"labs": rows})
        return 0
    width = max(len(entry.id) for entry in entries)
    for entry in entries:
        tail = f"{entry.title} ({entry.term}, {len(entry.tasks)} tasks)"
        print_wrapped(printable(f"{entry.id:<{width}}  {tail}"), hang=width + 2)
        for task in entry.tasks if args.names else ():
            print_wrapped(printable(f"  {task.id:<6}  {task.title}"), hang=10)
    say("`labtui init DIR --lab ID --cluster PROFILE` makes a lab folder.")
    return 0


def _check(args: argparse.Namespace) -> int:
    """Check each file and print what is wrong, with its line; return 1 if there is something."""
    answers = [_checked(Path(name)) for name in args.names[1:]]
    if not answers:
        raise failure("no-file-named")
    if args.json:
        print_json({"files": answers})
    for answer in answers if not args.json else ():
        if answer["ok"]:
            print_line(f"ok   {answer['file']}: {answer['id']}, {model.plural(answer['tasks'], 'task')}")
        else:
            print_line(f"no   {answer['sentence']}")
            say(f"  hint: {answer['hint']}")
    return 0 if all(answer["ok"] for answer in answers) else 1


def _checked(path: Path) -> dict[str, Any]:
    """Check one file and return the result as a JSON object."""
    try:
        edition = labs.read_edition_file(path)
    except LabError as error:
        line = getattr(error, "line", None)
        return {"file": str(path), "ok": False, "line": line, "sentence": error.sentence, "hint": error.hint}
    return {"file": str(path), "ok": True, "id": edition.id, "tasks": len(edition.tasks)}
