"""`squeue`: the command and the reader of its answer.

Fields and rows are separated by control characters followed by a random number, so that a job name, a
comment or a reason may hold anything, line breaks included. No ``%C`` (it makes squeue fetch details), no
``-j`` (it fetches the whole cluster's jobs), no JSON (its shape depends on release and build).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from labtui.core.model import JobPhase, JobView
from labtui.core.slurm.states import phase_of, plain_state
from labtui.core.slurm.times import duration_seconds, epoch_seconds

FIELDS = (
    ("job_id", "%A"),
    ("display_id", "%i"),
    ("state", "%T"),
    ("reason", "%r"),
    ("start", "%S"),
    ("submit", "%V"),
    ("end", "%e"),
    ("limit", "%l"),
    ("used", "%M"),
    ("partition", "%P"),
    ("qos", "%q"),
    ("nodes", "%N"),
    ("work_dir", "%Z"),
    ("comment", "%k"),
    ("name", "%j"),
)
"""The fields asked for, in order, with squeue's codes (20.02 to 26.05)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as squeue shows it. Times are UNIX seconds of the cluster, None when Slurm names none.

    `start` is an estimate while the job waits, the true start afterwards. `display_id` is the id with the
    array task (``123_4``). `nodes` is empty while it waits.
    """

    job_id: str
    display_id: str
    state: str
    reason: str = ""
    start: float | None = None
    submit: float | None = None
    end: float | None = None
    time_limit_s: float | None = None
    elapsed_s: float | None = None
    partition: str = ""
    qos: str = ""
    nodes: str = ""
    work_dir: str = ""
    comment: str = ""
    name: str = ""

    @property
    def phase(self) -> JobPhase:
        """Queued, running or finished."""
        return phase_of(self.state)

    def view(self, seen_at: float) -> JobView:
        """This row as evidence; `seen_at` is UNIX seconds of our clock."""
        queued = self.phase is JobPhase.QUEUED
        return JobView(
            job_id=self.job_id,
            phase=self.phase,
            slurm_state=self.state,
            reason=self.reason if self.reason != "None" else "",
            start_estimate=self.start if queued else None,
            submit_time=self.submit,
            start_time=None if queued else self.start,
            end_time=self.end if self.phase is JobPhase.FINISHED else None,
            time_limit_s=self.time_limit_s,
            elapsed_s=self.elapsed_s,
            node=self.nodes,
            partition=self.partition,
            evidence="squeue",
            seen_at=seen_at,
        )


def separators(nonce: str) -> tuple[str, str]:
    """(before each row, between fields): control characters with the number of this call."""
    return f"\x1e{nonce}", f"\x1f{nonce}"


def queue_format(nonce: str) -> str:
    """The text for ``squeue -o``. `nonce` is lower-case hex (a capital C would make squeue fetch details)."""
    row, between = separators(nonce)
    return row + between.join(code for _, code in FIELDS)


def queue_command(nonce: str) -> str:
    """The words of the call: all of my jobs, the finished ones that Slurm remembers included."""
    return f"squeue --me --local --noheader --array --states=all --format={shlex.quote(queue_format(nonce))}"


def parse_queue(text: str, nonce: str) -> tuple[JobRow, ...]:
    """Rows in squeue's order. A row with another number of fields is left out: it is not ours."""
    row_mark, between = separators(nonce)
    rows = []
    for piece in text.split(row_mark)[1:]:
        values = piece.removesuffix("\n").split(between)
        if len(values) == len(FIELDS) and values[0].strip().isdecimal():
            rows.append(_row(dict(zip((name for name, _ in FIELDS), values, strict=True))))
    return tuple(rows)


def _row(told: dict[str, str]) -> JobRow:
    empty = {"N/A", "(null)", "n/a"}
    text = {name: "" if value in empty else value for name, value in told.items()}
    return JobRow(
        job_id=told["job_id"].strip(),
        display_id=told["display_id"].strip(),
        state=plain_state(told["state"]),
        reason=text["reason"].strip(),
        start=epoch_seconds(told["start"]),
        submit=epoch_seconds(told["submit"]),
        end=epoch_seconds(told["end"]),
        time_limit_s=duration_seconds(told["limit"]),
        elapsed_s=duration_seconds(told["used"]),
        partition=text["partition"],
        qos=text["qos"],
        nodes=text["nodes"],
        work_dir=text["work_dir"],
        comment=text["comment"],
        name=told["name"],
    )
