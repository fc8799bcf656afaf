"""Makes a submission of a draft: its values, its files, and where these and its logs lie on the cluster.

Also proposes what to submit after a run that failed. The caller shows the sentence, and submits the drafts if the
student agrees.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import failure
from labtui.domain.model import AcceptedFinding, RunSpec, Stream, SubmissionDraft, SubmissionStatus
from labtui.domain.run import WHAT_COUNTS, join_names, run_numbers
from labtui.domain.state import LIVE, LOG_ENDINGS, WITHOUT_JOB, LabState, RunState, SubmissionState
from labtui.domain.terminal_text import file_name
from labtui.lab import plan as lab_plan
from labtui.lab.evidence import Evidence, FileFact
from labtui.lab.expected_time import time_and_cost, time_limit
from labtui.lab.plan_table import rows_of
from labtui.lab.run_choice import runs_for_specs
from labtui.preflight.findings import imported_files
from labtui.session.folder import SCRIPT_NAME, digest_of, sent_as
from labtui.session.own_jobs import batch_file, job_file_draft, own_files
from labtui.session.run_matcher import with_slurm_outcome
from labtui.session.settings import lab_root
from labtui.slurm.batch_script import read_script
from labtui.slurm.job_script import JobContext, job_script
from labtui.slurm.values import limit_minutes

if TYPE_CHECKING:
    from labtui.session.session import Session


PACE_MARGIN = 1.2
"""How much longer than its pace so far suggests a run may take when it is given more time."""
_FAILS_AGAIN = ("missing-module", "missing-file", "bad-arguments", "traceback")
"""Causes that a second try does not remove."""
OUT_OF_MEMORY_AGAIN = "Unchanged, it may run out of memory again."
"""What to know of a job that ran out of the node's memory."""
MANUAL_FOLDER = "slurm/by-hand"
"""The folder of what the student may submit without labtui."""


def logs_of(draft: SubmissionDraft, remote_dir: str, *, user: str) -> dict[str, str]:
    """The remote paths of a job's logs by stream, with sbatch's ``%`` codes for what is not known yet."""
    patterns: Iterable[tuple[Stream, str]] = draft.log_patterns
    if draft.form != "own":
        streams = (stream for stream in LOG_ENDINGS if stream != "gpu" or draft.gpus)
        patterns = ((stream, f"{draft.job_name}.%j{LOG_ENDINGS[stream]}") for stream in streams)
    logs: dict[str, str] = {}
    for stream, pattern in patterns:
        inside = f"{remote_dir.replace('%', '%%')}/{pattern.removeprefix('./')}"
        whole = pattern if pattern.startswith("/") else inside
        logs[stream] = re.sub(r"(?<!%)((?:%%)*)%\d*u", lambda code: code[1] + user, whole) if user else whole
    return logs


def log_names_of(draft: SubmissionDraft) -> dict[str, str]:
    """The names that a student's own job file gives its logs; empty if these do not tell jobs and streams apart."""
    names: dict[str, str] = {}
    for stream, pattern in draft.log_patterns:
        name = re.sub("%[jJA]", "%j", pattern.rpartition("/")[2]).replace("%x", file_name(draft.job_name))
        plain = name.replace("%j", "1")
        if plain != name and plain == file_name(plain):
            names[stream] = name
    return names if len(set(names.values())) == len(names) else {}


def known_runs(session: Session, task_id: str, drafts: Iterable[SubmissionDraft]) -> dict[RunSpec, RunState]:
    """The runs of these drafts that are already done or under way, each with that run; own job files are left out."""
    edition, scripts = session.edition, session.folder.script_files().items()
    facts = {name: FileFact(name, data) for name, data in scripts}
    specs = [run for draft in drafts if draft.form != "own" for run in draft.runs]
    state, task = session.state, edition.task(task_id)
    runs = {number: with_slurm_outcome(state, run) for number, run in state.runs.items()}
    evidence = Evidence(state=replace(state, runs=runs), scripts=facts)
    return {} if task is None else runs_for_specs(edition, task, specs, evidence, practice=session.practice)


def plan(
    session: Session, draft: SubmissionDraft, script: str | None, *, accepted: Sequence[AcceptedFinding] = ()
) -> tuple[SubmissionState, dict[str, bytes]]:
    """A submission made of a draft, with token, directory and run numbers; and its files by name. Writes nothing.

    Raises:
        UsageError: when the job needs more nodes than its queue takes.
        TemplateError: when the template does not fit the draft.
        FolderError: when scripts cannot be read.
    """
    # it identifies one submission on this computer and in Slurm's records
    own, token = draft.form == "own", f"lt{secrets.token_hex(10)}"
    if own and script is not None:  # edited: what the old text said of its runs may not be so any more
        edited = job_file_draft(draft.job_file, script, task_id=draft.task_id, given=draft.options_by_name)
        draft = replace(edited, beside=draft.beside, job_name=draft.job_name)
    root = lab_root(session.profile, session.settings, user=session.user, account=draft.account)
    remote_dir = f"{root}/{token}"
    unique = f"{file_name(draft.job_name)}-{token[-8:]}"
    named = draft if own else replace(draft, job_name=unique)
    files = _files_of(session, named, script, token)
    asked = read_script(SCRIPT_NAME, files[SCRIPT_NAME].decode("utf-8", "surrogateescape"))
    if not own:  # the script may be the student's
        gpus = named.gpus if asked.has("exclusive") else asked.gpus
        minutes = limit_minutes(asked.value("time")) or named.time_limit_minutes
        cpus = asked.node_cpus or named.cpus
        named = replace(named, gpus=gpus, cpus=cpus, time_limit_minutes=minutes)
    first = session.state.last_run + 1
    submission = SubmissionState(
        planned_at=session.clock.wall(),
        token=token,
        run_ids=tuple(range(first, first + len(named.runs))),
        script_file=f"slurm/{unique}.slurm",
        remote_dir=remote_dir,
        remote_logs=logs_of(named, remote_dir, user=session.user),
        log_names=log_names_of(named),
        script_hashes={name: digest_of(data) for name, data in files.items()},
        edited=not started_files(draft, files) <= session.folder.unchanged_scripts(files),
        practice=session.practice,
        accepted=tuple(accepted),
        **named.request_fields,
    )
    return submission, files


def _files_of(session: Session, draft: SubmissionDraft, script: str | None, token: str) -> dict[str, bytes]:
    """All files of the submission's directory, including the job script, by their names there."""
    files = session.folder.script_files()
    if draft.form == "own":
        return files | own_files(draft, script)
    lab_plan.refuse_too_many_nodes(draft, session.profile)
    if script is None:
        lab, practice = session.settings.edition, session.practice
        context = JobContext(token=token, edition=lab, practice=practice, user=session.user)
        script = job_script(draft, session.profile, context, session.folder.template(draft.form))
    return files | {SCRIPT_NAME: script.replace("\r\n", "\n").encode()}


def started_files(draft: SubmissionDraft, files: Mapping[str, bytes]) -> set[str]:
    """The files that the runs of a draft start or import."""
    texts = {name: data.decode("utf-8", "replace") for name, data in files.items()}
    return texts.keys() & imported_files({run.script for run in draft.runs}, texts)


def run_of(state: LabState, run_id: int) -> RunState:
    """The run with this number.

    Raises:
        UsageError: when there is none.
    """
    if (run := state.runs.get(run_id)) is None:
        raise failure("no-run", run=run_id)
    return run


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """Drafts to submit after a failed run, and a sentence that says why."""

    drafts: tuple[SubmissionDraft, ...]
    sentence: str


_training = attrgetter("model", "data_set", "device")


def warnings_of(session: Session, drafts: Sequence[SubmissionDraft]) -> list[str]:
    """Warnings about small runs under way, wrong data, and batches that differ, did not fit, or are not planned."""
    task_id, seen = drafts[0].task_id if drafts else "", session.state.paths
    own = [run for run in session.state.runs.values() if run.task_id == task_id and run.phase in LIVE]
    small = [run.run_id for run in own if run.practice and task_id and not session.practice]
    lines = (
        [f"Under way as a small run, which does not count: {run_numbers(small).lower()}."] if small else []
    )
    wrong = dict.fromkeys(seen[each.data_dir].remark for each in drafts if each.data_dir in seen)
    lines += [f"{remark} Runs may not count: see `labtui doctor`." for remark in wrong if remark]
    usual = session.drafts(task_id) if session.edition.task(task_id) is not None else ()
    specs = [run for draft in drafts for run in draft.runs if run.n_gpus and not (run.program or run.unknown)]
    for kind in dict.fromkeys(map(_training, specs)):
        mine = [run for run in specs if _training(run) == kind]
        past = [run for run in session.state.runs.values() if _training(run.used) == kind]
        planned = {run.per_gpu_batch for draft in usual for run in draft.runs if _training(run) == kind}
        name, most = mine[0].called(session.edition.names).model, max(run.per_gpu_batch for run in mine)
        beside = (run.spec for run in past if run.epochs and run.task_id == task_id)
        made = {(run.n_gpus, run.per_gpu_batch) for run in (*mine, *beside)}
        alone = any((gpus, run.per_gpu_batch) not in made for run in mine for gpus, _ in made)
        if alone and len(planned) < 2:  # a task may plan several batches
            batches = join_names(f"{batch:,}" for batch in sorted({batch for _, batch in made}))
            lines.append(f"{name}: batches of {batches} per GPU; only runs with the same can be compared.")
        # Running out of memory below a batch size that trained has another cause, such as a shared GPU.
        fitted = max((run.spec.per_gpu_batch for run in past if run.epochs), default=0)
        starved = (run.spec.per_gpu_batch for run in past if run.gpu_memory_ran_out and not run.epochs)
        if failed := [batch for batch in starved if fitted < batch <= most]:
            lines.append(f"{name}: a batch of {min(failed):,} per GPU does not fit into memory.")
        elif planned and most > max(*planned, fitted):
            lines.append(f"{name}: {most:,} images per GPU may not fit; the task plans {max(planned):,}.")
    return lines


def _propose_all_sizes(session: Session, run: RunState, batch: int, minutes: int | None) -> Proposal | None:
    """Repeat the runs of this model that its task plans, with this batch per GPU; None if it plans no such run.

    Sizes that are done with that batch are left out; if all are done, the run's own size is repeated.
    """
    spec, sent = run.spec, session.state.submissions[run.token]
    form = sent.form if sent.form != "own" else None
    wanted = lab_plan.PlanOverrides(
        form=form, per_gpu_batch=batch, epochs=spec.epochs, time_limit_minutes=minutes, qos=sent.qos,
        partition=sent.partition,
    )  # fmt: skip
    planned = session.drafts(run.task_id, wanted) if run.task_id else ()
    mine = [row for row in rows_of(planned) if (row.spec.model, row.spec.device) == (spec.model, "gpu")]
    if not any((row.spec.label, row.spec.extra_args) == (spec.label, spec.extra_args) for row in mine):
        return None
    done = known_runs(session, run.task_id, planned)
    of_its_size = [row for row in mine if row.spec.n_gpus == spec.n_gpus]
    missing = [row for row in mine if row.spec not in done] or of_its_size
    sizes = "on all sizes, to compare them" if missing == mine else "as the runs that are done have"
    drafts = lab_plan.drafts_from(missing, planned, None, session.edition, session.profile)
    return Proposal(drafts=drafts, sentence=f"Out of memory: try a batch of {batch:,} per GPU, {sizes}.")


def retry_after(session: Session, run_id: int, *, same: bool = False, minutes: int | None = None) -> Proposal:
    """Propose a run's job again, with those of its runs that did not complete, changed as the run's failure needs.

    `same` changes nothing, `minutes` sets the time limit. Scripts are sent as they are now.

    Raises:
        UsageError: no such run, it is not over, its queue does not allow these minutes, or its own job file sets what
            would have to change.
    """
    run = run_of(session.state, run_id)
    submission = session.state.submissions[run.token]
    lab_plan.refuse_over_limit(submission.queue, minutes, session.profile)
    if run.outcome is None and submission.status not in WITHOUT_JOB:
        raise failure("not-over", run=run_id)
    runs = [session.state.runs[number] for number in submission.run_ids]
    specs = tuple(item.spec for item in runs if item.outcome != "completed") or (run.spec,)
    starved = next((each for each in (run, *runs) if each.gpu_memory_ran_out), None)
    if starved is not None and not same:
        return _propose_smaller_batch(session, submission, starved, specs, minutes)
    if run.outcome == "time-limit" and minutes is None and not same:
        return _propose_more_time(session, submission, runs, specs)
    told = f"{submission.sentence} {submission.hint}".strip()
    reason = (submission.job is None and told) or "The same settings again."
    refused = submission.status is SubmissionStatus.REFUSED
    if run.end == "host-memory":
        reason = f"{OUT_OF_MEMORY_AGAIN} {session.profile.more_memory(submission)}"
    elif minutes is not None:
        reason = f"The same settings again, with a limit of {minutes} min."
    elif (name := submission.job_file) and (refused or not _is_as_sent(session, submission)):
        reason = f"{reason} {name} goes as it was sent; to change that, submit it by its path."
    elif refused:
        reason = f"{reason} `labtui submit {run.task_id}` takes another --partition, --qos or --account."
    if run.outcome == "completed":
        reason = f"Run {run_id} is done. {reason}"
    draft = _redraft(session, submission, specs, minutes or submission.time_limit_minutes)
    if cause := next((found for found in run.diagnosis if found.kind in _FAILS_AGAIN), None):
        sent, files = submission.script_hashes, {} if submission.job_file else session.folder.script_files()
        used = sorted(started_files(draft, files))
        now = ", ".join(name for name in used if digest_of(files[name]) != sent.get(name))
        fixed = f"{run.spec.script} is corrected" if cause.kind == "traceback" else "this is fixed"
        fails = f"Unless {fixed}, it fails again: {cause.text}"
        reason = f"{reason} {fails if not now else f'Changed since then: {now}.'}"
    return Proposal(drafts=(draft,), sentence=reason)


def _is_as_sent(session: Session, submission: SubmissionState) -> bool:
    """Whether the job file of a submission lies in `slurm/` and has not changed since."""
    path, sent = session.folder.slurm / submission.job_file, session.files_of(submission.token)
    return session.folder.has(path) and session.folder.read(path) == sent.get(sent_as(submission.job_file))


def _propose_smaller_batch(
    session: Session, submission: SubmissionState, starved: RunState, specs: Iterable[RunSpec], minutes: int | None
) -> Proposal:  # fmt: skip
    """After running out of GPU memory: all sizes if the task plans such a run, else the same runs."""
    if job_file := submission.job_file:
        where = batch_file(starved.spec, job_file)
        raise failure("own-batch", run=starved.run_id, file=where, job_file=job_file)
    if starved.spec.per_gpu_batch < 2:
        raise failure("no-smaller-batch", run=starved.run_id)
    batch = lab_plan.smaller_batch(starved.spec, session.edition.task(starved.task_id))
    if (planned := _propose_all_sizes(session, starved, batch, minutes)) is not None:
        return planned
    smaller = tuple(replace(s, batch_size=min(batch, s.per_gpu_batch) * s.replicas) for s in specs)
    draft = _redraft(session, submission, smaller, minutes or submission.time_limit_minutes)
    return Proposal(drafts=(draft,), sentence=f"Out of memory: try a batch of {batch:,} per GPU.")


def _propose_more_time(
    session: Session, submission: SubmissionState, runs: Sequence[RunState], specs: tuple[RunSpec, ...]
) -> Proposal:
    """After a time-out: twice the minutes, or what the runs need at their own pace, within the queue's limit.

    If not one epoch ended and nothing is known of such runs, each takes longer than the limit was.
    """
    known = [run for run in runs if "epochs" not in run.spec.unknown]
    needed = sum(run.trained_s / run.epochs_read * run.spec.epochs for run in known if run.epochs)
    planned, before = submission.time_limit_minutes, submission.limit_minutes
    rows = session.results().measured
    expected, _ = time_and_cost(_redraft(session, submission, specs, planned), session.edition, rows)
    if expected is not None:
        needed = max(needed, expected.hi)
    elif known and not any(run.epochs for run in runs):
        needed = 60.0 * before * known[0].spec.epochs
    limit = max(planned if before < planned else 2 * planned, math.ceil(PACE_MARGIN * needed / 60))
    draft = _redraft(session, submission, specs, limit)
    if not submission.job_file:
        limit = time_limit(draft, session.edition, session.profile)
        draft = replace(draft, time_limit_minutes=max(limit, draft.time_limit_minutes))
    limit = draft.time_limit_minutes
    said = f"It ran out of time after {before} min: try {limit} min."
    if any(map(session.state.never_counts, runs)):
        said = f"{said} {WHAT_COUNTS}"
    elif expected is not None and needed <= 60 * min(before, limit):
        most = math.ceil(needed / 60)
        said = f"It ran out of time after {before} min, but should need {most} at most; it may have started late."
    elif limit <= before or 60 * limit < needed:
        said = f"It ran out of time, and the queue allows no more than {limit} min: train fewer epochs."
    return Proposal(drafts=(draft,), sentence=said)


def _redraft(
    session: Session, submission: SubmissionState, specs: tuple[RunSpec, ...], minutes: int
) -> SubmissionDraft:
    """A draft that repeats these runs of a submission; one of an own job file repeats them all.

    A queue may allow less now than when the submission was made: the minutes are cut to its limit.
    """
    minutes = session.profile.within_limit(submission.queue, minutes)
    if submission.job_file:
        own = _redraft_own(session, submission)
        return own if minutes == own.time_limit_minutes else lab_plan.with_limit(own, minutes)
    profile, again, form = session.profile, submission.request_fields, submission.form
    again |= {name: getattr(session.settings, name) for name in ("data_dir", "container", "reservation")}
    again |= {"options": (), "time_limit_minutes": minutes}
    if form == "one-job" and len(specs) == 1 < len(submission.run_ids):
        form = "torchrun" if specs[0].launcher == "torchrun" else "job-per-size"
    draft = lab_plan.size_job(SubmissionDraft(**again), form, specs, profile)
    if draft.gpus == submission.gpus:
        draft = replace(draft, cpus=submission.cpus)
    name = submission.job_name.removesuffix(f"-{submission.token[-8:]}")
    return replace(draft, job_name=name) if len(specs) == len(submission.run_ids) else draft


def _redraft_own(session: Session, submission: SubmissionState) -> SubmissionDraft:
    """A draft that repeats a student's own job file as it was sent."""
    files = session.files_of(submission.token)
    # the student may have shortened the time
    given = {option: value for option, value in submission.options_by_name.items() if option != "time"}
    name, content = submission.job_file, files.pop(sent_as(submission.job_file), None)
    if content is None:
        raise failure("files-lost", run=submission.run_ids[0])
    draft = job_file_draft(name, content.decode("utf-8", "surrogateescape"), given=given)
    kept = {path: data for path, data in files.items() if path != SCRIPT_NAME and path[-6:] != "/.keep"}
    runs = submission.runs[: len(draft.runs)]  # these include the student's answers
    beside = tuple(sorted({**kept, name: content}.items()))
    return replace(draft, task_id=submission.task_id, job_name=submission.job_name, runs=runs, beside=beside)
