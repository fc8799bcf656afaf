"""`labtui submit TASK` or `labtui submit job.slurm`: submit the runs of a task, or a job file of the student's own.

A dry run takes the same path and stops before sending.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.commands.job_files import (
    accepted_of,
    answers_of,
    blocked,
    finding_row,
    given_of,
    is_job_file,
    job_line,
    prompt_for_missing,
    reasons_of,
    show_findings,
)
from labtui.commands.terminal import (
    Open,
    add_folder_argument,
    add_show_commands,
    agreed,
    count,
    plain,
    run_number,
    say,
    say_error,
    show_manual_commands,
)
from labtui.domain.errors import LabError, UsageError
from labtui.domain.model import PROCESS_PER_GPU, AcceptedFinding, SubmissionDraft, SubmissionStatus
from labtui.domain.state import LabState
from labtui.results.report import devices
from labtui.slurm.values import number

if TYPE_CHECKING:
    from labtui.lab.plan import PlanOverrides
    from labtui.session.batches import Proposal
    from labtui.session.preview import Preview

_UNKNOWN_LIMIT_S = 400.0
"""How long an unanswered submission is looked up before the command leaves it to the next session."""


def submit_arguments(parser: argparse.ArgumentParser) -> None:
    """The task, what to change of its plan, and how far to go."""
    parser.add_argument(
        "task", metavar="TASK|FILE", help="a task's number in the lab, e.g. 10.5; or a job file of your own"
    )
    parser.add_argument(
        "--task", dest="for_task", default="", metavar="TASK", help="the task that a job file's runs are for"
    )
    parser.add_argument(
        "--model", default="", help="the model a job file trains, where its text does not say"
    )
    add_folder_argument(parser)
    parser.add_argument(
        "--run", type=count, action="append", metavar="N", help="only the N-th job of the task's plan"
    )
    parser.add_argument(
        "--gpus",
        metavar="N[,N...]",
        help="only these numbers of GPUs (0: CPU); of a job file: the number its text does not give",
    )
    parser.add_argument("--epochs", type=count, metavar="N")
    parser.add_argument(
        "--batch-size", type=count, metavar="N", help="batch of each GPU (the global batch is N x GPUs)"
    )
    parser.add_argument(
        "--form",
        choices=("cpu", "one-gpu", "one-job", "job-per-size", *PROCESS_PER_GPU),
        metavar="FORM",
        help="how runs become jobs (cpu, one-gpu, one-job or job-per-size), or what starts PyTorch's processes "
        "(torchrun or task-per-gpu)",
    )
    parser.add_argument("--time", type=count, metavar="MINUTES", help="time limit of each job")
    parser.add_argument("--qos", default="", help="another QoS this time")
    parser.add_argument("--partition", default="", help="another partition this time")
    parser.add_argument("--account", default="", help="another account this time")
    parser.add_argument(
        "--script-args", metavar="TEXT", help="more arguments for the training script, one text"
    )
    parser.add_argument(
        "--halve",
        type=run_number,
        metavar="RUN",
        help="after a run that ran out of memory: the task's plan again with half its batch per GPU",
    )
    add_sending_arguments(parser)


def add_sending_arguments(parser: argparse.ArgumentParser) -> None:
    """How far to go with what is to be submitted, and what is overridden."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show script, files and findings; send nothing"
    )
    parser.add_argument(
        "--offline", action="store_true", help="with --dry-run: do not ask the cluster either"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="RULE=REASON",
        help="override what a rule found, and why; the reason is kept and appears on the last page of the hand-in",
    )
    parser.add_argument("--force", action="store_true", help="submit in spite of findings that are errors")
    parser.add_argument("--yes", action="store_true", help="ask nothing, even in a terminal")
    add_show_commands(parser)
    parser.add_argument("--wait", action="store_true", help="wait until Slurm has accepted all of them")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_submit(args: argparse.Namespace) -> int:
    """Plan, check, and (unless it is a dry run) submit."""
    with Open(args, start=False) as lab:
        drafts, sentence = _drafts(lab, args)
        return send(lab, args, drafts, sentence)


def send(lab: Open, args: argparse.Namespace, drafts: list[SubmissionDraft], sentence: str) -> int:
    """Show, check, ask and submit drafts."""
    reasons = reasons_of(args.accept)
    if args.show_commands:
        from labtui.session.manual_commands import commands_of_draft

        groups = [(draft.job_name, commands_of_draft(lab.session, draft)) for draft in drafts]
        return show_manual_commands(groups, as_json=args.json)
    trouble = None if args.dry_run and args.offline else _look_around(lab, drafts)
    previews = [lab.session.preview(draft) for draft in drafts]
    if args.dry_run:
        return _dry_run(lab, args, drafts, previews, trouble)
    if sentence:
        say(sentence)
    for draft, preview in zip(drafts, previews, strict=True):
        say(job_line(draft, preview))
    found = show_findings(previews)
    accepted = accepted_of(previews, reasons, force=args.force)
    if blocked(previews, reasons) and not args.force:
        say("Nothing was submitted. Correct this, or override it: --accept RULE=REASON.")
        return 1
    confirm = (found or sentence) and not (args.force or args.yes)
    if confirm and not agreed("Submit this?"):
        say("Nothing was submitted.")
        return 1
    return _submit(lab, args, drafts, accepted)


def _look_around(lab: Open, drafts: list[SubmissionDraft]) -> LabError | None:
    """Connect and ask about the paths the jobs need, so that the findings know of them; what kept it from that."""
    try:
        lab.session.start()
        lab.online()
        paths = [path for draft in drafts for path in lab.session.paths_to_ask(draft)]
        answer = lab.session.look_at(tuple(dict.fromkeys(paths)))
        if answer is not None:
            answer.result(timeout=60)
    except (LabError, TimeoutError) as error:
        return error if isinstance(error, LabError) else None
    return None


def _drafts(lab: Open, args: argparse.Namespace) -> tuple[list[SubmissionDraft], str]:
    """What to submit, and the sentence that explains it when it is not simply the task's plan."""
    sentence = ""
    if is_job_file(args.task):
        return [_own_draft(lab, args)], sentence
    if args.for_task or args.model:
        raise UsageError("--task and --model need a job file.", "labtui submit job.slurm --task 10.5")
    if args.halve is not None:
        proposal = _proposal(lab, args)
        drafts = list(proposal.drafts)
        sentence = proposal.sentence
    else:
        drafts = list(lab.session.drafts(args.task, _overrides(args)))
    if args.run:
        wrong = [number for number in args.run if not 1 <= number <= len(drafts)]
        if wrong:
            raise UsageError(f"Task {args.task} has no job {wrong[0]}.", f"It plans {len(drafts)}.")
        drafts = [drafts[number - 1] for number in args.run]
    if not drafts:
        raise UsageError(
            f"Task {args.task} plans no runs{' like that' if args.gpus else ''}.",
            f"`labtui labs show {lab.session.edition.id} {args.task}` shows what it asks for.",
        )
    if args.script_args:
        words = shlex.split(args.script_args)
        drafts = [
            replace(
                draft, runs=tuple(replace(run, extra_args=(*run.extra_args, *words)) for run in draft.runs)
            )
            for draft in drafts
        ]
    return drafts, sentence


def _own_draft(lab: Open, args: argparse.Namespace) -> SubmissionDraft:
    """The draft of a job file; what it does not tell about its runs is asked for on a terminal."""
    wrong = {
        "--run": args.run,
        "--form": args.form,
        "--halve": args.halve,
        "--script-args": args.script_args,
    }
    if named := [name for name, value in wrong.items() if value]:
        raise UsageError(f"{named[0]} cannot be used with a job file.", "The file itself says what it runs.")
    path, given, answers = Path(args.task), given_of(args), answers_of(args)
    draft = lab.session.own_draft(path, task_id=args.for_task, given=given, answers=answers)
    if args.yes or args.dry_run or args.json or args.show_commands:
        return draft
    completed = prompt_for_missing(draft, answers)
    if completed == answers:
        return draft
    return lab.session.own_draft(path, task_id=args.for_task, given=given, answers=completed)


def _proposal(lab: Open, args: argparse.Namespace) -> Proposal:
    from labtui.session.batches import halve_after
    from labtui.session.planning import run_of

    task = run_of(lab.state, args.halve).task_id
    if task != args.task:
        raise UsageError(f"Run {args.halve} belongs to task {task}.", f"labtui submit {task} --halve ...")
    return halve_after(lab.session, args.halve, _overrides(args))


def _overrides(args: argparse.Namespace) -> PlanOverrides:
    from labtui.lab.plan import PlanOverrides

    sizes = [number(word) for word in args.gpus.split(",")] if args.gpus else []
    gpus = tuple(size for size in sizes if size is not None) or None
    if None in sizes:
        raise UsageError("--gpus takes numbers with commas between them, e.g. 1,2,4.")
    return PlanOverrides(
        form=args.form,
        gpus=gpus,
        per_gpu_batch=args.batch_size,
        epochs=args.epochs,
        time_limit_minutes=args.time,
        account=args.account,
        qos=args.qos,
        partition=args.partition,
    )


# --------------------------------------------------------------------------- dry run


def _dry_run(
    lab: Open,
    args: argparse.Namespace,
    drafts: list[SubmissionDraft],
    previews: list[Preview],
    trouble: LabError | None,
) -> int:
    words = [None] * len(drafts) if args.offline else _ask_cluster(lab, drafts, trouble)
    rows = [_row(draft, preview, word) for draft, preview, word in zip(drafts, previews, words, strict=True)]
    if args.json:
        print(json.dumps({"dry_run": True, "submissions": rows}, indent=1))
    else:
        for row in rows:
            _print_row(row)
    refused = any(word is not None and not word["ok"] and not word["wait"] for word in words)
    return 1 if refused or blocked(previews) else 0


def _ask_cluster(
    lab: Open, drafts: list[SubmissionDraft], trouble: LabError | None
) -> list[dict[str, Any] | None]:
    """The cluster's own word on each draft; None where it could not be asked, as `trouble` may say already."""
    words: list[dict[str, Any] | None] = []
    try:
        if trouble is not None:
            raise trouble
        for draft in drafts:
            words.append(asdict(lab.session.test_only(draft).result(timeout=300)))
    except LabError as error:
        say_error(error)
        say("Not checked on the cluster.")
    return [*words, *[None] * (len(drafts) - len(words))]


def _row(draft: SubmissionDraft, preview: Preview, word: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "task": draft.task_id,
        "form": draft.form,
        "job_name": draft.job_name,
        "account": draft.account,
        "qos": draft.qos,
        "partition": draft.partition,
        "nodes": draft.nodes,
        "gpus": draft.gpus,
        "cpus": draft.cpus,
        "time_limit_minutes": draft.time_limit_minutes,
        "runs": [asdict(spec) for spec in draft.runs],
        "script": preview.script,
        "files": [asdict(item) for item in preview.files],
        "findings": [finding_row(found) for found in preview.findings],
        "seconds": asdict(preview.seconds) if preview.seconds else None,
        "gpu_hours": asdict(preview.gpu_hours) if preview.gpu_hours else None,
        "test_only": word,
    }


def _print_row(row: dict[str, Any]) -> None:
    runs = "; ".join(
        f"{spec['model']} on {devices(spec['n_gpus'])}, global batch {spec['batch_size']:,}"
        for spec in row["runs"]
    )
    print(f"# {row['job_name']}: {plain(runs)}")
    print(row["script"].rstrip())
    for item in row["files"]:
        print(plain(f"# file {item['path']} {item['size']} bytes{', changed by you' * item['changed']}"))
    for found in row["findings"]:
        print(f"# {found['severity']} {found['file']}:{found['line']} {plain(found['effect'])}")
    if row["seconds"]:
        print(f"# expected: {row['seconds']['lo']:.0f} to {row['seconds']['hi']:.0f} s")
    if row["gpu_hours"] and row["gpus"]:
        print(f"# cost: {row['gpu_hours']['lo']:.2g} to {row['gpu_hours']['hi']:.2g} GPU-hours")
    if row["test_only"]:
        print(f"# the cluster says: {plain(row['test_only']['sentence'])}")


# --------------------------------------------------------------------------- submitting


def _submit(
    lab: Open,
    args: argparse.Namespace,
    drafts: list[SubmissionDraft],
    accepted: Sequence[tuple[AcceptedFinding, ...]],
) -> int:
    lab.session.start()
    futures = [
        lab.session.submit(draft, accepted=overridden)
        for draft, overridden in zip(drafts, accepted, strict=True)
    ]
    tokens = list(lab.state.submissions)[-len(futures) :]
    if lab.session.elsewhere:
        tokens = [future.result() for future in futures]
    say(
        f"{len(tokens)} {'submission is' if len(tokens) == 1 else 'submissions are'} stored and will be sent once."
    )
    trouble: LabError | None = None
    try:
        lab.online()
        lab.wait(
            lambda state: _settled(lab, state, tokens, wait=args.wait),
            limit_s=None if args.wait else _UNKNOWN_LIMIT_S,
        )
    except LabError as error:
        trouble = error
    rows = [_outcome(lab.state, token) for token in tokens]
    if args.json:
        print(json.dumps({"submissions": rows}, indent=1))
    else:
        for row in rows:
            print(
                plain(f"{row['job_name']}  {row['status']}  {row['job_id'] or ''} {row['sentence']}").rstrip()
            )
    if trouble is not None:
        say_error(trouble)
    if any(row["status"] in ("waiting", "unknown", "sending") for row in rows):
        say("The rest waits in the submission queue and is sent while `labtui` or `labtui watch` runs.")
    if trouble is not None:
        return 2
    return 1 if any(row["status"] == "refused" for row in rows) else 0


def _settled(lab: Open, state: LabState, tokens: list[str], *, wait: bool) -> bool:
    """Whether there is nothing more to learn soon: all are taken or refused, or wait for something that takes long."""
    from labtui.domain.submission_queue import sendable

    lab.check_line(patient=wait)
    items = [state.submissions[token] for token in tokens]
    if any(item.status in (SubmissionStatus.SENDING, SubmissionStatus.UNKNOWN) for item in items):
        return False
    waiting = [item for item in items if item.status is SubmissionStatus.WAITING]
    if not waiting:
        return True
    shut = {item.qos for item in waiting if item.sentence}
    return not wait and sendable(state, lab.session.profile, shut) is None


def _outcome(state: LabState, token: str) -> dict[str, Any]:
    item = state.submissions[token]
    return {
        "token": token,
        "task": item.task_id,
        "job_name": item.job_name,
        "status": item.status.value,
        "job_id": item.job.job_id if item.job else None,
        "sentence": item.sentence,
        "hint": item.hint,
        "runs": list(item.run_ids),
        "script_file": item.script_file,
        "job_file": item.job_file,
        "accepted": [asdict(found) for found in item.accepted],
    }
