"""What `sbatch` answers: refusals sorted into *wait* and *never*, and the answer of `sbatch --test-only`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labtui.slurm.remote_command import LIMIT, PINNED, CommandResult, RemoteCommand


@dataclass(frozen=True, slots=True)
class Refusal:
    """`wait`: the same submission may be accepted later. `unclear`: it may have been accepted: look it up.

    `key` is a stable word for the kind, `detail` Slurm's own words.
    """

    key: str
    sentence: str
    hint: str
    wait: bool = False
    unclear: bool = False
    detail: str = ""


NO_ANSWER = "no-answer"
"""The key of an answer that is none: the connection, the authentication or sbatch itself broke."""

_WAIT_HINT = "labtui keeps it in the submission queue and sends it when there is room."

_SILENT = Refusal(
    NO_ANSWER,
    "Slurm's controller did not answer in time.",
    "Nothing is sent twice: labtui first looks whether the job is there.",
    unclear=True,
)

_TABLE: tuple[tuple[str, Refusal], ...] = (
    (
        r"socket timed out|unable to contact slurm|communication ((connection )?failure|error)"
        r"|connection (failure|refused|timed out)|zero bytes (were )?transmitted|slurm_persist_conn_open"
        r"|unexpected message|message (receive|send) fail|reset by peer|standby mode"
        r"|munge|authentication (error|fail)|protocol authentication|credential"
        r"|(?m:^(.*: )?(terminated|killed|aborted|segmentation fault|bus error)\b)",
        _SILENT,
    ),
    (
        r"QOSMaxSubmitJobPerUserLimit|QOSMaxSubmitJobsPerUser",
        Refusal(
            "qos-submit-limit",
            "This QoS accepts no further job of yours at the moment (its limit of submitted jobs per user).",
            _WAIT_HINT,
            wait=True,
        ),
    ),
    (
        r"AssocMaxSubmitJobLimit|(QOS|Assoc)(Grp|Max)Submit\w*|MaxSubmitJobPerAccount|AssocGrpSubmitJobsLimit",
        Refusal(
            "submit-limit",
            "You or your group have as many jobs in the queue as is allowed.",
            _WAIT_HINT,
            wait=True,
        ),
    ),
    (
        r"invalid --(time|begin|deadline)",
        Refusal(
            "time-format",
            "Slurm does not understand the time limit.",
            "Write hours:minutes:seconds, for instance 00:30:00 (two fields mean minutes and seconds).",
        ),
    ),
    (
        r"QOSMaxWallDurationPerJobLimit|AssocMaxWallDurationPerJobLimit|requested time limit is invalid"
        r"|PartitionTimeLimit|time limit specification",
        Refusal(
            "time-limit",
            "The time limit asked for is longer than this queue allows, or is missing.",
            "Ask for less time; `labtui doctor` shows the limit of your QoS.",
        ),
    ),
    (
        r"(QOS|Assoc)(Grp|Max)\w*(Minutes|RunMins|RunMinutes)\w*",
        Refusal(
            "budget",
            "The computing time granted to your account does not cover this job.",
            "Ask your teacher about the account's budget, or ask for less time or fewer GPUs.",
        ),
    ),
    (
        r"(QOS|Assoc)Max\w*(Gres|GRES|Cpu|CPU|Node|Memory|Mem)\w*|MaxTRESPer|QOSMin\w+",
        Refusal(
            "size-limit",
            "The job asks for more (or less) than this QoS allows for one job or one user.",
            "Ask for fewer GPUs or CPUs; `labtui doctor` shows the limits of your QoS.",
        ),
    ),
    (
        r"minimum cpus requested should be",
        Refusal(
            "cpus-per-gpu",
            "The site asks for a minimum of CPUs per GPU, and the job asks for fewer.",
            "Ask for 20 CPUs for each GPU on MareNostrum 5 (the profile's `cpus_per_gpu`).",
        ),
    ),
    (
        r"no account specified|invalid account|account/partition combination|AccountNotAllowed"
        r"|user's? account|not a valid account",
        Refusal(
            "account",
            "Slurm does not accept this account for you.",
            "Use the account of your own group (nct_NNN on MareNostrum); `labtui doctor` lists yours.",
        ),
    ),
    (
        r"no qos specified|invalid qos|QOSNotAllowed|qos .*not (allowed|permitted)",
        Refusal(
            "qos",
            "Slurm does not accept this QoS for your account.",
            "Choose one of yours; `labtui doctor` lists them.",
        ),
    ),
    (
        r"invalid partition|partition .*(not available|does not exist)|no partition specified",
        Refusal(
            "partition",
            "This partition does not exist or is not open to you.",
            "Correct the partition, or leave it out where the QoS chooses it.",
        ),
    ),
    (
        r"requested reservation is invalid|reservation.*(invalid|not found|denied)|invalid reservation",
        Refusal(
            "reservation",
            "The reservation does not exist, is over, or is not open to you.",
            "Leave the reservation out, or ask your teacher for its name and hours.",
        ),
    ),
    (
        r"invalid generic resource|invalid gres|invalid TRES",
        Refusal(
            "gres",
            "Slurm does not know this way of asking for GPUs.",
            "Write --gres=gpu:N without spaces; N is per node.",
        ),
    ),
    (
        r"memory .*(automatically|not allowed|set by)|--mem.*(not|forbidden)|memory specification",
        Refusal(
            "memory",
            "The site sets the memory itself and refuses --mem (or it cannot be satisfied).",
            "Remove --mem from the job script; memory comes with the CPUs.",
        ),
    ),
    (
        r"requested node configuration is not available|more processors requested than permitted"
        r"|node count specification invalid|invalid number of|cpu count",
        Refusal(
            "shape",
            "No node of this queue can give what the job asks for.",
            "Compare CPUs, GPUs and nodes with the profile: one GPU comes with one GPU's share of the CPUs.",
        ),
    ),
    (
        r"DOS line breaks",
        Refusal(
            "line-breaks",
            "The job script has Windows line endings, which sbatch refuses.",
            "Save it with LF line endings; `labtui push` converts scripts automatically.",
        ),
    ),
    (
        r"does not look like a batch script|batch script is empty",
        Refusal(
            "not-a-script",
            "This is not a job script: its first line must be #!/bin/bash (or another interpreter).",
            "Start the file with #!/bin/bash, without spaces or empty lines before it.",
        ),
    ),
    (
        r"command not found|failed to run command|no sbatch on",
        Refusal(
            "no-sbatch",
            "There is no sbatch on this host.",
            "Connect to a login node of the cluster, not to a transfer node.",
        ),
    ),
    (
        r"unable to open file|no such file or directory",
        Refusal(
            "missing-script",
            "The job script, or a folder it names, is not on the cluster.",
            "Push again and check the name. A space or a wrong dash inside an option also makes sbatch take the "
            "next word for the script.",
        ),
    ),
    (
        r"unrecognized option|invalid option|unknown option|invalid argument|invalid --|ambiguous option",
        Refusal(
            "option",
            "sbatch does not understand one of the options in the job script.",
            "Look at the #SBATCH lines: two plain hyphens, no spaces around the equals sign.",
        ),
    ),
    (
        r"disk quota exceeded|no space left",
        Refusal(
            "quota",
            "There is no room left on the cluster's file system (quota).",
            "Delete what you do not need there; `labtui doctor` shows the quota.",
        ),
    ),
    (
        r"node.*\b(drained|down|not available)\b|required node not available|ReqNodeNotAvail"
        r"|partition.* (down|drained|inactive)",
        Refusal(
            "nodes-down",
            "The nodes this job needs are down or reserved at the moment.",
            _WAIT_HINT,
            wait=True,
        ),
    ),
    (
        r"temporarily unable|try again|slurm.*(busy|overloaded)|resource temporarily unavailable|too many"
        r"|MaxJobCount",
        Refusal("busy", "Slurm is too busy to take the job right now.", _WAIT_HINT, wait=True),
    ),
    (
        r"violates accounting/QOS policy|AssocGrp\w+|QOSGrp\w+",
        Refusal(
            "policy",
            "The job breaks a limit of your account or QoS (number of jobs, size or time).",
            "`labtui doctor` shows your limits; ask for less, or wait until your other jobs are over.",
        ),
    ),
    (
        r"access/permission denied|permission denied|not permitted|user .*(unknown|invalid)|invalid user",
        Refusal(
            "permission",
            "Slurm does not let you do this.",
            "Ask the site's support or your teacher whether your account is active.",
        ),
    ),
)

_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), refusal) for pattern, refusal in _TABLE)
_PREFIX = re.compile(r"^(sbatch|srun|salloc|allocation failure): ?(error: )?", re.MULTILINE)


def classify(stderr: str) -> Refusal:
    """The refusal in sbatch's standard error, with Slurm's own words as `detail`; `unclear` for unknown words."""
    words = _PREFIX.sub("", stderr).strip()
    # Site plugins put the useful sentence on a "Reason:" line.
    reason = re.search(r"^\s*Reason:\s*(.+)$", words, re.MULTILINE)
    for text in ([reason[1]] if reason else []) + [words]:
        for pattern, refusal in _COMPILED:
            if pattern.search(text):
                return replace(refusal, detail=words)
    lines = words.splitlines()
    if (
        len(lines) == 1 and "unspecified error" in words.lower()
    ):  # below a plugin's reason it means nothing more
        return replace(_SILENT, detail=words)
    last = reason[1] if reason else lines[-1] if lines else ""
    return Refusal(
        "other",
        f"Slurm refused the job: {last}" if last else "Slurm refused the job and gave no reason.",
        "Press m in labtui to see the full answer.",
        unclear=True,
        detail=words,
    )


_WOULD_START = re.compile(r"\bJob [0-9]+ to start at \S")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOnly:
    """Slurm's own word on a job script. `kind` is the `Refusal.key` of a job that would be refused."""

    __test__ = False  # the name is Slurm's; this is no pytest class

    ok: bool
    sentence: str = ""
    hint: str = ""
    wait: bool = False
    detail: str = ""
    kind: str = ""


def test_only_command(remote_dir: str, script_name: str, options: Sequence[str]) -> RemoteCommand:
    """Ask about `script_name` in `remote_dir` with the options that would be used."""
    words = ["sbatch", "--test-only", *options, script_name]
    script = (
        f"{PINNED}\n{LIMIT}\ncd -- {shlex.quote(remote_dir)} >/dev/null || exit 74\n"
        f"limit 60 {shlex.join(words)} </dev/null"
    )
    return RemoteCommand("test-only", script)


def try_command(options: Sequence[str]) -> RemoteCommand:
    """Ask about a job that does nothing, with these options; no file is needed."""
    words = shlex.join(["sbatch", "--test-only", *options])
    script = f"{PINNED}\n{LIMIT}\nprintf '#!/bin/bash\\ntrue\\n' | limit 60 {words}"
    return RemoteCommand("try", script)


test_only_command.__test__ = False  # type: ignore[attr-defined]


def parse_test_only(result: CommandResult) -> TestOnly:
    """Read the answer; a status we do not know is "not ok" with a sentence that says so."""
    text = f"{result.err}\n{result.out}"
    if result.status == 0 and _WOULD_START.search(text):
        return TestOnly(ok=True, sentence="Slurm would accept this job.", detail=result.err.strip())
    if result.status is None:
        return TestOnly(
            ok=False,
            sentence="Slurm gave no answer about this job script.",
            hint="Ask again in a moment.",
            wait=True,
        )
    if result.status == 0:
        return TestOnly(ok=True, sentence="Slurm reported no problem.", detail=text.strip())
    if result.status == 74:
        return TestOnly(
            ok=False,
            sentence="The directory of this submission is not on the cluster.",
            hint="Push the files first.",
            detail=text.strip(),
        )
    refusal = classify(text)
    return TestOnly(
        ok=False,
        sentence=refusal.sentence,
        hint=refusal.hint,
        wait=refusal.wait or refusal.key == NO_ANSWER,
        detail=refusal.detail,
        kind=refusal.key,
    )
