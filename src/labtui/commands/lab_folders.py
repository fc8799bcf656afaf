"""`labtui init` makes a lab folder; `labtui labs` lists, shows and checks the editions it can be made for."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.cluster.local_files import named_path
from labtui.commands.terminal import (
    CONNECTION_KEYS,
    TerminalPrompter,
    add_connection_arguments,
    plain,
    print_wrapped,
    say,
    window_width,
)
from labtui.domain.errors import DataError, LabError, UsageError

if TYPE_CHECKING:
    from labtui.doctor.setup import SiteSetup
    from labtui.lab.edition import Edition, Task
    from labtui.lab.proof import Proof
    from labtui.session.settings import Settings
    from labtui.slurm.site_profile import SiteQuestion


def init_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, which lab, which cluster, whose account."""
    parser.add_argument(
        "dir", nargs="?", default=".", metavar="DIR", help="the folder to make (default: here)"
    )
    parser.add_argument(
        "--lab", metavar="ID", help="the lab edition, or a .toml file (`labtui labs` lists them)"
    )
    add_connection_arguments(parser)
    parser.add_argument(
        "--data-dir", default="", metavar="REMOTE_DIR", help="the CIFAR-10 pickles on the cluster"
    )
    parser.add_argument(
        "--container", default="", metavar="REMOTE_FILE", help="container image on the cluster"
    )
    parser.add_argument(
        "--python",
        default="",
        metavar="MODULE|PATH",
        help="without a container: the module, or the python, that has TensorFlow (with --host alone)",
    )
    parser.add_argument("--reservation", default="", help="Slurm reservation")
    parser.add_argument("--group", default="", metavar="NAME", help="your group's name, for the slides")


def run_init(args: argparse.Namespace) -> int:
    """Make the folder; say what to do next."""
    from labtui.lab.plan import withheld_scripts
    from labtui.preflight.pasted import is_no_account
    from labtui.session.folder import LabFolder
    from labtui.session.lab_cluster import check_settings, lab_of_site
    from labtui.session.labs import list_editions, load_edition
    from labtui.session.settings import Settings, changed, load_profile, profile_of_host

    if not args.lab:
        known = ", ".join(item.id for item in list_editions())
        raise UsageError("Name the lab: --lab ID.", f"Known labs: {known}.")
    if args.host_key and not args.host_key.startswith("SHA256:"):
        raise UsageError(
            "A host key's fingerprint begins with SHA256:", "`ssh-keygen -lf` and your site's pages show it."
        )
    edition = load_edition(args.lab)
    cluster = _kept(args.cluster) if args.cluster else profile_of_host(args.host)
    keys = (*CONNECTION_KEYS, "data_dir", "container", "reservation", "group")
    values = {key: getattr(args, key) for key in keys}
    withheld = withheld_scripts(edition)
    if cluster:
        profile = load_profile(cluster)
        settings = changed(
            Settings(edition=_kept(args.lab), profile=cluster),
            **values,
            practice=profile.status == "practice",
        )
        folder = LabFolder.create(args.dir, settings, withheld=withheld)
    else:
        settings = changed(Settings(edition=_kept(args.lab), profile="slurm"), **values)
        setup = _ask_cluster(args, settings)
        folder = lab_of_site(args.dir, settings, setup, withheld)
        profile, settings = setup.profile, folder.settings()
    print(folder.path)
    say(f"A lab folder for {edition.title}, on {profile.title}.")
    if is_no_account(settings.account):
        say(
            f"Still missing: your account. {settings.account} stands for it: set `account` in {folder.settings_path}."
        )
    try:
        check_settings(settings, profile)
    except LabError as error:
        say(f"Still missing: {error.sentence} {error.hint}")
    say(f"Next: cd {folder.path} && labtui doctor")
    return 0


def _kept(name: str) -> str:
    """An id as it is; a file by its absolute path, so that the folder finds it from anywhere."""
    if name.endswith(".toml") or "/" in name or "\\" in name:
        return str(named_path(name).resolve())
    return name


# --------------------------------------------------------------------------- a cluster without a profile


def _ask_cluster(args: argparse.Namespace, settings: Settings) -> SiteSetup:
    """Ask the cluster what it is like, and on the terminal what it cannot tell."""
    from labtui.session.folder import refuse_lab_folder
    from labtui.session.lab_cluster import ask_cluster, site_words
    from labtui.session.settings import list_profiles
    from labtui.slurm.site_profile import Choices

    if not args.host:
        raise UsageError(
            "Name the cluster: --cluster PROFILE, or --host HOST to read its settings.",
            f"Known profiles: {', '.join(list_profiles())}.",
        )
    refuse_lab_folder(args.dir)
    choices = Choices(
        account=args.account,
        queue=args.partition,
        qos=args.qos,
        data_dir=args.data_dir,
        training=args.container or args.python,
    )
    asking = "Reading the site's settings on {} ...".format
    setup = ask_cluster(settings, TerminalPrompter(), choices, _answer, lambda host: say(asking(host)))
    for sentence in site_words(setup):
        say(sentence)
    say("Written to cluster.toml, each value with its source; correct what is wrong.")
    return setup


def _answer(question: SiteQuestion) -> str:
    """The student's answer; the default where there is no terminal, or at Enter. An option's number will do."""
    if not sys.stdin.isatty():
        return question.default
    for number, option in enumerate(question.options, 1):
        say(f"  {number}  {option}")
    print(f"{plain(question.text)} [{plain(question.default)}] ", end="", file=sys.stderr, flush=True)
    return question.choose(sys.stdin.readline())


_WIDTH = 96
"""Of the texts of an edition, where the window is not narrower."""


def labs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(dest="action", metavar="show | check", title="instead of the list")
    show = actions.add_parser("show", help="one edition, or one of its tasks in full")
    show.add_argument("lab", metavar="ID", help="the edition's id, or a .toml file")
    show.add_argument("task", nargs="?", metavar="TASK", help="a task's number")
    check = actions.add_parser("check", help="check edition files: the schema, and each task's checks")
    check.add_argument("files", nargs="+", metavar="FILE")
    for action in (show, check):
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def run_labs(args: argparse.Namespace) -> int:
    """List, show or check."""
    if args.action == "show":
        return _show(args, args.lab, args.task)
    if args.action == "check":
        return max([_check(args, Path(name)) for name in args.files])
    return _list(args)


# --------------------------------------------------------------------------- list


def _list(args: argparse.Namespace) -> int:
    from labtui.session.labs import list_editions

    entries = list_editions()
    if args.json:
        rows = [{"id": e.id, "title": e.title, "term": e.term, "tasks": e.tasks} for e in entries]
        print(json.dumps({"labs": rows}, indent=1))
        return 0
    width = max(len(entry.id) for entry in entries)
    for entry in entries:
        tail = entry.problem or f"{entry.title} ({entry.term}, {entry.tasks} tasks)"
        print_wrapped(plain(f"{entry.id:<{width}}  {tail}"), hang=width + 2)
    say("`labtui labs show ID` shows one; `labtui init DIR --lab ID --cluster PROFILE` makes a lab folder.")
    return 0


# --------------------------------------------------------------------------- show


def _show(args: argparse.Namespace, name: str, task_id: str | None) -> int:
    import msgspec

    from labtui.lab.plan import task_of
    from labtui.session.labs import load_edition

    edition = load_edition(name)
    task = task_of(edition, task_id) if task_id else None
    if args.json:
        value = msgspec.to_builtins(task if task is not None else edition)
        print(json.dumps(value, indent=1, ensure_ascii=False))
        return 0
    width = min(window_width() or _WIDTH, _WIDTH)
    for line in _task_lines(edition, task, width) if task is not None else _edition_lines(edition, width):
        print_wrapped(plain(line))
    return 0


def _wrapped(text: str, width: int, indent: str = "", mark: str = "") -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from textwrap.wrap(
            " ".join(paragraph.split()),
            width,
            initial_indent=indent + mark,
            subsequent_indent=indent + " " * len(mark),
        )


def _edition_lines(edition: Edition, width: int) -> Iterator[str]:
    yield edition.title
    yield f"{edition.course}, {edition.term}"
    yield ""
    yield from _wrapped(edition.about, width)
    yield ""
    for task in edition.tasks:
        weight = f"  {task.weight:g} %" if task.weight is not None else ""
        aside = "" if task.handed_in else "  (not handed in)"
        yield f"  {task.id:>6}  {task.title}{weight}{aside}"
    if edition.hand_in is not None:
        yield ""
        yield from _wrapped(f"To hand in: {edition.hand_in.what}. {edition.hand_in.where}.", width)
    yield ""
    yield from _wrapped(f"Based on: {edition.source}", width)


def _task_lines(edition: Edition, task: Task, width: int) -> Iterator[str]:
    yield f"{task.id}  {task.title}"
    yield ""
    yield from _wrapped(task.what, width)
    yield ""
    yield from _wrapped(task.why, width, mark="Why: ")
    if task.runs:
        yield ""
        yield from _run_lines(edition, task)
    if task.files:
        yield ""
        yield f"Files: {', '.join(task.files)}"
    for title, items in (
        ("Hints", task.hints),
        ("Questions", [question.text for question in task.questions]),
        ("To deliver", task.deliverables),
        ("Facts", [f"{fact.text} [{fact.source}]" for fact in edition.facts_of(task)]),
    ):
        if items:
            yield ""
            yield title
            for item in items:
                yield from _wrapped(item, width, indent="  ", mark="- ")


def _run_lines(edition: Edition, task: Task) -> Iterator[str]:
    from labtui.lab.plan import expected_learning_rate, planned_specs

    specs = planned_specs(task)
    if specs and specs[0].program is not None:
        yield from (f"{spec.label}: {' '.join(spec.arguments)}" for spec in specs)
        return
    yield "model      device  GPUs global batch  per GPU epochs   rate"
    for spec in specs:
        per_gpu = f"{spec.per_gpu_batch:,}" if spec.n_gpus else "-"
        yield (
            f"{spec.model:<10} {spec.device:<7} {spec.n_gpus:>4} {spec.batch_size:>12,} {per_gpu:>8} "
            f"{spec.epochs:>6} {expected_learning_rate(edition, spec):>6g}"
        )


# --------------------------------------------------------------------------- check


def _check(args: argparse.Namespace, path: Path) -> int:
    """Prove one file: the schema, then every task on nothing and on all planned runs."""
    from labtui.session.labs import prove_file

    try:
        edition, proofs = prove_file(path)
    except LabError as error:
        line = error.line if isinstance(error, DataError) else None
        if args.json:
            print(json.dumps({"file": str(path), "ok": False, "line": line, "sentence": error.sentence}))
        else:
            print(plain(f"no   {error.sentence}"))
            if error.hint:
                say(f"  hint: {error.hint}")
        return 1
    holds = all(proof.holds for proof in proofs)
    if args.json:
        print(json.dumps(_proof_json(path, edition, proofs, holds), indent=1))
        return 0 if holds else 1
    for proof in proofs:
        verdict = "ok" if proof.holds else "no"
        text = proof.sentence or "not done in an empty folder, done when all its runs are"
        print(plain(f"{verdict:<4} task {proof.task_id}: {text}"))
    print(plain(f"{'ok' if holds else 'no':<4} {edition.id}: {len(proofs)} tasks"))
    return 0 if holds else 1


def _proof_json(path: Path, edition: Edition, proofs: tuple[Proof, ...], holds: bool) -> dict[str, Any]:
    return {
        "file": str(path),
        "ok": holds,
        "id": edition.id,
        "tasks": [
            {
                "task": proof.task_id,
                "open_on_empty_folder": proof.empty_open,
                "ticked_when_all_is_done": proof.full_done,
                "sentence": proof.sentence,
            }
            for proof in proofs
        ],
    }
