"""Why a job still waits, in words: every pending reason a student may meet, with what to do.

The reasons that speak of limits are built from parts (whose limit, over whom, of what), so that the
hundred-odd names of all releases, and new ones of the same make, need no table of their own.
"""

from __future__ import annotations

import re

_KNOWN = {
    "None": "Slurm has not looked at this job yet. Wait half a minute.",
    "Priority": "Jobs with a higher priority go first. Nothing is wrong; a shorter time limit helps.",
    "Resources": "It is first in line and waits for nodes to become free. Nothing is wrong.",
    "Dependency": "It waits for another job to end first.",
    "DependencyNeverSatisfied": "The job it depends on ended in a way that can never satisfy it. Cancel it.",
    "BeginTime": "It asks to start at a later time, or was just put back into the queue. Wait until then.",
    "SchedDefer": "Slurm puts off starting jobs right after they are submitted. Wait half a minute.",
    "JobHeldUser": "You hold it yourself. Let it go with `scontrol release` and its number.",
    "JobHeldAdmin": "The operators hold it. Ask the site's support why.",
    "JobHoldMaxRequeue": "It was restarted too often and is held. Look at its log, then submit it again.",
    "JobArrayTaskLimit": "As many tasks of this array run as it allows itself. Wait.",
    "Licenses": "It waits for a software licence. Wait.",
    "Reservation": "It waits for its reservation to begin, or the reservation is full.",
    "ReservationDeleted": "The reservation it asks for is gone. Cancel it and submit without a reservation.",
    "InvalidReservation": "The reservation does not exist. Cancel it and submit without it.",
    "ReqNodeNotAvail": (
        "The nodes it needs are down or kept for a maintenance. It starts by itself afterwards; "
        "a shorter time limit may let it in before."
    ),
    "PartitionDown": "The partition takes no jobs at the moment. Wait, or read the site's news.",
    "PartitionInactive": "The partition does not start jobs at the moment. Wait, or read the site's news.",
    "PartitionNodeLimit": (
        "It asks for more (or fewer) nodes than the partition allows. Cancel it and ask for less."
    ),
    "PartitionTimeLimit": "It asks for more time than the partition allows. Cancel it and ask for less.",
    "PartitionConfig": (
        "It asks for something the partition does not give. Cancel it and correct the request."
    ),
    "AccountNotAllowed": (
        "Your account may not use this partition. Cancel it and choose another QoS or account."
    ),
    "InvalidAccount": "The account is not valid. Cancel it and use your own group's account.",
    "InvalidQOS": "The QoS is not valid for you. Cancel it and choose one of yours.",
    "QOSNotAllowed": "This QoS may not be used in this partition. Cancel it and choose another one.",
    "QOSUsageThreshold": "Your use of the machine is above what this QoS allows. Wait, or use another QoS.",
    "QOSJobLimit": "Jobs of this QoS have reached its limit. It starts when one of them ends.",
    "QOSResourceLimit": "Jobs of this QoS hold as much as it allows. It starts when one of them ends.",
    "QOSTimeLimit": "It asks for more time than the QoS allows. Cancel it and ask for less.",
    "AssociationJobLimit": "Your account runs as many jobs as it may. It starts when one of them ends.",
    "AssociationResourceLimit": "Your account holds as much as it may. It starts when one of its jobs ends.",
    "AssociationTimeLimit": "It asks for more time than your account may use. Cancel it and ask for less.",
    "AccountingPolicy": "A limit of your account or QoS is reached. Wait, or ask for less.",
    "BadConstraints": "No node can ever give what it asks for. Cancel it and correct the request.",
    "Constraints": "It waits for nodes with the features it asks for.",
    "MaxMemPerLimit": "It asks for more memory than a node or CPU may give. Cancel it and ask for less.",
    "NodeDown": "A node it needs is down. Wait, or submit it again without naming nodes.",
    "FrontEndDown": "A front-end node is down. Wait.",
    "SystemFailure": "Slurm or the machine failed. Wait; if it stays, ask the site's support.",
    "JobLaunchFailure": (
        "It could not be started: a bad node or a missing folder. Look at it, then submit again."
    ),
    "NonZeroExitCode": "Its script ended with an error. Look at its log.",
    "RaisedSignal": "Its script was ended by a signal. Look at its log.",
    "TimeLimit": "It used up its time limit.",
    "InactiveLimit": "It was inactive for too long.",
    "OutOfMemory": "It ran out of memory. Ask for more CPUs (memory comes with them) or use less.",
    "DeadLine": "It cannot end before its deadline any more.",
    "Cleaning": "It is being put back into the queue; its old nodes are still being cleaned up. Wait.",
    "Prolog": "Its nodes are being made ready. It starts in a moment.",
    "BurstBufferResources": "It waits for room in the burst buffer.",
    "BurstBufferStageIn": "Its files are being brought to the burst buffer.",
    "BurstBufferOperation": "An operation of the burst buffer failed. Ask the site's support.",
    "FedJobLock": "It waits for the other clusters of the federation.",
    "PowerNotAvail": "There is no electrical power left for it within the site's limit. Wait.",
    "PowerReserved": "Electrical power is kept back for others. Wait.",
    "JobStartDelay": "It waits for a delay set by the site.",
    "NodesBusy": "The nodes it asks for are busy. It starts when they are free.",
}

_HELD_ELSEWHERE = {
    "launch failed requeued held": (
        "It could not be started and is held. Look at its log, then submit it again."
    ),
    "job requeued in held state": (
        "It was put back into the queue and is held. Let it go with `scontrol release`."
    ),
}

_LIMIT = re.compile(
    r"(?P<owner>QOS|Assoc(?:iation)?|Partition|User|Account)"
    r"(?P<scope>Grp|Max|Min)"
    r"(?P<what>[A-Za-z]*?)"
    r"(?P<minutes>RunMinutes|Minutes|RunMins|Mins)?"
    r"(?P<per>PerJob|PerUser|PerAccount|PerNode)?"
    r"(?:Limit|NotSatisfied)?"
)
_OWNERS = {
    "QOS": "this QoS",
    "Assoc": "your account",
    "Association": "your account",
    "Partition": "the partition",
    "User": "your user",
    "Account": "your account",
}
_THINGS = (
    ("submit", "jobs in the queue"),
    ("job", "running jobs"),
    ("gres", "GPUs"),
    ("cpu", "CPUs"),
    ("node", "nodes"),
    ("mem", "memory"),
    ("wall", "time"),
    ("lic", "licences"),
    ("bb", "burst buffer"),
    ("energy", "energy"),
    ("billing", "billed resources"),
    ("disk", "disk"),
)


def explain_reason(reason: str) -> str:
    """A pending reason as a sentence with what to do; empty for no reason."""
    words = reason.strip().strip("()").strip()
    if not words:
        return ""
    for text, sentence in _HELD_ELSEWHERE.items():
        if words.lower().startswith(text):
            return sentence
    name = re.split(r"[,\s(]", words, maxsplit=1)[0]
    if name in _KNOWN:
        return _KNOWN[name]
    if name.endswith("Limit") and name.removesuffix("Limit") in _KNOWN:
        return _KNOWN[name.removesuffix("Limit")]
    told = _LIMIT.fullmatch(name)
    if told is not None:
        return _limit_sentence(told)
    return f"Slurm names the reason {words}. `squeue --help` and the site's pages may tell more."


def must_be_changed(reason: str) -> bool:
    """True when waiting cannot help: the job has to be cancelled and asked for differently."""
    return "Cancel it" in explain_reason(reason)


def _limit_sentence(told: re.Match[str]) -> str:
    owner = _OWNERS[told["owner"]]
    kind = told["what"].lower()
    thing = next((words for key, words in _THINGS if key in kind), "resources")
    if told["scope"] == "Min":
        return f"It asks for fewer {thing} than {owner} wants a job to use. Cancel it and ask for more."
    if told["minutes"]:
        return (
            f"The computing time that {owner} has been granted ({thing} times minutes) does not cover it. "
            "Ask your teacher about the budget, or cancel it and ask for less."
        )
    if thing == "time" or (told["per"] in ("PerJob", "PerNode") and told["scope"] == "Max"):
        return f"It asks for more {thing} than {owner} allows for one job. Cancel it and ask for less."
    if told["scope"] == "Grp" and told["owner"] == "QOS":
        return f"All jobs of this QoS together use as many {thing} as it allows. It starts when some end."
    if told["scope"] == "Grp":
        return f"Your group together uses as many {thing} as it may. It starts when a job of your group ends."
    return f"You use as many {thing} as {owner} allows one user. It starts when one of your jobs ends."
