"""`labtui submit TASK` or `labtui submit job.slurm`: submit the runs of a task, or a job file of the student's own.

A dry run does the same except for sending.
"""

import argparse
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from labtui.commands import job_files, options, terminal
from labtui.commands.terminal import OpenLab, confirm, fields_of, print_json, print_line, say, say_error
from labtui.domain.errors import LabError, failure
from labtui.domain.model import PROCESS_PER_GPU, AcceptedFinding, SubmissionDraft, SubmissionStatus, plural
from labtui.domain.run import join_names
from labtui.domain.state import UNANSWERED, LabState
from labtui.lab.plan import CONTROLS, PlanOverrides, drafts_from, task_of
from labtui.lab.plan_table import control_rows, rows_of, split_options
from labtui.preflight.findings import Finding, overridden
from labtui.session.own_jobs import own_draft
from labtui.session.planning import known_runs, warnings_of
from labtui.session.preview import Preview, commands_of_draft
from labtui.session.session import Session
from labtui.session.submitter import SILENT_SENTENCE
from labtui.slurm import states, values
from labtui.slurm.job_control import SbatchAnswer
from labtui.tui.view import View

_UNKNOWN_LIMIT_S = 400.0
"""How long the command looks up an unanswered submission before it leaves that to the next session."""


def submit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK|FILE", help="a task's number, e.g. 10.5; or your own job file")
    parser.add_argument("--task", dest="for_task", default="", metavar="TASK", help="a job file's task")
    parser.add_argument("--model", default="", help="what to call the model of a job file")
    parser.add_argument("--gpus", metavar="N[,N...]", help="only these numbers of GPUs (0: CPU)")
    parser.add_argument("--epochs", type=options.epochs, metavar="N", help="epochs of each run")
    parser.add_argument("--batch-size", type=options.count, metavar="N", help="batch of each GPU")
    forms = ("cpu", "one-gpu", "one-job", "job-per-size", *PROCESS_PER_GPU)
    words = f"how runs become jobs, or what starts their processes: {', '.join(forms)}"
    parser.add_argument("--form", choices=forms, metavar="FORM", help=words)
    parser.add_argument("--script-args", metavar="TEXT", help="more arguments of the training script")
    words = "submit short control runs instead, from which `labtui why` separates the causes"
    parser.add_argument("--control", choices=tuple(CONTROLS), help=words)
    words = "all runs, also those that are done or under way (default: only those that are missing)"
    parser.add_argument("--again", action="store_true", help=words)


def run_submit(args: argparse.Namespace) -> int:
    """Plan, check and, unless it is a dry run, submit."""
    with OpenLab(args) as lab:
        drafts = _drafts(lab, args)
        if not args.again:
            drafts = _missing_drafts(lab.session, drafts, ask=not (args.yes or args.dry_run))
        return send(lab, args, drafts) if drafts else 1


def send(lab: OpenLab, args: argparse.Namespace, drafts: list[SubmissionDraft], sentence: str = "") -> int:
    """Show, check, confirm and submit drafts; `sentence` explains drafts that differ from a task's plan."""
    if args.show_commands:
        groups = [(draft.job_name, commands_of_draft(lab.session, draft)) for draft in drafts]
        return terminal.print_commands(groups, as_json=args.json)
    trouble = None if args.dry_run and args.offline else _ask_paths(lab, drafts)
    previews = [lab.session.preview(draft) for draft in drafts]
    for text in (warnings := warnings_of(lab.session, drafts)):
        say(f"warning: {text}")
    if args.dry_run:
        answers = [] if args.offline else _ask_cluster(lab, drafts, trouble)
        return _show_dry_run(lab, args, previews, answers)
    if sentence:
        say(sentence)
    for preview in previews:
        say(job_files.job_line(preview, lab.session.edition.names))
    found = dict.fromkeys(job_files.finding_line(each) for preview in previews for each in preview.findings)
    for text in found:
        say(text)
    if (errors := job_files.submission_errors(previews)) and not args.force:
        way = f"Correct {_what_to_correct(args, drafts[0], errors)}, or override it"
        if all(each.lacks_gpus for each in previews):
            way = "No change of the plan helps here; to send it all the same"
        say(f"Nothing was submitted. {way}: --force REASON.")
        return 1
    if lab.session.open_elsewhere and any(each.unknown_paths for each in previews):
        say("Not checked on the cluster: the other labtui has no connection now.")
    must_ask = (found or warnings or sentence) and not (args.force or args.yes)
    if must_ask and not confirm("Submit this?"):
        say("Nothing was submitted.")
        return 1
    reasons = {found.key: args.force for found in errors}
    return _submit(lab, args, drafts, [overridden(each.findings, reasons) for each in previews])


def _what_to_correct(args: argparse.Namespace, draft: SubmissionDraft, errors: Sequence[Finding]) -> str:
    said = " ".join(found.effect for found in errors)
    if draft.form == "own":
        return "this (`labtui lint --fix FILE`)" if any(found.fix for found in errors) else "this"
    words = (getattr(args, "script_args", "") or "").split()
    if any(f" no option {word.partition('=')[0]}:" in said for word in words):
        return "--script-args"
    place = f"the account {draft.account} in lab.toml" if draft.account in said else "scripts/ or lab.toml"
    return f"{place} (see `labtui doctor`)"


def _ask_paths(lab: OpenLab, drafts: list[SubmissionDraft]) -> LabError | None:
    """Connect and ask about the paths the jobs need, so that findings can use the answers; return the error, if any."""
    try:
        lab.session.start()
        lab.wait_online()
        paths = [path for draft in drafts for path in lab.session.preview(draft).unknown_paths]
        answer = lab.session.look_at(tuple(dict.fromkeys(paths)))
        if answer is not None:
            answer.result(timeout=60)
    except (LabError, TimeoutError) as error:
        return error if isinstance(error, LabError) else None
    return None


def _drafts(lab: OpenLab, args: argparse.Namespace) -> list[SubmissionDraft]:
    """The drafts that the arguments ask for. Raises UsageError."""
    if job_files.is_job_file(args.task):
        return [_own_draft(lab, args)]
    if args.for_task or args.model:
        raise failure("needs-job-file")
    drafts = list(lab.session.drafts(args.task, _overrides(args)))
    if not drafts:
        sizes = sorted({run.n_gpus for draft in lab.session.drafts(args.task) for run in draft.runs})
        if sizes:
            raise failure("other-gpus", task=args.task, gpus=args.gpus, planned=",".join(map(str, sizes)))
        checks = task_of(lab.session.edition, args.task).checks
        if others := list(dict.fromkeys(name for check in checks for name in check.tasks)):
            missing = [name for name in others if _lacks_runs(lab.session, name)]
            reason = "compares-runs" if missing else "compares-made"
            raise failure(reason, task=args.task, others=join_names(others), first="".join(missing[:1]))
        raise failure("no-runs-planned", task=args.task)
    more = split_options(args.script_args or "")
    if args.control:
        rows = control_rows(rows_of(drafts), (args.control,), practice=lab.session.practice)
        if args.epochs:
            rows = [replace(row, spec=replace(row.spec, epochs=args.epochs)) for row in rows]
        drafts = list(drafts_from(rows, drafts, None, lab.session.edition, lab.session.profile))
    return [
        replace(draft, runs=tuple(replace(run, extra_args=(*run.extra_args, *more)) for run in draft.runs))
        for draft in drafts
    ]


def _lacks_runs(session: Session, task_id: str) -> bool:
    """Whether a task plans a run that is neither done nor under way."""
    drafts = session.drafts(task_id)
    return not known_runs(session, task_id, drafts).keys() >= {run for draft in drafts for run in draft.runs}


def _missing_drafts(session: Session, drafts: list[SubmissionDraft], *, ask: bool) -> list[SubmissionDraft]:
    """The drafts without the runs that are done or under way; if all are, all drafts if the student says so."""
    done = known_runs(session, drafts[0].task_id, drafts)
    if not done:
        return drafts
    view = View.of(session)
    for spec, run in done.items():
        name, word = spec.called(session.edition.names).label, view.runs[run.run_id].word
        # a task may want a run that its time limit ends
        said = run.deed if run.outcome not in (None, "completed") else f"is {word}"
        say(f"{name}: run {run.run_id} {said}.")
    if left := [row for row in rows_of(drafts) if row.spec not in done]:
        return list(drafts_from(left, drafts, None, session.edition, session.profile))
    if ask and terminal.at_terminal() and confirm("Run them again?"):
        return drafts
    say_error(failure("none-missing"))
    return []


def _own_draft(lab: OpenLab, args: argparse.Namespace) -> SubmissionDraft:
    """The draft of a job file. What neither the file nor an option tells about its runs comes from the log later."""
    for name in ("form", "script_args", "control"):
        if getattr(args, name):
            raise failure("not-with-job-file", option=name.replace("_", "-"))
    path, given, answers = Path(args.task), job_files.sbatch_options(args), job_files.run_answers(args)
    return own_draft(lab.session, path, task_id=args.for_task, given=given, answers=answers)


def _overrides(args: argparse.Namespace) -> PlanOverrides:
    sizes = [values.number(word) for word in args.gpus.split(",")] if args.gpus else []
    gpus = tuple(size for size in sizes if size is not None) or None
    if None in sizes:
        raise failure("gpu-numbers")
    same = {name: getattr(args, name) for name in ("form", "epochs", "account", "qos", "partition")}
    return PlanOverrides(gpus=gpus, per_gpu_batch=args.batch_size, time_limit_minutes=args.time, **same)


# --------------------------------------------------------------------------- dry run


def _show_dry_run(
    lab: OpenLab, args: argparse.Namespace, previews: list[Preview], answers: list[SbatchAnswer]
) -> int:
    """Print the jobs; `answers` are the cluster's to the first of them, as far as it could be asked."""
    jobs = list(itertools.zip_longest(previews, answers))
    if args.json:
        print_json({"dry_run": True, "submissions": [_row(*job) for job in jobs]})
    else:
        for preview, answer in jobs:
            print_line(f"# {job_files.job_line(preview, lab.session.edition.names)}")
            if options := preview.draft.options:
                print_line(f"# sbatch gets {' '.join(options)}, whatever the script says.")
            print(preview.script.rstrip())
            for item in preview.files:
                mark = ", changed by you" if item.changed else ""
                print_line(f"# file {item.path} {item.size} bytes{mark}")
            for found in preview.findings:
                print_line(f"# {job_files.finding_line(found)}")
            if answer is not None:
                print_line(f"# the cluster says: {answer.sentence}")
    if job_files.submission_errors(previews) or any(not answer.ok and not answer.wait for answer in answers):
        return 1
    return 2 if len(answers) < len(previews) and not args.offline else 0


def _ask_cluster(lab: OpenLab, drafts: list[SubmissionDraft], trouble: LabError | None) -> list[SbatchAnswer]:
    """The cluster's answers to `sbatch --test-only` for the drafts, up to the first `trouble`."""
    answers: list[SbatchAnswer] = []
    try:
        if trouble is not None:
            raise trouble
        for draft in drafts:
            answers.append(terminal.wait_for(lab.session.test_only(draft)))
    except LabError as error:
        say_error(error)
        say("Not checked on the cluster.")
    return answers


_DRAFT_FIELDS = "form job_name account qos partition nodes gpus cpus time_limit_minutes runs"


def _row(preview: Preview, answer: SbatchAnswer | None) -> dict[str, Any]:
    row = {"task": preview.draft.task_id} | fields_of(preview.draft, _DRAFT_FIELDS)
    row |= fields_of(preview, "script files seconds gpu_hours")
    row["findings"] = list(map(job_files.finding_json, preview.findings))
    row["test_only"] = answer and {"ok": answer.ok, "kind": answer.key} | msgspec.to_builtins(answer)
    return row


# --------------------------------------------------------------------------- submitting


def _submit(
    lab: OpenLab,
    args: argparse.Namespace,
    drafts: list[SubmissionDraft],
    accepted: Sequence[tuple[AcceptedFinding, ...]],
) -> int:
    lab.session.start()
    before = set(lab.state.submissions)
    futures = [lab.session.submit(draft, accepted=each) for draft, each in zip(drafts, accepted, strict=True)]
    tokens = [token for token in lab.state.submissions if token not in before]
    if lab.session.open_elsewhere:
        tokens = [future.result() for future in futures]
    runs, task = plural(sum(len(draft.runs) for draft in drafts), "run"), drafts[0].task_id
    say(f"Submitting {runs} in {plural(len(drafts), 'job')} for {f'task {task}' if task else 'no task'} ...")
    trouble: LabError | None = None
    try:
        lab.wait_online()
        limit = float("inf") if args.wait else _UNKNOWN_LIMIT_S
        said: set[str] = set()
        for state in lab.updates(lambda state: _settled(lab, state, tokens, wait=args.wait), limit_s=limit):
            for line in _news(state, tokens, wait=args.wait):
                if line not in said:
                    said.add(line)
                    say(line)
    except LabError as error:
        trouble = error
    rows = [_submission_row(lab.state, token) for token in tokens]
    if args.json:
        print_json({"submissions": rows})
    for row in () if args.json else rows:
        job = f"as job {row['job_id']}" if row["job_id"] else ""
        print_line("  ".join(filter(None, (row["job_name"], row["status"], job, row["sentence"]))))
        if row["hint"] and not row["job_id"]:
            say(f"  hint: {row['hint']}")
    if trouble is not None:
        say_error(trouble)
    statuses = Counter(row["status"] for row in rows)
    sender = "`labtui` or `labtui watch`"
    if lab.session.open_elsewhere:  # which may be a command that ends soon
        sender = "the other labtui (or `labtui watch`, once that is closed)"
    if waiting := statuses["waiting"]:
        say(f"Not sent yet: {plural(waiting, 'job')}; {sender} sends what waits.")
    if unanswered := statuses["unknown"] + statuses["sending"]:
        say(f"No answer yet for {plural(unanswered, 'job')}: {sender} looks for it and never sends it twice.")
    return exit_code(set(statuses), trouble, elsewhere=lab.session.open_elsewhere)


def _news(state: LabState, tokens: list[str], *, wait: bool) -> list[str]:
    """What to say meanwhile: a look-up has found no job yet; and what is wrong, as `wait` may take long."""
    sentences = (state.submissions[token].sentence for token in tokens)
    problems = [line for each in state.problems if wait for line in terminal.error_lines(each)]
    return [each for each in sentences if each.endswith(SILENT_SENTENCE)] + problems


def exit_code(statuses: set[str], trouble: LabError | None, *, elsewhere: bool) -> int:
    """The exit code for these statuses: 1 if one is refused, 2 if `trouble` left one open.

    A connection that breaks after Slurm has answered for all of them does not matter; with `elsewhere`, nor does one
    that waits, as another process sends it.
    """
    if trouble is not None and statuses & {"unknown", "sending", "" if elsewhere else "waiting"}:
        return 2
    return 1 if "refused" in statuses else 0


def _settled(lab: OpenLab, state: LabState, tokens: list[str], *, wait: bool) -> bool:
    """Whether to stop waiting: all are accepted or refused or, unless `wait`, none of the rest can be sent soon."""
    lab.check_connection(patient=wait)
    items = [state.submissions[token] for token in tokens]
    if any(item.status in UNANSWERED for item in items):
        return False
    waiting = [item for item in items if item.status is SubmissionStatus.WAITING]
    shut = {item.queue for item in waiting if item.sentence}
    return not waiting or (not wait and states.sendable(state, lab.session.profile, shut) is None)


def _submission_row(state: LabState, token: str) -> dict[str, Any]:
    item = state.submissions[token]
    row = fields_of(item, "token job_name status sentence hint script_file job_file accepted")
    return row | {"task": item.task_id, "job_id": item.job and item.job.job_id, "runs": item.run_ids}
