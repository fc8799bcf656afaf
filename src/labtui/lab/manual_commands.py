"""What labtui's actions amount to, as plain shell commands: to learn them, or to go on without labtui.

Every word is quoted for the shells that will read it: ours, and for remote commands the cluster's as well.
Nothing here runs anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Action = Literal[
    "log-in",
    "push",
    "test",
    "submit",
    "queue",
    "log",
    "cancel",
    "end-after",
    "results",
    "accounting",
    "push-scripts",
    "rights",
    "places",
]

ACTIONS: tuple[Action, ...] = (
    "log-in",
    "push",
    "test",
    "submit",
    "queue",
    "log",
    "cancel",
    "end-after",
    "accounting",
    "results",
    "push-scripts",
    "rights",
    "places",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAddress:
    """How to reach the cluster: a host as `ssh` takes it, and what a config file does not already say.

    `data_host` is where files are copied, when the site wants copies elsewhere than on its login nodes.
    """

    host: str
    user: str = ""
    port: int | None = None
    identity: str = ""
    data_host: str = ""

    @property
    def target(self) -> str:
        """``user@host``."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def copy_target(self) -> str:
        """``user@host`` for `scp`."""
        host = self.data_host or self.host
        return f"{self.user}@{host}" if self.user else host

    def options(self, port_flag: str = "-p") -> list[str]:
        """Port and key; `scp` and `sftp` spell the port ``-P``."""
        port = [port_flag, str(self.port)] if self.port not in {None, 22} else []
        return port + (["-i", self.identity] if self.identity else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the commands are about; what is not known yet is written as a word in capitals.

    `local_job` is the job script here, when it does not lie among the scripts; `script` is its name there.
    `shared_dir` is the lab's directory that `labtui push` fills, `minutes` a limit of the student's own, counted
    from the job's start. `caution` is what to know before submitting, `paths` what has to be on the cluster.
    Without a job's number it is looked up by `job_name`. `quota_command` is shell code of the cluster's profile.
    """

    remote_dir: str = "DIRECTORY"
    script: str = "job.slurm"
    job_id: str = "JOBID"
    out: str = "NAME.JOBID.out"
    local_scripts: str = "scripts"
    local_job: str = ""
    options: tuple[str, ...] = ()
    shared_dir: str = "DIRECTORY"
    minutes: int | None = None
    job_name: str = ""
    caution: str = ""
    paths: tuple[str, ...] = ()
    quota_command: str = ""


@dataclass(frozen=True, slots=True)
class ManualCommands:
    """One action: what it does in a sentence, and its commands, one a line, ready to copy."""

    action: Action
    sentence: str
    commands: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentence as a comment, and the commands."""
        return "\n".join([f"# {self.sentence}", *self.commands])


def commands_for(action: Action, line: SshAddress, subject: Subject | None = None) -> ManualCommands:
    about = subject or Subject()
    sentence, commands = _LESSONS[action](line, about)
    return ManualCommands(action, sentence, tuple(commands))


def all_commands(
    line: SshAddress, subject: Subject | None = None, actions: Sequence[Action] = ACTIONS
) -> tuple[ManualCommands, ...]:
    """The commands of several actions, in order."""
    return tuple(commands_for(action, line, subject) for action in actions)


def remote(line: SshAddress, command: str) -> str:
    """A command for the cluster's login shell, quoted for ours.

    `bash -l` because only a login shell has the site's `module` and paths, also when ssh runs a single
    command. `-n` because ssh would else read the lines that were pasted after it.
    """
    ssh = shlex.join(["ssh", "-n", *line.options(), line.target])
    return f"{ssh} {quoted(f'bash -lc {quoted(command)}')}"


def quoted(text: str) -> str:
    """One word for a shell, as a person would quote it: what is quoted twice stays readable.

    Exclamation marks keep their single quotes: at an interactive shell they would call up older commands.
    """
    if "'" not in text or "!" in text:
        return shlex.quote(text)
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def _in(directory: str, command: str) -> str:
    return f"cd {shlex.quote(directory)} && {command}"


def _log_in(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    del about
    return "log in to the cluster", [shlex.join(["ssh", *line.options(), line.target])]


def _copied(line: SshAddress, about: Subject, directory: str) -> list[str]:
    """Make a directory there and copy the scripts into it, the job script too where there is one."""
    copy = [
        "scp",
        *line.options("-P"),
        "-r",
        f"{about.local_scripts}/.",
        *([about.local_job] if about.local_job else []),
        f"{line.copy_target}:{directory}/",
    ]
    return [remote(line, f"mkdir -p {shlex.quote(directory)}"), shlex.join(copy)]


def _push(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    return "make a directory on the cluster and copy the scripts there", _copied(
        line, about, about.remote_dir
    )


def _push_scripts(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    scripts = replace(about, local_scripts="scripts", local_job="")
    return "copy scripts/ to this lab's own directory on the cluster, as `labtui push` does", _copied(
        line, scripts, about.shared_dir
    )


def _test(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    command = shlex.join(["sbatch", "--test-only", *about.options, about.script])
    return "ask Slurm whether it would take the job, and when; nothing is submitted", [
        remote(line, _in(about.remote_dir, command))
    ]


def _submit(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    command = shlex.join(["sbatch", "--parsable", *about.options, about.script])
    caution = f" ({about.caution})" if about.caution else ""
    return f"submit the job; Slurm answers with its number{caution}", [
        remote(line, _in(about.remote_dir, command))
    ]


def _queue(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    del about
    return "your jobs: number, name, state, time used, expected start, why they wait", [
        remote(line, "squeue --me -o '%i %j %T %M %S %r'")
    ]


def _log(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    return "read the job's output from its beginning and go on as it grows (Ctrl-C ends it)", [
        remote(line, f"tail -n +1 -F {shlex.quote(f'{about.remote_dir}/{about.out}')}")
    ]


def _cancel(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    return "cancel the job", [remote(line, shlex.join(["scancel", about.job_id]))]


def _end_after(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    minutes = "MINUTES" if about.minutes is None else f"{about.minutes:d}"
    many = "so many" if about.minutes is None else minutes
    command = shlex.join(["scontrol", "update", f"JobId={about.job_id}", f"TimeLimit={minutes}"])
    return f"let Slurm end the job {many} minutes after its start", [remote(line, command)]


def _accounting(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    fields = "JobID,State,Elapsed,Timelimit,ExitCode,AllocTRES"
    which = [f"--name={about.job_name}"] if about.job_name else ["-j", about.job_id]
    return "what became of the job", [remote(line, shlex.join(["sacct", "-X", *which, f"--format={fields}"]))]


def _results(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    source = f"{line.copy_target}:{about.remote_dir}/{about.out}"
    return "fetch the output, look at its epochs, and let labtui compute the rest", [
        shlex.join(["scp", *line.options("-P"), source, "."]),
        f"grep -A1 '^Epoch' {shlex.quote(about.out)}",
        f"labtui results {shlex.quote(about.out)}",
    ]


def _rights(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    del about
    return "which Slurm this is, and which accounts and QoS are yours", [
        remote(line, "sbatch --version"),
        remote(line, 'sacctmgr --parsable2 show associations user="$USER" format=account,qos'),
    ]


def _places(line: SshAddress, about: Subject) -> tuple[str, list[str]]:
    room = ", and how much room is left" if about.quota_command else ""
    return f"whether the data set and the container are there{room}", [
        remote(line, shlex.join(["ls", "-ld", *(about.paths or ("PATH",))])),
        *([remote(line, about.quota_command)] if about.quota_command else []),
    ]


_LESSONS = {
    "log-in": _log_in,
    "push": _push,
    "test": _test,
    "submit": _submit,
    "queue": _queue,
    "log": _log,
    "cancel": _cancel,
    "end-after": _end_after,
    "accounting": _accounting,
    "results": _results,
    "push-scripts": _push_scripts,
    "rights": _rights,
    "places": _places,
}
