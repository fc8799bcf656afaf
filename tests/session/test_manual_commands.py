"""The plain commands for submitting and cancelling; `tests.commands.test_practice` runs them in real shells."""

import shlex
import subprocess

import pytest
from msgspec.structs import replace

from labtui.session.preview import ManualCommands, commands_of_cancel, commands_of_draft, quoted
from labtui.session.session import Session
from labtui.session.settings import changed, write_settings
from tests.session.conftest import accepted, draft


def by_action(commands: tuple[ManualCommands, ...]) -> dict[str, tuple[str, ...]]:
    return {item.action: item.commands for item in commands}


def test_options_stay_words_and_nothing_is_asked_or_sent(bench):
    commands = by_action(commands_of_draft(bench.session, draft(options=("--qos=a b",))))
    (test,) = commands["test"]
    words = shlex.split(shlex.split(shlex.split(test)[-1])[-1])  # this shell, ssh's, and the login shell's
    assert words[-4:-1] == ["sbatch", "--test-only", "--qos=a b"]
    assert not bench.cluster.calls and not bench.session.state.submissions


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
