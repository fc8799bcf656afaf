"""What this user may do: QoS and account limits from `sacctmgr`, and Slurm's version. Questions alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from labtui.core.slurm.times import duration_seconds

ASSOCIATION_FIELDS = ("Account", "Partition", "QOS", "DefaultQOS", "MaxJobs", "MaxSubmit", "MaxWall")
QOS_FIELDS = ("Name", "MaxWall", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPU", "MaxTRES", "Flags", "Priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """One account this user may charge; `qos` are the QoS allowed with it."""

    account: str
    partition: str = ""
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    max_jobs: int | None = None
    max_submit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QosLimits:
    """A QoS with its limits; None means no limit that Slurm tells. `max_wall_s` is in seconds."""

    name: str
    max_wall_s: float | None = None
    max_jobs_per_user: int | None = None
    max_submit_per_user: int | None = None
    max_tres_per_user: str = ""
    max_tres_per_job: str = ""
    deny_on_limit: bool = False


def associations_command() -> str:
    """Ask for the caller's own accounts."""
    fields = ",".join(ASSOCIATION_FIELDS)
    return f'sacctmgr --readonly --noheader --parsable2 show assoc where user="$(id -un)" format={fields}'


def qos_command() -> str:
    """Ask for all QoS: the caller's are picked from the accounts."""
    return f"sacctmgr --readonly --noheader --parsable2 show qos format={','.join(QOS_FIELDS)}"


def parse_associations(text: str) -> tuple[Association, ...]:
    """One for each readable line."""
    found = []
    for told in _rows(text, ASSOCIATION_FIELDS):
        if told["Account"]:
            found.append(
                Association(
                    account=told["Account"],
                    partition=told["Partition"],
                    qos=tuple(name for name in told["QOS"].split(",") if name),
                    default_qos=told["DefaultQOS"],
                    max_jobs=_number(told["MaxJobs"]),
                    max_submit=_number(told["MaxSubmit"]),
                )
            )
    return tuple(found)


def parse_qos(text: str) -> tuple[QosLimits, ...]:
    """One for each readable line."""
    return tuple(
        QosLimits(
            name=told["Name"],
            max_wall_s=duration_seconds(told["MaxWall"]),
            max_jobs_per_user=_number(told["MaxJobsPU"]),
            max_submit_per_user=_number(told["MaxSubmitPU"]),
            max_tres_per_user=told["MaxTRESPU"],
            max_tres_per_job=told["MaxTRES"],
            deny_on_limit="DenyOnLimit" in told["Flags"],
        )
        for told in _rows(text, QOS_FIELDS)
        if told["Name"]
    )


def parse_version(text: str) -> tuple[int, int, int] | None:
    """(22, 5, 8) of ``slurm 22.05.8`` or ``slurm-wlm 24.11.5``; None when there is no version in it."""
    told = re.search(r"\b(\d{2})\.(\d{1,2})(?:\.(\d+))?", text)
    return (int(told[1]), int(told[2]), int(told[3] or 0)) if told else None


def _rows(text: str, fields: tuple[str, ...]) -> Iterable[dict[str, str]]:
    for line in text.splitlines():
        values = line.split("|")
        if len(values) == len(fields):
            yield dict(zip(fields, (value.strip() for value in values), strict=True))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
