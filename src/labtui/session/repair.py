"""`labtui repair`: a new database from what can still be read.

Three witnesses, in this order: every event that the old file still gives; the job scripts under `slurm/`, whose
heads say what was submitted; the mirrors under `logs/`, whose names say which job it became and whose bytes say what
it did. The old file is kept. Nothing on the cluster is touched; what a rebuilt submission became there is found by
its token the next time there is a connection. One that only its script tells of may have been taken back: when no job
of it is there, it is not sent, and says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from labtui.domain.errors import FolderError, LabError
from labtui.domain.events import (
    AnyEvent,
    LabState,
    LogSegmentStarted,
    PlannedRun,
    SubmissionChanged,
    SubmissionPlanned,
    SubmissionState,
)
from labtui.domain.model import JobPhase, RunSpec, SubmissionStatus
from labtui.domain.profile import Profile
from labtui.domain.reduce import reduce_all
from labtui.lab.plan import on_nodes
from labtui.session import mirrors
from labtui.session.folder import SCRIPT_NAME, FolderLock, LabFolder, hashes
from labtui.session.labs import load_edition
from labtui.session.own_jobs import ScriptFacts, read_script_facts
from labtui.session.planning import lab_root, logs_of, own_logs_of
from labtui.session.run_matcher import SubmissionReader
from labtui.session.settings import Settings, cluster_user, load_profile
from labtui.session.store import Store, is_whole, raw_events, raw_snapshots

_CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was saved. `old_database` is where the old file lies now, `damaged` whether something in it was lost."""

    events_kept: int
    submissions_rebuilt: int
    epochs_read: int
    old_database: Path | None
    damaged: bool


def repair(folder: LabFolder) -> RepairReport:
    """Rebuild the database of a lab folder.

    Raises:
        FolderError: when another process holds the folder, or it cannot be written.
    """
    lock = FolderLock(folder.lock_path)
    if not lock.acquire():
        raise FolderError("Another labtui has this lab folder open.", "Close it, then repair.")
    try:
        return _repair(folder)
    finally:
        lock.release()


def _repair(folder: LabFolder) -> RepairReport:
    kept = list(raw_events(folder.database_path)) if folder.database_path.exists() else []
    damaged = folder.database_path.exists() and not is_whole(folder.database_path)
    state = reduce_all(LabState(), kept)
    planned = list(_from_scripts(folder, state))
    state = reduce_all(state, planned)
    adopted = list(_from_mirror_names(folder, state))
    state = reduce_all(state, adopted)
    read = list(_from_mirrors(folder, state))
    state = reduce_all(state, read)
    blobs, snapshots = _files(folder, state)
    old = _set_aside(folder, "damaged" if damaged else "old")
    store = Store(folder.database_path)
    try:
        store.append([*kept, *planned, *adopted, *read], blobs=blobs, snapshot=snapshots)
    finally:
        store.close()
    epochs = sum(len(run.epochs) for run in state.runs.values())
    return RepairReport(len(kept), len(planned), epochs, old, damaged)


def _files(folder: LabFolder, state: LabState) -> tuple[dict[str, bytes], dict[str, dict[str, str]]]:
    """What a submission that may still have to be sent would send: as stored, or else as it is now."""
    blobs, snapshots = raw_snapshots(folder.database_path) if folder.database_path.exists() else ({}, {})
    for token, submission in state.submissions.items():
        known = snapshots.get(token, {})
        script = folder.inside(submission.script_file)
        if (
            submission.job is not None
            or submission.rebuilt
            or (known and blobs.keys() >= set(known.values()))
            or not script.is_file()
        ):
            continue
        files = {**folder.script_files(), SCRIPT_NAME: script.read_bytes()}
        snapshots[token] = hashes(files)
        blobs.update({snapshots[token][name]: data for name, data in files.items()})
    return blobs, {token: names for token, names in snapshots.items() if blobs.keys() >= set(names.values())}


def _set_aside(folder: LabFolder, word: str) -> Path | None:
    path = folder.database_path
    if not path.exists():
        return None
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = path.with_name(f"{path.name}.{word}-{stamp}")
    path.replace(kept)
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            side.replace(kept.with_name(kept.name + suffix))
    return kept


# --------------------------------------------------------------------------- job scripts


def _from_scripts(folder: LabFolder, state: LabState) -> Iterator[SubmissionPlanned]:
    number = max(state.runs, default=0)
    for path in sorted(folder.slurm.glob("*.slurm"), key=lambda item: item.stat().st_mtime):
        facts = read_script_facts(path.read_text(encoding="utf-8", errors="replace"))
        if facts is None or facts.token in state.submissions:
            continue
        yield _planned(folder, path, facts, number)
        number += len(facts.runs)


def _planned(folder: LabFolder, path: Path, facts: ScriptFacts, number: int) -> SubmissionPlanned:
    settings = folder.settings()
    profile = load_profile(settings.profile, folder.path)
    user = cluster_user(settings, profile)
    runs = _with_programs(folder, settings, profile, facts.runs)
    remote_dir = f"{lab_root(profile, settings, user=user, account=facts.account)}/{facts.token}"
    return SubmissionPlanned(
        at=path.stat().st_mtime,
        token=facts.token,
        task_id=facts.task_id,
        form=facts.form,
        job_name=facts.job_name,
        runs=tuple(PlannedRun(run_id=number + i, spec=spec) for i, spec in enumerate(runs, start=1)),
        account=facts.account,
        qos=facts.queue,
        gpus=facts.gpus,
        cpus=facts.cpus,
        nodes=facts.nodes,
        time_limit_minutes=facts.time_limit_minutes,
        script_file=f"slurm/{path.name}",
        remote_dir=remote_dir,
        remote_logs=own_logs_of(remote_dir, facts.log_patterns, user=user)
        if facts.form == "own"
        else logs_of(remote_dir, facts.job_name, gpus=facts.gpus),
        job_file=facts.job_file,
        practice=facts.practice,
        rebuilt=True,
    )


def _with_programs(
    folder: LabFolder, settings: Settings, profile: Profile, runs: tuple[RunSpec, ...]
) -> tuple[RunSpec, ...]:
    """The runs with their programs as the lab has them: a job script names a program, and not the lines it prints."""
    if not any(run.processes for run in runs):
        return runs
    try:
        edition = load_edition(settings.edition, folder)
    except LabError:
        return runs  # they are kept, without the times that their programs printed
    found = []
    for run in runs:
        program = edition.program(run.model) if run.processes else None
        if program is not None:
            words = program.words(run.processes, run.size)
            whole = replace(run, program=program, launcher=program.launcher, arguments=words, extra_args=())
            found.append(on_nodes(whole, profile))
        else:
            found.append(run)
    return tuple(found)


# --------------------------------------------------------------------------- mirrors


def _from_mirror_names(folder: LabFolder, state: LabState) -> Iterator[AnyEvent]:
    """A mirror's name holds its job id. A submission without one may be on the cluster: it is looked up there."""
    for submission in state.submissions.values():
        if submission.job is not None:
            continue
        # Several submissions of a student's own file have one name: only the cluster can tell them apart.
        jobs = [] if submission.job_file else sorted(_job_ids(folder, submission))
        at = submission.planned_at
        if jobs:
            status, job_id = SubmissionStatus.ACCEPTED, str(jobs[-1])
        elif submission.status is SubmissionStatus.WAITING:
            status, job_id = SubmissionStatus.UNKNOWN, ""
        else:
            continue
        yield SubmissionChanged(
            at=at, token=submission.token, status=status, job_id=job_id, sentence="Rebuilt by labtui repair."
        )
        if job_id:
            yield from _segments(folder, submission, job_id, at)


def _job_ids(folder: LabFolder, submission: SubmissionState) -> Iterable[int]:
    pattern = re.compile(re.escape(submission.job_name) + r"\.(\d+)(?:\.restart\d+)?\.(?:out|err)")
    for path in folder.logs.iterdir():
        match = pattern.fullmatch(path.name)
        if match:
            yield int(match[1])


def _segments(folder: LabFolder, submission: SubmissionState, job_id: str, at: float) -> Iterator[AnyEvent]:
    for stream in mirrors.STREAMS:
        segment = 0
        while (folder.logs / mirrors.mirror_name(submission.job_name, job_id, stream, segment + 1)).exists():
            segment += 1
        if (folder.logs / mirrors.mirror_name(submission.job_name, job_id, stream, segment)).exists():
            yield LogSegmentStarted(at=at, token=submission.token, stream=stream, segment=segment)


def _from_mirrors(folder: LabFolder, state: LabState) -> Iterator[AnyEvent]:
    """Epochs and ends, from the bytes we hold; only what the state does not know yet."""
    for token in state.submissions:
        submission = state.submissions[token]
        if submission.job is None:
            continue
        planned = [state.runs[run_id].spec for run_id in submission.run_ids if run_id in state.runs]
        reader = SubmissionReader(submission, planned, folder.log_patterns())
        for stream in mirrors.READ_STREAMS:
            path = mirrors.current_path(folder, submission, stream)
            if path is None or not path.exists():
                continue
            with path.open("rb") as file:
                while data := file.read(_CHUNK):
                    events = reader.feed(stream, data, state, path.stat().st_mtime)
                    state = reduce_all(state, events)
                    yield from events
        if submission.job.phase is JobPhase.FINISHED:
            yield from reader.finish(submission.job, state, submission.job.seen_at)
