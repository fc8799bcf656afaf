"""What a run of a Slurm command on the practice cluster is: its words, where it stands, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Answer = tuple[int, str, str]
"""(exit status, standard output, standard error)."""

NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a Slurm command on the practice cluster."""

    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    stdin: bytes = b""
