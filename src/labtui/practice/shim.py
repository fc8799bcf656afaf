"""sbatch, squeue, ... on the practice cluster's PATH: send the call to the cluster's process and print its answer.

Run with `python -I -S`, so that it starts in a few milliseconds; the standard library alone. A call and its answer are
JSON behind four bytes of length. LABTUI_PRACTICE_CONTROL holds the loopback port and the secret.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import BinaryIO

PASSED = (
    "SLURM_",
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "TZ",
    "LC_",
    "LANG",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "BASH_FUNC_",
)


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """Read so many bytes; exit when the cluster is gone."""
    data = stream.read(count)
    if data is None or len(data) < count:
        sys.exit("The practice cluster is gone.")
    return data


def main() -> None:
    program, words = sys.argv[1], sys.argv[2:]
    port, _, secret = os.environ.get("LABTUI_PRACTICE_CONTROL", "").partition(":")
    if not port:
        sys.exit(f"{program}: this shell does not belong to the practice cluster.")
    named = [word for word in words if not word.startswith("-")]
    takes_input = (
        program == "sbatch" and not named and not sys.stdin.isatty() and "--wrap" not in " ".join(words)
    )
    environment = (
        os.environ if program == "sbatch" else {k: v for k, v in os.environ.items() if k.startswith(PASSED)}
    )
    call = {
        "secret": secret,
        "program": program,
        "words": words,
        "folder": os.getcwd(),
        "environment": dict(environment),
        "stdin": sys.stdin.buffer.read().decode("latin-1") if takes_input else "",
    }
    data = json.dumps(call).encode()
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as connection:
            connection.sendall(len(data).to_bytes(4, "big") + data)
            stream = connection.makefile("rb")
            answer = json.loads(read_exactly(stream, int.from_bytes(read_exactly(stream, 4), "big")))
    except OSError:
        sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    sys.stdout.buffer.write(answer["stdout"].encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    sys.stderr.buffer.write(answer["stderr"].encode("utf-8", "surrogateescape"))
    sys.stderr.flush()
    sys.exit(answer["status"])


if __name__ == "__main__":
    main()
