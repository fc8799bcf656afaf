"""`labtui labs`: the editions that are known, one of them or one task in full, and proof of a file."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.errors import DataError, LabError, UsageError
from labtui.verbs.terminal import plain, say

if TYPE_CHECKING:
    from labtui.core.lab.edition import Edition, Task
    from labtui.core.lab.reference import Proof

_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show."""
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help="nothing: list them; `show ID [TASK]`: one in full; `check FILE...`: prove an edition's file",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """List, show or check."""
    words = list(args.what)
    if not words:
        return _list(args)
    if words[0] == "show" and len(words) in {2, 3}:
        return _show(args, words[1], words[2] if len(words) == 3 else None)
    if words[0] == "check" and len(words) > 1:
        results = [_check(args, Path(name)) for name in words[1:]]
        return max(results)
    raise UsageError(
        f"`labtui labs {' '.join(words)}` is not understood.",
        "`labtui labs`, `labtui labs show ID [TASK]`, `labtui labs check FILE...`",
    )


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
    from labtui.core.lab.reference import prove
    from labtui.engine.labs import read_edition_file

    try:
        edition = read_edition_file(path)
    except LabError as error:
        line = error.line if isinstance(error, DataError) else None
        if args.json:
            print(json.dumps({"file": str(path), "ok": False, "line": line, "sentence": error.sentence}))
        else:
            print(plain(f"no   {error.sentence}"))
            if error.hint:
                say(f"  hint: {error.hint}")
        return 1
    proofs = prove(edition)
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
