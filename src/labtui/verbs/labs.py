"""`labtui labs`: the editions that are known, one of them or one task in full, and proof of a file."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.errors import DataError, LabError
from labtui.verbs.terminal import plain, say

if TYPE_CHECKING:
    from labtui.core.lab.edition import Edition, Task
    from labtui.core.lab.reference import Proof

_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(dest="action", metavar="show | check", title="more than the list")
    show = actions.add_parser("show", help="one edition, or one of its tasks in full")
    show.add_argument("lab", metavar="ID", help="the edition's id, or a .toml file")
    show.add_argument("task", nargs="?", metavar="TASK", help="a task's number")
    check = actions.add_parser("check", help="prove edition files: schema, and every box on its evidence")
    check.add_argument("files", nargs="+", metavar="FILE")
    for action in (show, check):
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")


def run(args: argparse.Namespace) -> int:
    """List, show or check."""
    if args.action == "show":
        return _show(args, args.lab, args.task)
    if args.action == "check":
        return max([_check(args, Path(name)) for name in args.files])
    return _list(args)


# --------------------------------------------------------------------------- list


def _list(args: argparse.Namespace) -> int:
    from labtui.engine.labs import list_editions

    entries = list_editions()
    if args.json:
        rows = [{"id": e.id, "title": e.title, "term": e.term, "tasks": e.tasks} for e in entries]
        print(json.dumps({"labs": rows}, indent=1))
        return 0
    width = max(len(entry.id) for entry in entries)
    for entry in entries:
        tail = entry.problem or f"{entry.title} ({entry.term}, {entry.tasks} tasks)"
        print(plain(f"{entry.id:<{width}}  {tail}"))
    say("`labtui labs show ID` tells more; `labtui init DIR --lab ID --cluster PROFILE` begins.")
    return 0


# --------------------------------------------------------------------------- show


def _show(args: argparse.Namespace, name: str, task_id: str | None) -> int:
    import msgspec

    from labtui.core.lab.plan import task_of
    from labtui.engine.labs import load_edition

    edition = load_edition(name)
    task = task_of(edition, task_id) if task_id else None
    if args.json:
        value = msgspec.to_builtins(task if task is not None else edition)
        print(json.dumps(value, indent=1, ensure_ascii=False))
        return 0
    for line in _task_lines(edition, task) if task is not None else _edition_lines(edition):
        print(plain(line))
    return 0


def _wrapped(text: str, indent: str = "", mark: str = "") -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from textwrap.wrap(
            " ".join(paragraph.split()),
            _WIDTH,
            initial_indent=indent + mark,
            subsequent_indent=indent + " " * len(mark),
        )


def _edition_lines(edition: Edition) -> Iterator[str]:
    yield edition.title
    yield f"{edition.course}, {edition.term}"
    yield ""
    yield from _wrapped(edition.about)
    yield ""
    for task in edition.tasks:
        weight = f"  {task.weight:g} %" if task.weight is not None else ""
        aside = "" if task.handed_in else "  (not handed in)"
        yield f"  {task.id:>6}  {task.title}{weight}{aside}"
    if edition.hand_in is not None:
        yield ""
        yield from _wrapped(f"To hand in: {edition.hand_in.what}. {edition.hand_in.where}.")
    yield ""
    yield from _wrapped(f"After: {edition.source}")


def _task_lines(edition: Edition, task: Task) -> Iterator[str]:
    yield f"{task.id}  {task.title}"
    yield ""
    yield from _wrapped(task.what)
    yield ""
    yield from _wrapped(task.why, mark="Why: ")
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
                yield from _wrapped(item, indent="  ", mark="- ")


def _run_lines(edition: Edition, task: Task) -> Iterator[str]:
    from labtui.core.lab.plan import expected_learning_rate, planned_specs

    yield "model      device  GPUs global batch  per GPU epochs   rate"
    for spec in planned_specs(edition, task):
        per_gpu = f"{spec.per_gpu_batch:,}" if spec.n_gpus else "-"
        yield (
            f"{spec.model:<10} {spec.device:<7} {spec.n_gpus:>4} {spec.batch_size:>12,} {per_gpu:>8} "
            f"{spec.epochs:>6} {expected_learning_rate(edition, spec):>6g}"
        )


# --------------------------------------------------------------------------- check


def _check(args: argparse.Namespace, path: Path) -> int:
    """Prove one file: the schema, then every task on nothing and on the reference evidence."""
    from labtui.engine.labs import prove_file

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
        text = proof.sentence or "open on an empty folder, ticked on the reference evidence"
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
                "ticked_on_reference": proof.reference_done,
                "sentence": proof.sentence,
            }
            for proof in proofs
        ],
    }
