"""What bash says of shell scripts before anything runs: ``bash -n`` reads a script and executes nothing of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping

_ENDINGS = (".sh", ".slurm", ".sbatch", ".job")
_PATIENCE_S = 5.0


def bash_errors(files: Mapping[str, bytes], main: str = "") -> dict[str, str]:
    """What bash cannot read, by the script's name; nothing where there is no bash, or no script of another shell."""
    bash = shutil.which("bash") if os.name == "posix" else None
    found: dict[str, str] = {}
    for name, data in files.items() if bash else ():
        first = data.split(b"\n", 1)[0]
        if (name != main and not name.endswith(_ENDINGS)) or (first[:2] == b"#!" and b"bash" not in first):
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [str(bash), "--norc", "--noprofile", "-n"],
                input=data,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
                env={"LC_ALL": "C", "PATH": os.defpath},
            )
            if done.returncode:
                found[name] = done.stderr.decode("utf-8", "replace")
    return found
