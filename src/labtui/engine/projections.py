"""Tables for people and programs that would rather ask SQL than replay events. Derived, never read back by labtui."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from labtui.core.events import (
    AnyEvent,
    EpochSeen,
    JobObserved,
    RunEnded,
    RunStarted,
    SamplesReset,
    SubmissionChanged,
    SubmissionPlanned,
)
from labtui.core.state import LabState


def write(db: sqlite3.Connection, events: Sequence[AnyEvent], state: LabState) -> None:
    """Bring the rows that these events touch to what `state` says."""
    tokens: set[str] = set()
    runs: set[int] = set()
    for event in events:
        if isinstance(event, (SubmissionPlanned, SubmissionChanged, JobObserved)):
            tokens.add(event.token)
        elif isinstance(event, (RunStarted, RunEnded)):
            runs.add(event.run_id)
        elif isinstance(event, EpochSeen):
            runs.add(event.run_id)
            _write_epoch(db, event)
        elif isinstance(event, SamplesReset):
            runs.update(event.run_ids)
            db.executemany("DELETE FROM epochs WHERE run_id = ?", [(run_id,) for run_id in event.run_ids])
    for token in tokens & state.submissions.keys():
        _write_submission(db, state, token)
        runs.update(state.submissions[token].run_ids)
    for run_id in runs & state.runs.keys():
        _write_run(db, state, run_id)


def _write_epoch(db: sqlite3.Connection, event: EpochSeen) -> None:
    sample = event.sample
    metrics = msgspec.json.encode({name: str(value) for name, value in sample.metrics.items()}).decode()
    db.execute(
        """INSERT OR REPLACE INTO epochs (run_id, epoch, seconds, lo, hi, printed_seconds, source, line, metrics)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            event.run_id,
            sample.epoch,
            sample.seconds.value,
            sample.seconds.lo,
            sample.seconds.hi,
            sample.printed_seconds,
            sample.source,
            sample.line,
            metrics,
        ),
    )


def _write_submission(db: sqlite3.Connection, state: LabState, token: str) -> None:
    item = state.submissions[token]
    row = (
        token,
        item.task_id,
        item.form,
        item.job_name,
        item.status.value,
        item.sentence,
        item.planned_at,
        item.remote_dir,
    )
    db.execute("INSERT OR REPLACE INTO submissions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    job = item.job
    if job is not None:
        job_row = (
            token,
            job.job_id,
            job.phase.value,
            job.slurm_state,
            job.reason,
            job.start_time,
            job.end_time,
            job.node,
            job.exit_code,
            job.evidence,
            job.seen_at,
        )
        db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", job_row)


def _write_run(db: sqlite3.Connection, state: LabState, run_id: int) -> None:
    run = state.runs[run_id]
    spec = run.spec
    row = (
        run_id,
        run.token,
        run.task_id,
        spec.model,
        spec.device,
        spec.n_gpus,
        spec.batch_size,
        spec.epochs,
        run.phase.value,
        run.outcome,
    )
    db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
