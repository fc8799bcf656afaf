"""Sending files: ask what is needed, send that, let it be put in place. See `labtui.core.push`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labtui.cluster.connection import Connection
from labtui.core.push import (
    PushFile,
    PushReport,
    digests_command,
    parse_digests,
    parse_push,
    plan_push,
    push_command,
    store_of,
)
from labtui.core.remote import CommandResult
from labtui.core.slurm.refusals import classify
from labtui.errors import ConnectionLost, RemoteFailure

BATCH = 200
"""Files asked about in one command."""

Progress = Callable[[str, int, int], None]
"""Called with (path, bytes sent so far, bytes to send)."""


def push_files(
    connection: Connection,
    files: Mapping[str, bytes],
    remote_dir: str,
    progress: Progress | None = None,
) -> PushReport:
    """Make `remote_dir` hold `files`. Each lands under a temporary name and is renamed when it is whole.

    Raises:
        RemoteFailure: no room, no permission.
        ConnectionLost: the line broke; pushing again costs only what is missing.
    """
    plan = plan_push(files)
    needed = [
        file
        for start in range(0, max(1, len(plan)), BATCH)
        for file in _ask(connection, remote_dir, plan[start : start + BATCH])
    ]
    contents = {file.digest: file for file in needed}
    total = sum(len(file.data) for file in contents.values())
    done = 0
    store = store_of(remote_dir)
    for digest, file in contents.items():
        connection.files.write_atomic(f"{store}/{digest}", file.data, 0o600)
        done += len(file.data)
        if progress is not None:
            progress(file.path, done, total)
    for start in range(0, len(needed), BATCH):
        if _ask(connection, remote_dir, needed[start : start + BATCH]):
            raise RemoteFailure("Files that were sent are not there any more.", "Push again.", wait=True)
    sent = {file.path for file in needed}
    return PushReport(
        sent=tuple(file.path for file in plan if file.path in sent),
        unchanged=tuple(file.path for file in plan if file.path not in sent),
        bytes_sent=done,
    )


def digests_of(connection: Connection, remote_dir: str, paths: Sequence[str]) -> dict[str, str | None]:
    """What lies under `paths` of `remote_dir`: SHA-256 by path, None for what is not there. Changes nothing.

    Raises:
        RemoteFailure: the cluster gave no answer that can be read.
    """
    found: dict[str, str | None] = {}
    for start in range(0, len(paths), BATCH):
        asked = paths[start : start + BATCH]
        told = parse_digests(connection.run(digests_command(remote_dir, asked), timeout_s=30).out, asked)
        if told is None:
            raise RemoteFailure(
                f"The cluster did not say what lies in {remote_dir}.", "Its file system may be slow now."
            )
        found |= told
    return found


def _ask(connection: Connection, remote_dir: str, files: Sequence[PushFile]) -> list[PushFile]:
    """Put in place what can be; the files that have to be sent."""
    result = connection.run(push_command(remote_dir, files), timeout_s=60)
    words = parse_push(result.out, len(files))
    if result.status is None:
        raise ConnectionLost(
            f"{connection.host} gave no answer about the files.", "Push again; it costs only what is missing."
        )
    if result.status != 0 or words is None or "failed" in words:
        raise _failure(remote_dir, result)
    return [file for file, word in zip(files, words, strict=True) if word == "need"]


def _failure(remote_dir: str, result: CommandResult) -> RemoteFailure:
    said = result.err.strip()
    refusal = classify(said)
    if refusal.key in ("quota", "permission"):
        return RemoteFailure(
            f"The files cannot be put into {remote_dir}: {refusal.sentence}",
            refusal.hint,
            detail=said,
            wait=refusal.key == "quota",
        )
    last = said.splitlines()[-1] if said else "no reason given"
    return RemoteFailure(
        f"The files cannot be put into {remote_dir}: {last}", "Check the remote folder (`root`).", detail=said
    )
