"""OpenSSH's own programs, for tests that compare labtui with them; without them the test is skipped."""

import shutil
import subprocess
from pathlib import Path

import pytest


def openssh(name: str) -> str:
    """The path of ``ssh``, ``ssh-keygen``, ``ssh-agent`` or another of its programs."""
    found = shutil.which(name)
    if found is None:
        pytest.skip("needs the OpenSSH client")
    return found


def keygen(*words: str | Path, check: bool = True) -> str:
    """What ``ssh-keygen`` prints."""
    command = [openssh("ssh-keygen"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=check, stdin=subprocess.DEVNULL)
    return done.stdout


needs_openssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client")
