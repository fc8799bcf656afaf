"""Slurm's state words: which phase each means, and what it means in plain words.

A word we do not know is *alive*: a job is called finished only on Slurm's own, known word for it.
"""

from __future__ import annotations

from labtui.core.model import JobPhase

FINISHED = {
    "COMPLETED": "finished without an error",
    "FAILED": "ended with an error",
    "CANCELLED": "was cancelled",
    "TIMEOUT": "reached its time limit and was stopped",
    "OUT_OF_MEMORY": "ran out of main memory (not GPU memory) and was stopped",
    "NODE_FAIL": "ended because its node failed; the fault is not yours, submit it again",
    "BOOT_FAIL": "ended because its node did not start; the fault is not yours, submit it again",
    "PREEMPTED": "had to make room for a job with precedence",
    "DEADLINE": "could not have ended before its deadline and was stopped",
    "REVOKED": "was taken over by another cluster",
}
"""States after which a job never runs again, in plain words."""

QUEUED = {
    "PENDING": "waits in Slurm's queue",
    "REQUEUED": "was put back into the queue",
    "REQUEUE_FED": "was put back into the queue",
    "REQUEUE_HOLD": "was put back into the queue and is held",
    "RESV_DEL_HOLD": "is held because its reservation was deleted",
    "SPECIAL_EXIT": "was put back into the queue and is held",
    "LAUNCH_FAILED": "could not be started on its node",
    "RECONFIG_FAIL": "waits: its node could not be set up",
}
"""States of a job that waits."""

RUNNING = {
    "RUNNING": "runs",
    "CONFIGURING": "has its nodes, which are being made ready",
    "POWER_UP_NODE": "has its nodes, which are being switched on",
    "COMPLETING": "is over, its node is being cleaned up",
    "STAGE_OUT": "is over, its files are being moved",
    "UPDATE_DB": "is over, accounting is being told",
    "SUSPENDED": "is suspended by the operators",
    "STOPPED": "is stopped by a signal",
    "SIGNALING": "is being sent a signal",
    "RESIZING": "is changing its size",
    "EXPEDITING": "runs again with precedence",
}
"""States of a job that holds nodes."""

_SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING",
    "PR": "PREEMPTED", "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING",
    "SO": "STAGE_OUT", "ST": "STOPPED", "S": "SUSPENDED", "TO": "TIMEOUT",
}  # fmt: skip


def plain_state(text: str) -> str:
    """Slurm's long state word: ``CANCELLED by 1234`` -> ``CANCELLED``, ``COMPLETED+`` -> ``COMPLETED``."""
    words = text.split()
    if not words:
        return ""
    word = words[0].rstrip("+*").upper()
    return _SHORT.get(word, word)


def phase_of(state: str) -> JobPhase:
    """The phase a state word means; a word we do not know counts as running, that is: alive."""
    word = plain_state(state)
    if not word:
        return JobPhase.UNKNOWN
    if word in FINISHED:
        return JobPhase.FINISHED
    return JobPhase.QUEUED if word in QUEUED else JobPhase.RUNNING


def state_sentence(state: str) -> str:
    """What a state means, as the end of a sentence that begins with "the job ..."."""
    word = plain_state(state)
    known = FINISHED.get(word) or QUEUED.get(word) or RUNNING.get(word)
    return known or f"is in a state labtui does not know ({word or 'none given'})"
