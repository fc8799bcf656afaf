"""What submitting a draft would do: its findings, its cost, its files; and the same as plain shell commands.

The commands are for learning, or for going on without labtui. Every word is quoted for the shells that will read it:
the local one, and for remote commands the cluster's as well. What they copy beside `scripts/` is written to
`slurm/by-hand/`. Nothing here contacts the cluster.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from labtui.domain.model import Interval, SubmissionDraft
from labtui.domain.state import LabState, SubmissionState
from labtui.session.folder import SCRIPT_NAME, SHELL_SUFFIXES, list_remote, sent_as
from labtui.session.planning import MANUAL_FOLDER, plan, started_files
from labtui.session.settings import login_of

if TYPE_CHECKING:
    from labtui.preflight.findings import Finding
    from labtui.session.session import Session


PATHS_FRESH_S = 600.0
"""How long an answer about a remote path is used: data sets are rarely moved."""
MISSING_FRESH_S = 20.0
"""How soon a missing path is asked about again: the student may have just created it."""


class Preview(msgspec.Struct, frozen=True):
    """What submitting a draft would do. `seconds` and `gpu_hours` are expectations, None if nothing is known.

    `draft` has the queue, GPUs, CPUs and time limit that its script asks for; after an edit of the student's own job
    file, also the runs of that file. `unknown_paths` are remote paths that it needs and that the cluster was not asked
    about recently: pass them to `Session.look_at`. `lacks_gpus`: the cluster has no GPU for this job of a task.
    """

    draft: SubmissionDraft
    script: str
    files: tuple[FileChange, ...]
    findings: tuple[Finding, ...]
    gpu_hours: Interval | None
    seconds: Interval | None
    unknown_paths: tuple[str, ...] = ()
    lacks_gpus: bool = False


def preview(session: Session, draft: SubmissionDraft, script: str | None) -> Preview:
    """What submitting this draft would do. Writes nothing and sends nothing."""
    from labtui.lab.edition import EditedCheck, images_of
    from labtui.lab.expected_time import time_and_cost
    from labtui.preflight import ScriptContext, paths_to_ask, preflight

    planned, sent = plan(session, draft, script)
    main, given, files = draft.job_file or SCRIPT_NAME, draft.options_by_name, dict(sent)
    if draft.job_file:  # findings name it as the student does
        files[main] = files.pop(sent_as(main))
    edition = session.edition
    fields = ("account", "qos", "partition", "gpus", "cpus", "time_limit_minutes", "runs")
    asked = replace(draft, **{name: getattr(planned, name) for name in fields})
    if draft.gpus and not asked.gpus:
        asked = replace(asked, runs=tuple(replace(run, device="cpu", n_gpus=0) for run in draft.runs))
    seconds, gpu_hours = time_and_cost(asked, edition, session.results().measured)
    if lacks_gpus := draft.form != "own" and asked.gpus > 0 and bool(session.profile.without_gpus):
        seconds = gpu_hours = None
    task, ours = edition.task(draft.task_id), edition.run_scripts
    checks = task.checks if task is not None else ()
    meant = task is not None and "time-limit" in task.own_runs_check.outcomes  # some tasks want such an end
    context = ScriptContext(
        files,
        draft,
        session.profile,
        session.profile.account_of(session.settings.account),
        (session.settings.qos, session.settings.partition),
        main=main,
        given=given,
        forecast=None if meant else seconds,
        makes_folders=True,
        bash_errors=bash_errors(files, main),
        brought=session.folder.unchanged_scripts(sent),
        wanted={each.script: each.names for each in checks if isinstance(each, EditedCheck)},
        left_out=dict(draft.left_out),
        images={r.data_set: images_of(edition, r.data_set, task) for r in draft.runs if r.script in ours},
    )
    told, unknown = known_paths(session.state, paths_to_ask(context), session.clock.wall())
    return Preview(
        draft=asked,
        script=files[main].decode("utf-8", "surrogateescape"),
        files=_files(session, sent, draft),
        findings=preflight(replace(context, remote=told)),
        gpu_hours=gpu_hours,
        seconds=seconds,
        unknown_paths=unknown,
        lacks_gpus=lacks_gpus,
    )


def known_paths(state: LabState, paths: Sequence[str], now: float) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Whether these paths exist, from the cluster's answers of the last `PATHS_FRESH_S`; and the paths to ask about.

    Those are without such an answer, or were missing `MISSING_FRESH_S` ago or longer.
    """
    seen = {path: state.paths[path] for path in paths if path in state.paths}
    ages = {path: now - answer.at for path, answer in seen.items()}
    told = {path: seen[path].there for path, age in ages.items() if 0 <= age <= PATHS_FRESH_S}
    fresh = {path for path, age in ages.items() if told.get(path) or 0 <= age <= MISSING_FRESH_S}
    return told, tuple(path for path in paths if path not in fresh)


class FileChange(msgspec.Struct, frozen=True):
    """A file pushed with a submission, `size` in bytes.

    `changed`: it differs from the one that labtui ships; `used`: a run starts or imports it.
    """

    path: str
    size: int
    changed: bool
    used: bool


def _files(session: Session, sent: Mapping[str, bytes], draft: SubmissionDraft) -> tuple[FileChange, ...]:
    files, task = sorted(sent.items()), session.edition.task(draft.task_id)
    copies = task.copies_to_start if task is not None else ()
    begun = {copy for original, copy in copies if sent.get(copy) == sent.get(original)}  # still unchanged
    changed = set(list_remote()) - session.folder.unchanged_scripts(sent) - begun
    used = started_files(draft, sent)
    return tuple(FileChange(name, len(data), name in changed, name in used) for name, data in files)


_BASH_TIMEOUT_S = 5.0


def bash_errors(files: Mapping[str, bytes], main: str = "") -> dict[str, str]:
    """Syntax errors from ``bash -n`` (which executes nothing), by the script's name; empty if there is no bash."""
    bash = shutil.which("bash") if os.name == "posix" else None
    found: dict[str, str] = {}
    for name, data in files.items() if bash else ():
        first = data.split(b"\n", 1)[0]
        other_shell = first[:2] == b"#!" and b"bash" not in first
        if other_shell or (name != main and not name.endswith(SHELL_SUFFIXES)):
            continue
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [str(bash), "--norc", "--noprofile", "-n"], env={"LC_ALL": "C", "PATH": os.defpath},
                input=data, capture_output=True, check=False, timeout=_BASH_TIMEOUT_S,
            )  # fmt: skip
            if done.returncode:
                found[name] = done.stderr.decode("utf-8", "replace")
    return found


class ManualCommands(msgspec.Struct, frozen=True):
    """One action: what it does in a sentence, and its commands, one a line, ready to copy."""

    action: str
    sentence: str
    commands: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join([f"# {self.sentence}", *self.commands])


class _Login:
    """Builds `ssh` and `scp` commands for a lab folder's cluster; the user's SSH configuration supplies the rest."""

    def __init__(self, session: Session) -> None:
        settings, profile = session.settings, session.profile
        user, host, port = login_of(settings, profile)
        data_host = profile.data_host(host) if port == profile.port else ""
        self._port = [str(port)] if port not in {None, 22} else []
        self._key = ["-i", settings.identity] if settings.identity else []
        at = f"{user}@" if user else ""
        self._target, self._copies = f"{at}{host or 'HOST'}", f"{at}{data_host or host or 'HOST'}"

    def run(self, command: str) -> str:
        """A command for the cluster's login shell, quoted for the local one.

        `bash -l` because only a login shell has the site's `module` and paths. `-n` because ssh would otherwise read
        the lines that were pasted after it.
        """
        port = ["-p", *self._port] if self._port else []
        ssh = shlex.join(["ssh", "-n", *port, *self._key, "--", self._target])
        return f"{ssh} {quoted(f'bash -lc {quoted(command)}')}"

    def copy(self, files: list[str], directory: str) -> str:
        port = ["-P", *self._port] if self._port else []
        return shlex.join(["scp", *port, *self._key, "-r", "--", *files, f"{self._copies}:{directory}/"])


def quoted(text: str) -> str:
    """One word quoted for a shell as a person would, so that text quoted twice stays readable.

    Text with exclamation marks keeps single quotes: in an interactive shell they would expand history.
    """
    if "'" not in text or "!" in text:
        return shlex.quote(text)
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def commands_of_draft(session: Session, draft: SubmissionDraft) -> tuple[ManualCommands, ...]:
    """The commands that submit a draft by hand; its files that `scripts/` lacks are written to `slurm/by-hand/NAME/`.

    Raises:
        TemplateError, FolderError: as for submitting it.
    """
    login, (sent, files) = _Login(session), plan(session, draft, None)
    there = f"cd {shlex.quote(sent.remote_dir)} && "
    beside = f"{MANUAL_FOLDER}/{PurePosixPath(sent.script_file).stem}"
    for name, data in files.items() - session.folder.script_files().items():
        session.folder.write(f"{beside}/{name}", data)
    make = login.run(f"mkdir -p {shlex.quote(sent.remote_dir)}")
    copy = login.copy(["scripts/.", f"{beside}/."], sent.remote_dir)
    test = login.run(there + shlex.join(["sbatch", "--test-only", *sent.options, SCRIPT_NAME]))
    send = login.run(there + shlex.join(["sbatch", "--parsable", *sent.options, SCRIPT_NAME]))
    return (
        ManualCommands("push", "make a directory on the cluster and copy the files there", (make, copy)),
        ManualCommands("test", "ask Slurm whether and when it would start; nothing is submitted", (test,)),
        ManualCommands("submit", "submit the job; sbatch prints the job ID", (send,)),
    )


def commands_of_cancel(
    session: Session, submission: SubmissionState, minutes: int | None = None
) -> tuple[ManualCommands, ...]:
    """The commands that cancel a submission's job, now or `minutes` after its start; empty without a job."""
    if submission.job is None:
        return ()
    job_id, token = submission.job.job_id, submission.token
    # as `slurm/sh/own-job.sh`: Slurm may have given the ID to another job
    own = f"squeue --me --states=all --jobs={job_id} --format=%k:%Z | grep -q {token}"
    action, sentence, command = "cancel", "cancel the job", f"scancel {job_id}"
    if minutes is not None:
        action, sentence = "end-after", f"let Slurm end the job {minutes:d} minutes after its start"
        command = f"scontrol update JobId={job_id} TimeLimit={minutes:d}"
    return (ManualCommands(action, sentence, (_Login(session).run(f"{own} && {command}"),)),)
