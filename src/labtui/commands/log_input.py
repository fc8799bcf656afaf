"""Bytes of a log by its path: files, standard input and pipes; never a folder, a device, or without end.

What may not enter: what the bytes mean.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from labtui.domain.errors import DataError
from labtui.domain.model import Stream
from labtui.training_logs.lines import BINARY_LOOK
from labtui.training_logs.reader import LogReader
from labtui.training_logs.runs import LogReport

CHUNK = 1 << 20
PATIENCE_S = 2.0
"""Seconds a named pipe may be without a writer before we say so."""


def read_log(path: str, stream: Stream, patterns: Sequence[re.Pattern[str]] = ()) -> LogReport:
    """Read the log at `path` (`-`: standard input) in chunks; `patterns` are a person's own forms of lines.

    Raises:
        DataError: when there is nothing to read, with a sentence that says why.
    """
    if path == "-":
        return _parse(_chunks(sys.stdin.buffer), LogReader(stream=stream, patterns=patterns))
    try:
        return _parse(
            _bytes_of(Path(path)), LogReader(stream=stream, job_name=_job_name(Path(path)), patterns=patterns)
        )
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.", "Check the path.", path=path) from None
    except PermissionError:
        raise DataError(f"{path}: you may not read this file.", "Check its permissions.", path=path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: it cannot be read ({reason}).", "", path=path) from None


def _parse(chunks: Iterable[bytes], reader: LogReader) -> LogReport:
    """As `parse_log`, but what is no text is not read to its end, which it may not have."""
    size = 0
    for chunk in chunks:
        reader.feed(chunk)
        judged, size = size > BINARY_LOOK, size + len(chunk)
        if size > BINARY_LOOK and not judged and reader.report.binary:
            break
    reader.finish()
    return reader.report


def _job_name(path: Path) -> str:
    """Slurm's ``%x`` of a log named ``%x.%j.out``; other names tell nothing."""
    name, _, number = path.stem.rpartition(".")
    return name if number.isdigit() else ""


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while chunk := source.read(CHUNK):
        yield chunk


def _bytes_of(path: Path) -> Iterator[bytes]:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise DataError(
            f"{path}: this is a folder, not a file.", "Name the logs in it: FOLDER/*.out", path=str(path)
        )
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DataError(
            f"{path}: this is a device, not a file.", "Give the job's .out or .err file.", path=str(path)
        )
    if stat.S_ISFIFO(mode):
        yield from _piped(path)
        return
    with path.open("rb") as source:
        yield from _chunks(source)


def _piped(path: Path) -> Iterator[bytes]:
    """A named pipe: read as what its writer sends; without a writer it would wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield _first_of_pipe(path, handle)
        os.set_blocking(handle, True)
        while chunk := os.read(handle, CHUNK):
            yield chunk
    finally:
        os.close(handle)


def _first_of_pipe(path: Path, handle: int) -> bytes:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if first := os.read(handle, CHUNK):
                return first
        except BlockingIOError:
            return b""  # there is a writer, and it takes its time
        if time.monotonic() > until:
            raise DataError(
                f"{path}: nobody writes into this pipe.", "Give the job's .out or .err file.", path=str(path)
            )
        time.sleep(0.02)
