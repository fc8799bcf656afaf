"""Why `sbatch` said no, sorted into *wait*, *never* and *unclear*, each with a sentence and what to do.

The order of the table matters: Slurm prints a general sentence below the telling one, and site plugins print
their own above both. *Unclear* means that the controller may have taken the job although the answer did not
arrive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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


_WAIT_HINT = "labtui keeps it in the waiting line and sends it when there is room."

_TABLE: tuple[tuple[str, Refusal], ...] = (
    (
        r"socket timed out|unable to contact slurm|communication (connection )?failure|zero bytes (were )?"
        r"transmitted|slurm_persist_conn_open|unexpected message|message (receive|send) fail|reset by peer",
        Refusal(
            "no-answer",
            "Slurm's controller did not answer in time.",
            "Nothing is sent twice: labtui first looks whether the job is there.",
            unclear=True,
        ),
    ),
    (
        r"QOSMaxSubmitJobPerUserLimit|QOSMaxSubmitJobsPerUser",
        Refusal(
            "qos-submit-limit",
            "This QoS takes no further job of yours at the moment (its limit of submitted jobs per user).",
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
            "Write --gres=gpu:N without blanks; N is per node.",
        ),
    ),
    (
        r"memory .*(automatically|not allowed|set by)|--mem.*(not|forbidden)|memory specification",
        Refusal(
            "memory",
            "The site sets the memory itself and refuses --mem (or it cannot be satisfied).",
            "Take --mem out of the job script; memory comes with the CPUs.",
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
            "The job script has Windows line breaks, which sbatch refuses.",
            "Save it with Unix line breaks; `labtui push` converts scripts by itself.",
        ),
    ),
    (
        r"does not look like a batch script|batch script is empty",
        Refusal(
            "not-a-script",
            "This is no job script: its first line must be #!/bin/bash (or another interpreter).",
            "Start the file with #!/bin/bash, without blanks or empty lines before it.",
        ),
    ),
    (
        r"unable to open file|no such file or directory",
        Refusal(
            "missing-script",
            "The job script, or a folder it names, is not on the cluster.",
            "Push again and check the name. A blank or a wrong dash inside an option also makes sbatch take the "
            "next word for the script.",
        ),
    ),
    (
        r"unrecognized option|invalid option|unknown option|invalid argument|invalid --|ambiguous option",
        Refusal(
            "option",
            "sbatch does not understand one of the options in the job script.",
            "Look at the #SBATCH lines: two plain hyphens, no blanks around the equals sign.",
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
    (
        r"command not found|no sbatch on",
        Refusal(
            "no-sbatch",
            "There is no sbatch on this host.",
            "Connect to a login node of the cluster, not to a transfer node.",
        ),
    ),
)

_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), refusal) for pattern, refusal in _TABLE)
_PREFIX = re.compile(r"^(sbatch|srun|salloc|allocation failure): ?(error: )?", re.MULTILINE)


def classify(stderr: str) -> Refusal:
    """The refusal that sbatch's standard error tells of; Slurm's own words are kept in `detail`."""
    words = _PREFIX.sub("", stderr).strip()
    # Site plugins put the useful sentence on a "Reason:" line.
    told = re.search(r"^\s*Reason:\s*(.+)$", words, re.MULTILINE)
    for text in ([told[1]] if told else []) + [words]:
        for pattern, refusal in _COMPILED:
            if pattern.search(text):
                return Refusal(
                    refusal.key, refusal.sentence, refusal.hint, refusal.wait, refusal.unclear, words
                )
    said = words.splitlines()[-1] if words else ""
    return Refusal(
        "other",
        f"Slurm refused the job: {said}" if said else "Slurm refused the job and gave no reason.",
        "The full answer is in the remote-command panel.",
        detail=words,
    )
