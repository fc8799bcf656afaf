"""Following runs: `labtui log` prints a run's output, `labtui watch` says what happens until all runs are over."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.commands.terminal import (
    Open,
    add_folder_argument,
    plain,
    run_number,
    say,
    say_error,
)
from labtui.domain.model import EpochSample, JobPhase, JobView, RunPhase, Stream, SubmissionStatus
from labtui.domain.state import LabState, RunState, SubmissionState
from labtui.domain.terminal_text import sanitize
from labtui.slurm.states import explain_reason

if TYPE_CHECKING:
    from labtui.session.journal import Update

_OPEN = (RunPhase.WAITING, RunPhase.QUEUED, RunPhase.STARTING, RunPhase.RUNNING, RunPhase.UNKNOWN)


def log_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, which stream, whether to follow."""
    parser.add_argument("run", type=run_number, metavar="RUN", help="a number, as `labtui queue` shows")
    add_folder_argument(parser)
    parser.add_argument(
        "--follow", action="store_true", help="keep printing as the log grows, until the job ends"
    )
    stream = parser.add_mutually_exclusive_group()
    stream.add_argument("--err", dest="stream", action="store_const", const="err", help="standard error")
    stream.add_argument(
        "--gpu", dest="stream", action="store_const", const="gpu", help="the GPU sampler's CSV"
    )
    parser.set_defaults(stream="out")


def run_log(args: argparse.Namespace) -> int:
    """Copy the mirror to stdout: its bytes into a pipe, harmless text onto a terminal."""
    from labtui.session.planning import run_of

    with Open(args, start=False, looks=not args.follow) as lab:
        record = run_of(lab.state, args.run)
        printer = _Printer()
        if args.follow:
            lab.session.start()
            lab.session.watch_logs({record.token})
            _follow(lab, record, args.stream, printer)
        path = lab.session.log_path(record.token, args.stream)
        if path is None:
            say(f"The log of run {args.run} has not been read yet. `labtui watch` or --follow fetches it.")
            return 1
        printer.more(path)
        if not args.follow and not _complete(lab.state, record, args.stream):
            say("The log may have grown since; --follow fetches the rest.")
    return 0


def _follow(lab: Open, record: RunState, stream: Stream, printer: _Printer) -> None:
    for _ in lab.updates(lambda state: _stream_over(state, record, stream)):
        path = lab.session.log_path(record.token, stream)
        if path is not None:
            printer.more(path)
        lab.check_line(patient=True)


def _complete(state: LabState, record: RunState, stream: Stream) -> bool:
    log = state.submissions[record.token].logs.get(stream)
    return log is not None and log.complete


def _stream_over(state: LabState, record: RunState, stream: Stream) -> bool:
    if _complete(state, record, stream):
        return True
    return state.runs[record.run_id].phase not in _OPEN and state.submissions[record.token].job is None


class _Printer:
    """Writes what was not written yet; a new segment is announced, never glued to the old one."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._offset = 0
        self._terminal = sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def more(self, path: Path) -> None:
        if path != self._path:
            if self._path is not None:
                say(f"-- the log started again at {time.strftime('%H:%M:%S')} --")
            self._path, self._offset = path, 0
        with path.open("rb") as file:
            file.seek(self._offset)
            while data := file.read(1 << 20):
                self._offset += len(data)
                if self._terminal:
                    sys.stdout.write(sanitize(self._decoder.decode(data)))
                else:
                    sys.stdout.buffer.write(data)
        sys.stdout.flush()


def watch_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form."""
    add_folder_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON line for each thing that happens")


def run_watch(args: argparse.Namespace) -> int:
    """Watch until nothing is open any more."""
    with Open(args, start=False) as lab:
        before = {token for token, item in lab.state.submissions.items() if _over(lab.state, item)}
        show = _as_json if args.json else _NewsPrinter()
        if args.json:
            print(
                json.dumps(
                    {"type": "snapshot", "runs": [_row(lab.state, run) for run in lab.state.runs.values()]}
                ),
                flush=True,
            )
        if all_over(lab.state):
            say(nothing_to_watch(lab.state))
        else:
            lab.session.start()
            if (why := lab.session.why_read_only) is not None:
                say_error(why)
            lab.session.watch_logs(set(lab.state.submissions))
            notify = _Notifier(lab)
            for update in lab.updates(all_over):
                for news in news_of(update):
                    show(news, update.state)
                notify(update.state)
                lab.check_line(patient=True)
        ended = [run for run in lab.state.runs.values() if run.token not in before]
        _say_what_fits(lab, ended)
        if args.json:
            print(json.dumps({"type": "end", "runs": [_row(lab.state, run) for run in ended]}), flush=True)
        return 0 if all(run.phase is RunPhase.DONE for run in ended) else 1


class _Notifier:
    """Rings when a job starts, ends or fails: on a terminal, and on the desktop, as the lab folder's settings say."""

    def __init__(self, lab: Open) -> None:
        from labtui.session.notifications import DesktopNotifier, NoticeTracker

        self._how = lab.session.settings.notifications if sys.stderr.isatty() else "off"
        self._tracker = NoticeTracker(lab.state)
        self._desktop = DesktopNotifier()

    def __call__(self, state: LabState) -> None:
        from labtui.session.notifications import terminal_sequence

        terminal = sys.__stderr__  # the command's own stream lets no escape sequence through
        if self._how == "off" or terminal is None:
            return
        for notice in self._tracker.notices(state):
            print(terminal_sequence(notice), end="", file=terminal, flush=True)
            if self._how == "desktop":
                self._desktop.show(notice)


def nothing_to_watch(state: LabState) -> str:
    """Why there is nothing to follow."""
    if not state.runs:
        return "Nothing to watch: no run has been submitted yet (labtui submit TASK)."
    runs = f"{len(state.runs)} runs are" if len(state.runs) != 1 else "one run is"
    return f"Nothing to watch: {runs} over (labtui queue lists them, labtui results has the numbers)."


def _say_what_fits(lab: Open, ended: list[RunState]) -> None:
    """After an out-of-memory: what the runs tell about the batch, and how to go on."""
    from labtui.session.batches import boundary

    for run in {run.spec.model: run for run in ended if run.gpu_memory_ran_out}.values():
        say(f"{run.spec.model}: {boundary(lab.session.state.runs.values(), run.spec.model).sentence}")
        say(f"  half the batch on all sizes: labtui submit {run.task_id} --halve {run.run_id}")


def all_over(state: LabState) -> bool:
    """Whether nothing waits, runs, settles or is still being read."""
    return all(_over(state, submission) for submission in state.submissions.values())


def _over(state: LabState, submission: SubmissionState) -> bool:
    if submission.status in (SubmissionStatus.REFUSED, SubmissionStatus.WITHDRAWN):
        return True
    if submission.job is None or submission.job.phase is not JobPhase.FINISHED:
        return False
    if any(state.runs[number].outcome is None for number in submission.run_ids):
        return False
    return all(
        any(name == stream and log.complete for name, log in submission.logs.items())
        for stream in submission.remote_logs
    )


def _row(state: LabState, run: RunState) -> dict[str, Any]:
    return {
        "run": run.run_id,
        "task": run.task_id,
        "model": run.spec.model,
        "n_gpus": run.spec.n_gpus,
        "practice": run.practice and not state.is_small(run),
        "small": state.is_small(run),
        "phase": run.phase.value,
        "outcome": run.outcome,
        "epochs": len(run.epochs),
    }


def _name(state: LabState, run: RunState) -> str:
    mark = " (small run)" if state.is_small(run) else " (practice)" if run.practice else ""
    return f"{run.spec.label}{mark}"


News = dict[str, Any]
"""One thing that happened: its `type`, and what belongs to it; a line of `watch --json`."""


def news_of(update: Update) -> Iterator[News]:
    """What an update brings."""
    before, after = update.before, update.state
    if after.connection != before.connection:
        yield {"type": "connection", **asdict(after.connection)}
    known = {(problem.key, problem.sentence) for problem in before.problems}
    for problem in after.problems:
        if (problem.key, problem.sentence) not in known:
            yield {"type": "error", "key": problem.key, "sentence": problem.sentence, "hint": problem.hint}
    for token, item in after.submissions.items():
        yield from _news_of_submission(before.submissions.get(token), item)
    for number, run in after.runs.items():
        yield from _news_of_run(before.runs.get(number), run)


def _news_of_submission(old: SubmissionState | None, new: SubmissionState) -> Iterator[News]:
    if old is None:
        yield {"type": "submission-planned", "token": new.token, "task_id": new.task_id, "runs": new.run_ids}
    told = None if old is None else (old.status, old.sentence)
    if told != (new.status, new.sentence):
        yield {
            "type": "submission-changed",
            "token": new.token,
            "status": new.status.value,
            "job_id": new.job.job_id if new.job is not None else "",
            "sentence": new.sentence,
            "hint": new.hint,
        }
    if new.job is not None and (old is None or old.job != new.job):
        yield {"type": "job-observed", "token": new.token, "job": new.job}


def _news_of_run(old: RunState | None, new: RunState) -> Iterator[News]:
    epochs = old.epochs if old is not None else ()
    if epochs[:1] != new.epochs[:1] and epochs:
        yield {"type": "samples-reset", "run_ids": [new.run_id]}
        epochs = ()
    known = {sample.epoch: sample for sample in epochs}
    for sample in new.epochs:
        if known.get(sample.epoch) != sample:
            yield {"type": "epoch", "run_id": new.run_id, "sample": sample}
    if new.outcome is not None and (
        old is None or (old.outcome, old.diagnosis) != (new.outcome, new.diagnosis)
    ):
        yield {
            "type": "run-ended",
            "run_id": new.run_id,
            "outcome": new.outcome,
            "diagnosis": new.diagnosis,
        }


def _as_json(news: News, state: LabState) -> None:
    import msgspec

    print(msgspec.json.encode(news).decode(), flush=True)


class _NewsPrinter:
    """News as lines; each thing once, though a log that is read again (its other stream grew) tells it again."""

    def __init__(self) -> None:
        self._printed: dict[str, set[str]] = {}

    def __call__(self, news: News, state: LabState) -> None:
        match news["type"]:
            case "epoch":
                self._epoch(state, news["sample"], state.runs[news["run_id"]])
            case "run-ended":
                run = state.runs[news["run_id"]]
                self._once(f"run {run.run_id}", f"run {run.run_id}  {_name(state, run)}  {run.outcome}")
                for found in run.diagnosis:
                    self._once(f"run {run.run_id}", f"    {found.kind}: {found.advice}")
            case "samples-reset":
                for number in news["run_ids"]:
                    self._printed.pop(f"run {number}", None)  # it begins anew and says everything again
                    _line(f"run {number}  its log started again")
            case "job-observed":
                self._job(news["job"])
            case "submission-changed":
                told = f"{news['status']}  {news['job_id']} {news['sentence']}"
                _line(f"submission {news['token'][-6:]}  {told}")
            case "connection":
                say(f"{news['status']} {news['sentence']}".strip())
            case "error":
                say(f"labtui: {news['sentence']}")

    def _once(self, about: str, text: str) -> None:
        printed = self._printed.setdefault(about, set())
        if text not in printed:
            printed.add(text)
            _line(text)

    def _epoch(self, state: LabState, sample: EpochSample, run: RunState) -> None:
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in sample.metrics.items())
        line = f"run {run.run_id}  {_name(state, run)}  epoch {sample.epoch}/{run.spec.epochs}"
        self._once(f"run {run.run_id}", f"{line}  {sample.seconds.value:.2f} s  {metrics}")

    def _job(self, job: JobView) -> None:
        why = explain_reason(job.reason) if job.phase is JobPhase.QUEUED and job.reason else job.reason
        line = f"job {job.job_id}  {job.phase.value}  {job.slurm_state} {why}"
        if self._printed.get(f"job {job.job_id}") != {line}:
            self._printed[f"job {job.job_id}"] = {line}
            _line(line)


def _line(text: str) -> None:
    print(plain(text).rstrip(), flush=True)
    sys.stdout.flush()
