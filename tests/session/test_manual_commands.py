"""The plain commands for submitting and cancelling: quoted for two shells, to the place that is meant."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from labtui.session.preview import ManualCommands, commands_of_cancel, commands_of_draft, quoted
from labtui.session.session import Session
from labtui.session.settings import changed, write_settings
from tests.session.conftest import accepted, draft

NASTY = '/gpfs/a b/it\'s $(touch PWNED) `x` "q" ;&|<>*/é'


def by_action(commands: tuple[ManualCommands, ...]) -> dict[str, tuple[str, ...]]:
    return {item.action: item.commands for item in commands}


@pytest.fixture
def shell(tmp_path: Path):
    """Runs a command line in bash with stand-ins for the programs; gives the words that the last one got."""
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    # ssh drops its options and the host, joins the other words with blanks, and the remote shell reads them.
    ssh = 'while [ "${1#-}" != "$1" ]; do [ "$1" = -- ] && break; [ "$1" = -n ] || shift; shift; done\nshift 2\n'
    record = f'printf "%s\\0" "$(basename "$0")" "$@" > {shlex.quote(str(log))}\n'
    bodies = dict.fromkeys(("scp", "sbatch", "scancel", "scontrol", "mkdir"), record)
    for name, body in {**bodies, "ssh": ssh + 'exec bash -c "$*"\n'}.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}")
        (programs / name).chmod(0o755)
    (tmp_path / ".bash_profile").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\ncd() {{ :; }}\n")

    def run(command: str) -> list[str]:
        env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        subprocess.run(["bash", "-c", command], check=True, env=env, cwd=tmp_path, timeout=240)
        assert not (tmp_path / "PWNED").exists()
        return log.read_text().split("\0")[:-1]

    return run


def test_words_arrive_as_they_were_meant(bench, shell):
    session = bench.session
    session.settings = changed(
        session.settings, host="h", user="u1", port=2222, identity="/my key", root=NASTY
    )
    commands = by_action(commands_of_draft(session, draft(options=("--qos=a b",))))
    assert not bench.cluster.calls and not session.state.submissions, "nothing is asked, nothing sent"
    make, copy = commands["push"]
    directory = shell(make)[2]
    assert shell(make)[:2] == ["mkdir", "-p"] and directory.startswith(NASTY)
    words = shell(copy)
    assert words[:8] == ["scp", "-P", "2222", "-i", "/my key", "-r", "--", "scripts/."]
    assert words[-1] == f"u1@h:{directory}/"
    name = words[-2].rpartition("/")[2]
    assert (bench.path / words[-2]).is_file()
    assert shell(commands["test"][0]) == ["sbatch", "--test-only", "--qos=a b", name]
    assert shell(commands["submit"][0]) == ["sbatch", "--parsable", "--qos=a b", name]


@pytest.mark.parametrize(
    "odd", ["it's \\ a\\\\", "it's! `x` $y", "'\"!\\", "\n'\n", "\\$'\\`", "'" * 5, "plain", ""]
)
def test_a_word_stays_one_word_in_a_shell(odd):
    printed = subprocess.run(["bash", "-c", f"printf %s {quoted(odd)}"], capture_output=True, check=True)
    assert printed.stdout.decode() == odd


def test_commands_are_quoted_as_a_person_would(bench):
    token = accepted(bench)
    item = bench.session.state.submissions[token]
    assert by_action(commands_of_cancel(bench.session, item)) == {
        "cancel": ("ssh -n -- login1 \"bash -lc 'scancel 100'\"",)
    }
    (limit,) = commands_of_cancel(bench.session, item, 9)
    assert "scontrol update JobId=100 TimeLimit=9" in limit.commands[0]
    assert limit.text.startswith("# let Slurm end the job 9 minutes after its start\nssh ")
    assert commands_of_cancel(bench.session, replace(item, job=None)) == ()


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "transfer1.bsc.es"),
        ({"host": "alogin2.bsc.es"}, "transfer1.bsc.es"),
        ({"host": "my-alias"}, "my-alias"),
        ({"host": "alogin1.bsc.es", "port": 2222}, "alogin1.bsc.es"),
    ],
)
def test_copies_go_to_the_sites_own_host_only_where_the_site_is_meant(bench, settings, host):
    changes = {"profile": "mn5", "account": "nct_000", "user": "u1", **settings}
    write_settings(bench.session.folder.settings_path, changed(bench.session.settings, **changes))
    bench.session.close()
    with Session.open(bench.path, start=False) as opened:
        make, copy = by_action(commands_of_draft(opened, draft()))["push"]
    assert shlex.split(copy)[-1].startswith(f"u1@{host}:") and "transfer1" not in make
