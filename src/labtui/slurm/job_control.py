"""Commands about one job: sbatch's answer, its logs; cancelling, holding, releasing and limiting it."""

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from labtui.domain.errors import RemoteFailure
from labtui.domain.model import plural
from labtui.domain.state import SubmissionState
from labtui.slurm import values
from labtui.slurm.probe import ASSOCIATION_FIELDS, parse_associations
from labtui.slurm.remote_command import Call, CommandResult, shell_file
from labtui.slurm.site_probe import parse_partitions
from labtui.slurm.states import sentences

# --------------------------------------------------------------------------- sbatch's answers


class SbatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """sbatch's answer to a job. `key` is a stable word for the reason of a refusal, "" if it was accepted.

    `wait`: the same submission may be accepted later. `unclear`: it may have been accepted, so look it up. `detail` is
    Slurm's own message.
    """

    key: str = ""
    sentence: str = ""
    hint: str = ""
    wait: bool = False
    unclear: bool = False
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether the job was accepted."""
        return not self.key


NO_ANSWER = "no-answer"
"""The key if Slurm did not decide: the connection, the authentication or sbatch itself failed."""


@cache
def _refusals() -> tuple[tuple[re.Pattern[str], SbatchAnswer], ...]:
    """The known refusals; the first pattern that is found counts."""
    return tuple(
        (re.compile(words.pop("pattern"), re.IGNORECASE), SbatchAnswer(**words))
        for words in map(dict, sentences()["refusals"])
    )


_PREFIX = re.compile(r"(?m)^((sbatch|srun|salloc|error|allocation failure|Batch job submission failed): ?)+")


def classify(stderr: str, out: str = "") -> SbatchAnswer:
    """The refusal in sbatch's standard error, with Slurm's own message as `detail`; `unclear` if it is not known.

    `out` may tell what is possible instead (see `known_alternatives`).
    """
    words = _PREFIX.sub("", stderr).strip()
    # Site plugins put the useful sentence on a "Reason:" line.
    reason = re.search(r"^\s*Reason:\s*(.+)$", words, re.MULTILINE)
    for text in ([reason[1]] if reason else []) + [words]:
        for pattern, refusal in _refusals():
            if found := pattern.search(text):
                said = next((line for line in text.splitlines() if pattern.search(line)), text).rstrip(".")
                said = found.groupdict().get("said", said)
                sentence = refusal.sentence.replace("{said}", said)
                hint = f"{refusal.hint} {known_alternatives(refusal.key, out)}".strip()
                return replace(refusal, sentence=sentence, hint=hint, detail=words)
    last = (reason[1] if reason else words.rpartition("\n")[2]).rstrip(".")
    return SbatchAnswer(
        key="other",
        sentence=f"sbatch failed: {last}." if last else "sbatch failed and gave no reason.",
        hint="Compare account, QoS and paths with those in `labtui doctor`.",
        unclear=True,
        detail=words,
    )


def known_alternatives(key: str, out: str) -> str:
    """After a refused account, QoS, partition, time or size: a sentence with what is possible; "" if not known."""
    found, up = parse_associations(out), [each for each in parse_partitions(out) if each.up]
    names = {"account": [row.account for row in found], "qos": [name for row in found for name in row.qos]}
    names["partition"] = [each.name for each in up]
    names["time-limit"] = [f"{each.name} {each.max_seconds / 60:.0f} min" for each in up if each.max_seconds]
    names["shape"] = [f"{each.name} {plural(each.gpus, 'GPU')} a node" for each in up if each.gpus]
    names["shape"] += [f"{each.name} {plural(each.max_nodes, 'node')}" for each in up if each.max_nodes]
    known = ", ".join(dict.fromkeys(names.get(key, ())))
    heads = {"partition": "Partitions here", "time-limit": "Time limits here", "shape": "Most for a job here"}
    return f"{heads.get(key, 'Open to you')}: {known}." if known else ""


def check_script(script: str = "#!/bin/bash\ntrue\n", options: Sequence[str] = ()) -> Call[SbatchAnswer]:
    """Run ``sbatch --test-only`` on a job script (by default of a job that does nothing); nothing is submitted."""
    return Call(
        name="test-only",
        script=shell_file("refused", "test-only"),
        arguments=(",".join(ASSOCIATION_FIELDS), script, *options),
        limit_s=115,
        read=_read_test_only,
    )


def _read_test_only(result: CommandResult) -> SbatchAnswer:
    """The answer; an unknown exit status is "not ok", with a sentence that says so."""
    if result.status == 0:
        where = result.err.strip().rpartition(" in partition ")[2]
        closed = any(each.name == where and not each.up for each in parse_partitions(result.out))
        more = f" The partition {where} is down: the job waits until it is up again." if closed else ""
        return SbatchAnswer(sentence=f"Slurm would accept this job.{more}", detail=result.err.strip())
    if result.status is None:
        sentence, hint = "Slurm gave no answer about this job script.", "Ask again in a moment."
        return SbatchAnswer(key=NO_ANSWER, sentence=sentence, hint=hint, wait=True)
    refusal = classify(result.err, result.out)
    return replace(refusal, wait=refusal.wait or refusal.key == NO_ANSWER)


# --------------------------------------------------------------------------- commands about a job


def _command(
    name: str, script: str, arguments: Sequence[str], failed: str, *, over: bool = False
) -> Call[None]:
    """A command about a job, whose ID is the last argument. Reading raises RemoteFailure with `failed` on a refusal.

    With `over` it is not an error if the job has already ended.
    """
    if values.job_id(arguments[-1]) != arguments[-1]:
        raise RemoteFailure(f"{arguments[-1]!r} is not a job ID.", "`labtui queue` shows the IDs.")
    return Call(
        name=name,
        script=script,
        arguments=tuple(arguments),
        limit_s=60,
        read=partial(_read_done, failed, over),
        silence=("Slurm did not answer.", "Look at its state, then try again."),
    )


def _read_done(failed: str, over: bool, result: CommandResult) -> None:
    words = " ".join(result.err.split())
    known = sentences()["controls"]  # the last fits any words
    told = next(each for each in known if re.search(each["pattern"], words, re.IGNORECASE))
    if result.status != 0 and not (over and told.get("over")):
        sentence = f"{failed}: {words or 'no reason given'}."
        raise RemoteFailure(sentence, told["hint"], reason=told.get("key", ""))


def only_own(call: Call[None], submission: SubmissionState) -> Call[None]:
    """A command that acts only if the job is still this submission's: Slurm may have given its ID to another one."""
    own = submission.token, submission.job_name
    return replace(call, script=f"{shell_file('own-job')}\n{call.script}", arguments=(*own, *call.arguments))


def control(what: Literal["hold", "release"], job_id: str) -> Call[None]:
    """Hold a waiting job, or release a held one."""
    done = {"hold": "held", "release": "released"}[what]
    return _command(what, shell_file("control"), (what, job_id), f"Job {job_id} was not {done}")


def cancel(job_id: str) -> Call[None]:
    """Cancel a job; not an error if it is already over."""
    return _command("cancel", 'scancel -- "$1"', (job_id,), f"Job {job_id} was not cancelled", over=True)


def end_after(job_id: str, minutes: int) -> Call[None]:
    """Give a job a time limit of `minutes` from its start; Slurm enforces it, whether labtui runs or not."""
    script = 'scontrol update JobId="$2" TimeLimit="$1"'
    failed = f"Slurm did not accept a limit of {minutes} min for job {job_id}"
    return _command("early-end", script, (f"{minutes:d}", job_id), failed)
