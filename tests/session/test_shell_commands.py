"""The commands behind the actions survive two shells: run with a stand-in that hands words on as ssh does."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from labtui.session.manual_commands import Action, SshAddress, Subject, all_commands, commands_for

NASTY = '/gpfs/a b/it\'s $(touch PWNED) `x` "q" ;&|<>*/é'


@pytest.fixture
def shell(tmp_path: Path):
    """Runs a command line in bash with stand-ins for the programs; gives the words they got."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    log = tmp_path / "log"
    # ssh drops its options and the host, joins the other words with blanks, and the remote shell reads them.
    ssh = 'while [ "${1#-}" != "$1" ]; do [ "$1" = -- ] && break; [ "$1" = -n ] || shift; shift; done\nshift 2\n'
    ssh += 'exec bash -c "$*"\n'
    record = f'printf "%s\\0" "$(basename "$0")" "$@" >> {shlex.quote(str(log))}\n'
    for name, body in {
        "ssh": ssh, "scp": record, "sbatch": record, "squeue": record, "sacct": record, "scancel": record,
        "scontrol": record, "tail": record, "mkdir": record, "labtui": record, "ls": record, "sacctmgr": record,
    }.items():  # fmt: skip
        path = bin_dir / name
        path.write_text("#!/bin/bash\n" + body)
        path.chmod(0o755)
    (tmp_path / ".bash_profile").write_text(f"PATH={shlex.quote(str(bin_dir))}:$PATH\ncd() {{ pwd=$1; }}\n")

    def run(command: str) -> list[str]:
        log.unlink(missing_ok=True)
        env = {"PATH": f"{bin_dir}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        subprocess.run(["bash", "-c", command], check=True, env=env, cwd=tmp_path, timeout=240)
        assert not (tmp_path / "PWNED").exists()
        return log.read_text().split("\0")[:-1] if log.exists() else []

    return run


LINE = SshAddress(host="alogin1.bsc.es", user="u1", port=2222, identity="/home/me/my key")
SUBJECT = Subject(
    remote_dir=NASTY, script="job's.slurm", job_id="31337", out="R n.31337.out", options=("--qos=acc debug",)
)


def test_words_arrive_as_they_were_meant(shell):
    (command,) = commands_for("submit", LINE, SUBJECT).commands
    assert shell(command) == ["sbatch", "--parsable", "--qos=acc debug", "job's.slurm"]
    make, copy = commands_for("push", LINE, SUBJECT).commands
    assert shell(make) == ["mkdir", "-p", NASTY]
    assert shell(copy) == [
        "scp",
        "-P",
        "2222",
        "-i",
        "/home/me/my key",
        "-r",
        "--",
        "scripts/.",
        f"u1@alogin1.bsc.es:{NASTY}/",
    ]
    _, copy = commands_for("push", LINE, replace(SUBJECT, local_job="slurm/job's.slurm")).commands
    assert shell(copy)[-3:] == ["scripts/.", "slurm/job's.slurm", f"u1@alogin1.bsc.es:{NASTY}/"]
    assert shell(commands_for("log", LINE, SUBJECT).commands[0])[-1] == f"{NASTY}/R n.31337.out"
    assert shell(commands_for("cancel", LINE, SUBJECT).commands[0]) == ["scancel", "31337"]
    assert shell(commands_for("end-after", LINE, SUBJECT).commands[0]) == [
        "scontrol", "update", "JobId=31337", "TimeLimit=MINUTES",
    ]  # fmt: skip
    assert shell(commands_for("queue", LINE, SUBJECT).commands[0]) == [
        "squeue",
        "--me",
        "-o",
        "%i %j %T %M %S %r",
    ]
    assert shell(commands_for("accounting", LINE, SUBJECT).commands[0])[:4] == ["sacct", "-X", "-j", "31337"]
    assert shell(commands_for("test", LINE, SUBJECT).commands[0])[1] == "--test-only"


def test_commands_are_quoted_as_a_person_would(shell):
    commands = commands_for("test", SshAddress(host="mn5"), Subject(remote_dir="/a/b")).commands
    assert commands == ("ssh -n -- mn5 \"bash -lc 'cd /a/b && sbatch --test-only job.slurm'\"",)
    commands = commands_for("queue", SshAddress(host="mn5")).commands
    assert commands == (r"""ssh -n -- mn5 "bash -lc \"squeue --me -o '%i %j %T %M %S %r'\"" """.rstrip(),)
    for odd in ("it's \\ a\\\\", "it's! `x` $y", "'\"!\\", "\n'\n", "\\$'\\`", "'" * 5):
        subject = replace(SUBJECT, remote_dir="/x", script=odd)
        assert shell(commands_for("submit", LINE, subject).commands[0])[-1] == odd


def test_every_action_has_a_sentence_and_commands_of_one_line():
    every = all_commands(SshAddress(host="mn5"))
    for found in every:
        assert found.sentence
        assert found.commands
        assert all("\n" not in command for command in found.commands)
        assert found.text.startswith(f"# {found.sentence}\n")
    assert {item.action for item in every} == set(get_args(Action))


def test_copies_go_to_the_sites_host_for_copies_and_nothing_else_does(shell):
    line = replace(LINE, data_host="transfer1.bsc.es")
    make, copy = commands_for("push", line, SUBJECT).commands
    assert "u1@alogin1.bsc.es" in make
    assert shell(copy)[-1] == f"u1@transfer1.bsc.es:{NASTY}/"
    fetch, *_ = commands_for("results", line, SUBJECT).commands
    assert shell(fetch)[-2:] == [f"u1@transfer1.bsc.es:{NASTY}/R n.31337.out", "."]
    for action in ("log-in", "test", "submit", "queue", "log", "cancel", "end-after", "accounting"):
        assert "transfer1" not in commands_for(action, line, SUBJECT).text  # type: ignore[arg-type]


def test_the_shared_scripts_ones_own_minutes_and_a_job_known_by_its_name(shell):
    subject = replace(SUBJECT, shared_dir=f"{NASTY}/scripts", minutes=10, local_job="slurm/x.slurm")
    make, copy = commands_for("push-scripts", LINE, subject).commands
    assert shell(make) == ["mkdir", "-p", f"{NASTY}/scripts"]
    assert shell(copy)[-2:] == ["scripts/.", f"u1@alogin1.bsc.es:{NASTY}/scripts/"], (
        "no job script goes there"
    )
    assert shell(commands_for("end-after", LINE, subject).commands[0])[-1] == "TimeLimit=10"
    named = replace(SUBJECT, job_name="R's $(touch PWNED)")
    assert "--name=R's $(touch PWNED)" in shell(commands_for("accounting", LINE, named).commands[0])
    assert (
        "twice"
        in commands_for("submit", LINE, replace(SUBJECT, caution="otherwise it is sent twice")).sentence
    )


def test_what_a_config_file_says_is_not_repeated():
    assert commands_for("log-in", SshAddress(host="mn5")).commands == ("ssh -- mn5",)
    assert commands_for("log-in", LINE).commands == ("ssh -p 2222 -i '/home/me/my key' -- u1@alogin1.bsc.es",)
