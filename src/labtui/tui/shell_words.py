"""The plain shell commands an action amounts to, ready to copy: to learn them, or to go on without labtui. Pure."""

from __future__ import annotations

import shlex
from typing import Any

from labtui.core.model import RunPhase, SubmissionDraft
from labtui.core.state import RunState, SubmissionState
from labtui.tui.view import Picture


def target_of(settings: Any, profile: Any) -> tuple[str, list[str]]:
    """``user@host`` and the options `ssh` needs for it."""
    host = settings.host or (profile.login_hosts[0] if profile.login_hosts else "HOST")
    user = settings.user or profile.user
    port = settings.port or profile.port
    options = (["-p", str(port)] if port and port != 22 else []) + (
        ["-i", settings.identity] if settings.identity else []
    )
    return (f"{user}@{host}" if user else host), options


def commands_for(picture: Picture, settings: Any, profile: Any) -> str:
    """What fits the selected run: look at it, read its log, cancel it; else how to log in and look at the queue."""
    target, options = target_of(settings, profile)
    ssh = shlex.join(["ssh", *options, target])
    lines = [
        "# log in",
        ssh,
        "",
        "# your jobs, and why they wait",
        f"{ssh} squeue --me -o {shlex.quote(shlex.quote('%i %j %T %r %S'))}",
    ]
    run = picture.run
    submission = picture.submission_of(run) if run is not None else None
    if run is not None and submission is not None:
        lines += _of_run(ssh, run, submission)
    return "\n".join(lines) + "\n"


def _of_run(ssh: str, run: RunState, submission: SubmissionState) -> list[str]:
    lines: list[str] = []
    job = submission.job
    if job is not None and job.job_id:
        if log := submission.remote_logs.get("out", "").replace("%j", job.job_id):
            lines += [
                "",
                f"# the output of run #{run.run_id} as it grows",
                f"{ssh} tail -n +1 -f {_remote(log)}",
            ]
        lines += [
            "",
            "# what accounting knows",
            f"{ssh} sacct -j {_remote(job.job_id)} --format=JobID,State,Elapsed,ExitCode",
        ]
        if run.phase in {RunPhase.QUEUED, RunPhase.STARTING, RunPhase.RUNNING}:
            lines += ["", "# cancel it", f"{ssh} scancel {_remote(job.job_id)}"]
    return lines


def _remote(word: str) -> str:
    """A word that two shells will read: ours, then the cluster's."""
    return shlex.quote(shlex.quote(word)) if shlex.quote(word) != word else word


def submit_commands(draft: SubmissionDraft, settings: Any, profile: Any, remote_dir: str) -> str:
    """Copy the scripts, then submit the job script: what the plan screen does."""
    target, options = target_of(settings, profile)
    copy = [word if word != "-p" else "-P" for word in options]
    script = f"{draft.job_name}.slurm"
    there = f"cd {shlex.quote(remote_dir)} && sbatch {shlex.quote(script)}"
    lines = [
        "# make a directory for this submission and copy scripts and job script there",
        f"{shlex.join(['ssh', *options, target])} mkdir -p {_remote(remote_dir)}",
        f"{shlex.join(['scp', *copy, '-r', 'scripts/.', f'slurm/{script}', f'{target}:{remote_dir}/'])}",
        "",
        "# submit it there",
        f"{shlex.join(['ssh', *options, target])} {shlex.quote(there)}",
    ]
    return "\n".join(lines) + "\n"
