"""Runs the commands that labtui shows, as a person would who copies them into a terminal."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.openssh import openssh


def by_hand(folder: Path, text: str) -> str:
    """Run the printed commands in the lab folder (logging in left out); what they said.

    ssh and scp know no host but those they meet, and read no configuration of the person at this computer.
    """
    commands = [line for line in text.splitlines() if re.match(r"(ssh|scp) .*(bash -lc|:)", line)]
    assert commands, text
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("ssh", "scp"):
        (programs / name).write_text(
            f"#!/bin/sh\nexec {openssh(name)} -F none -o UserKnownHostsFile={folder.parent / 'known_hosts'} "
            '-o StrictHostKeyChecking=accept-new -o LogLevel=ERROR "$@"\n'
        )
        (programs / name).chmod(0o755)
    script = folder.parent / "by-hand.sh"
    script.write_text("\n".join(commands))
    done = subprocess.run(
        ["bash", "-e", str(script)],
        stdin=subprocess.DEVNULL,
        text=True,
        capture_output=True,
        cwd=folder,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
