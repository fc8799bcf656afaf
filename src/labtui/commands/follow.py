"""Following runs: `labtui log` prints a run's output, `labtui watch` reports events until all runs have ended."""

import argparse
import codecs
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from labtui.commands import cli
from labtui.commands.terminal import OpenLab, error_lines, lab_folder, print_line, print_wrapped, run_row, say
from labtui.domain import decode, terminal_text
from labtui.domain.model import RunPhase, Stream
from labtui.domain.run import listed, mark_words, run_numbers
from labtui.domain.state import OPEN, PENDING, LabState, LogState, RunState, SubmissionState
from labtui.results import measured, numbers
from labtui.session.notifications import Notifier
from labtui.session.planning import run_of
from labtui.slurm.states import end_reason, reason_words, waiting_reason
from labtui.slurm.values import known_logs
from labtui.tui.format import epoch_of
from labtui.tui.view import View


def log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A pipe or file gets the log byte for byte; a terminal shows control characters as \ufffd."
    )
    parser.add_argument("-f", "--follow", action="store_true", help="print it as it grows, to the job's end")
    stream = parser.add_mutually_exclusive_group()
    stream.add_argument("--err", dest="stream", action="store_const", const="err", help="standard error")
    stream.add_argument("--gpu", dest="stream", action="store_const", const="gpu", help="the GPU samples")
    parser.set_defaults(stream="out")


def run_log(args: argparse.Namespace) -> int:
    """Copy the mirror of a log to stdout: as it is into a pipe, sanitized on a terminal."""
    lab_folder(args.folder, args, writes=args.follow)
    with OpenLab(args, view_only=True, follows="log" if args.follow else "") as lab:
        record = run_of(lab.state, args.run)
        printer, sent = _LogPrinter(), record.phase is not RunPhase.WAITING
        if args.follow and (lab.session.open_elsewhere or (sent and not lab.session.read_only)):
            lab.session.start()
            lab.session.watch_logs({record.token})
            if record.phase in PENDING:
                say(_why_no_log(lab, record, args.stream))
            lost = False
            for _ in lab.updates(lambda state: _stream_over(state, record, args.stream)):
                if (path := lab.session.log_path(record.token, args.stream)) is not None:
                    printer.print_new(path)
                lab.check_connection(patient=True)
                if (connection := lab.state.connection).lost and not lost:
                    say(f"Offline. {connection.sentence} The log goes on when the connection is back.")
                lost = connection.lost
        path = lab.session.log_path(record.token, args.stream)
        record, item = lab.state.runs[args.run], lab.state.submissions[record.token]
        if path is None:
            say(_why_no_log(lab, record, args.stream))
            return 1
        printer.print_new(path)
        if not args.follow and not item.logs.get(args.stream, LogState()).complete:
            what = "The end of the log was not checked yet" if item.over else "The log may have grown since"
            say(f"{what}; --follow fetches the rest.")
        for found in record.diagnosis[:1]:
            in_err = found.stream == "err" and args.stream != "err"
            there = f"; `labtui log {args.run} --err` prints it" if in_err else ""
            say(f"Run {args.run} {record.deed}: {found.text} ({found.place}{there}).")
    return 0


def _why_no_log(lab: OpenLab, run: RunState, stream: Stream) -> str:
    item, name = lab.state.submissions[run.token], f"run {run.run_id}"
    why = waiting_reason(lab.state, lab.session.profile, item, served=lab.session.open_elsewhere)
    if run.phase is RunPhase.QUEUED or (item.job is None and why):
        return f"Run {run.run_id} has no log. {why or 'Its job waits in the queue.'}"
    err = lab.session.log_path(run.token, "err")
    there = err is not None and stream == "out" and err.stat().st_size
    hint = f" `labtui log {run.run_id} --err` prints its standard error." if there else ""
    if not _stream_over(lab.state, run, stream):
        return f"The log of {name} is not read yet. `labtui watch` or --follow fetches it.{hint}"
    if stream not in item.remote_logs:
        return f"Run {run.run_id} writes no such file."
    why = f": it {run.deed}" if run.outcome not in (None, "completed") else ""
    lost = "".join(f"{found.text} {found.advice}" for found in run.diagnosis[:1] if not found.line)
    more = f" {lost or end_reason(item.job)}".rstrip()
    wrote = "wrote nothing to its error file" if stream == "err" else "printed nothing"
    return f"Run {run.run_id} {wrote}{why}.{more}{hint}"


def _stream_over(state: LabState, record: RunState, stream: Stream) -> bool:
    item = state.submissions[record.token]
    never = state.runs[record.run_id].phase not in OPEN and item.job is None
    none = stream not in (known_logs(item) if item.over else item.remote_logs)
    return never or none or item.logs.get(stream, LogState()).complete


class _LogPrinter:
    """Prints what a log has grown by; says when a new segment starts."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._offset = 0
        self._terminal = sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def print_new(self, path: Path) -> None:
        if path != self._path:
            if self._path is not None:
                say(f"-- the log started again at {time.strftime('%H:%M:%S')} --")
            self._path, self._offset = path, 0
        with path.open("rb") as file:
            file.seek(self._offset)
            while data := file.read(1 << 20):
                self._offset += len(data)
                if self._terminal:
                    sys.stdout.write(self._decoder.decode(data))
                else:
                    sys.stdout.buffer.write(data)
        sys.stdout.flush()


def run_watch(args: argparse.Namespace) -> int:
    """Print events until all runs have ended; return 1 if one that ended meanwhile was not completed."""
    with OpenLab(args, follows="watch") as lab:
        last = lab.state
        before = {token for token, item in last.submissions.items() if _is_read_to_the_end(last, item)}
        tell = _print_row if args.json else _NewsPrinter()
        if args.json:
            _print_row({"type": "snapshot", "runs": _rows(lab.state, lab.state.runs.values())})
        if all_ended(lab.state):
            say(_OVER if lab.state.runs else _NO_RUN)
        else:
            lab.session.start()
            if not lab.session.open_elsewhere and (why := lab.session.why_read_only) is not None:
                raise why  # nothing would ever change
            lab.session.watch_logs(set(lab.state.submissions))
            open_runs = describe_open_runs(View.of(lab.session))
            say(open_runs or "Every run has ended; the rest of the logs is read.")
            names = lab.session.edition.names
            ring = partial(print, end="", file=cli.raw_stream(sys.stderr), flush=True)
            notify = Notifier(lab.session, ring) if sys.stderr.isatty() else None
            for state in lab.updates(all_ended):
                for news in news_of(last, state, names):
                    tell(*news)
                last = state
                if notify is not None:
                    notify(state, names)
                lab.check_connection(patient=True)
        ended = [run for run in lab.state.runs.values() if run.token not in before]
        if args.json:
            _print_row({"type": "end", "runs": _rows(lab.state, ended)})
        return 0 if all(run.phase is RunPhase.DONE for run in ended) else 1


def describe_open_runs(view: View) -> str:
    """``Run 6 is running, epoch 3 of 5. Runs 7, 8 are waiting.``, for example."""
    groups: dict[str, list[int]] = {}
    for line in view.runs.values():
        if line.phase in OPEN:
            trains = line.word == RunPhase.RUNNING and line.run.epochs and line.run.spec.program is None
            word = f"{line.word}, epoch {''.join(epoch_of(line))}" if trains else line.word
            groups.setdefault(word, []).append(line.run_id)
    told = (f"{run_numbers(ids)} {'is' if len(ids) == 1 else 'are'} {word}." for word, ids in groups.items())
    return " ".join(told)


def _print_row(row: dict[str, Any], *_: object) -> None:
    print(decode.json_text(row, indent=0), flush=True)


def _rows(state: LabState, runs: Iterable[RunState]) -> list[dict[str, Any]]:
    return [{**run_row(state, run), "epochs": run.epochs_read} for run in runs]


_NO_RUN = "Nothing to watch: no run has been submitted yet (labtui submit TASK)."
_OVER = "Nothing to watch: every run is over (labtui queue lists them, labtui results has the numbers)."


def all_ended(state: LabState) -> bool:
    """Whether all submissions have ended and their logs are read completely."""
    return all(_is_read_to_the_end(state, submission) for submission in state.submissions.values())


def _is_read_to_the_end(state: LabState, submission: SubmissionState) -> bool:
    if not submission.over or submission.job is None:
        return submission.over
    read = all(state.runs[number].outcome is not None for number in submission.run_ids)
    return read and all(submission.logs.get(stream, LogState()).complete for stream in known_logs(submission))


News = tuple[dict[str, Any], str, tuple[str, ...]]
"""An event: its line of `watch --json`, what it is about ("" for the connection), and its lines for people."""


def news_of(before: LabState, after: LabState, names: Mapping[str, str]) -> Iterator[News]:
    """Yield the events between two states; `names` are the edition's display names of models."""
    if after.connection != before.connection:
        said = (": ".join(filter(None, (after.connection.status, after.connection.sentence))),)
        yield {"type": "connection", **msgspec.to_builtins(after.connection)}, "", said
    known = {(problem.key, problem.sentence) for problem in before.problems}
    for problem in after.problems:
        if (problem.key, problem.sentence) not in known:
            yield {"type": "error", **msgspec.to_builtins(problem)}, "", error_lines(problem)
    for token, item in after.submissions.items():
        yield from _news_of_submission(before.submissions.get(token), item)
    for number, run in after.runs.items():
        yield from _news_of_run(before.runs.get(number), run, after, names)


def _news_of_submission(old: SubmissionState | None, new: SubmissionState) -> Iterator[News]:
    job, runs = new.job, listed("run", new.run_ids)
    if old is None or (old.status, old.sentence) != (new.status, new.sentence):
        job_id = job.job_id if job is not None else ""
        row = {"token": new.token, "status": new.status.value, "job_id": job_id}
        said = f"{runs}  {new.status.value}  {f'job {job_id}' if job_id else ''} {new.sentence}".rstrip()
        yield {"type": "submission-changed", **row, "sentence": new.sentence, "hint": new.hint}, said, (said,)
    if job is not None and (old is None or old.job != job):
        plain = job.slurm_state in ("", "PENDING", "RUNNING", "COMPLETED")  # says no more than the phase
        why = "" if plain else f"({job.slurm_state}) "
        reason = reason_words(job.phase, job.reason)
        said = f"{runs}  job {job.job_id} {job.phase.value} {why}{reason}".rstrip()
        yield {"type": "job-observed", "token": new.token, "job": job}, f"job {job.job_id}", (said,)


def _news_of_run(
    old: RunState | None, new: RunState, state: LabState, names: Mapping[str, str]
) -> Iterator[News]:
    about = f"run {new.run_id}"
    name = f"{state.called(new, names).label}{mark_words(state.mark_of(new))}"
    epochs = old.epochs if old is not None else ()
    if epochs and epochs[:1] != new.epochs[:1]:
        yield {"type": "samples-reset", "run": new.run_id}, about, ()
        epochs = ()
    known = {sample.epoch: sample for sample in epochs}
    for sample in (each for each in new.epochs if known.get(each.epoch) != each):
        of = f"/{new.spec.epochs}" if new.spec.epochs else ""
        took = numbers.interval_text(sample.seconds)
        warmup = ", warm-up" if sample.epoch in measured.warmup_epochs(new) else ""
        line = f"epoch {sample.epoch}{of}  {took} s{warmup}  {numbers.metrics_text(sample.metrics)}"
        yield {"type": "epoch", "run": new.run_id, "sample": sample}, about, (f"{about}  {name}  {line}",)
    changed = old is None or (old.outcome, old.diagnosis) != (new.outcome, new.diagnosis)
    if new.outcome is not None and changed:
        told = () if state.cancelled_as_asked(new) else new.diagnosis
        found = ((f"    {each.place}: {each.text}", f"    {each.advice}") for each in told)
        lacks_time = new.outcome == "completed" and not (new.epochs or new.throughput or new.spec.program)
        job = state.submissions[new.token].job if new.outcome == "failed" and not new.diagnosis else None
        untimed = "; no epoch time was read (see `labtui results`)"
        why = untimed if lacks_time else f"  {end_reason(job)}".rstrip()
        said = (f"{about}  {name}  {new.cause}{why}", *(line for pair in found for line in pair))
        row = {"type": "run-ended", "run": new.run_id, "outcome": new.outcome, "diagnosis": new.diagnosis}
        yield row, about, said


class _NewsPrinter:
    """Prints events: connection and problems on stderr; each line about a run once, as a log may be read again."""

    def __init__(self) -> None:
        self._printed: dict[str, set[str]] = {}

    def __call__(self, row: dict[str, Any], about: str, said: Iterable[str]) -> None:
        printed = self._printed.setdefault(about, set())
        if row["type"] == "samples-reset":
            printed.clear()
            print_line(f"{about}  its log started again")
        if row["type"] == "job-observed":  # a job may return to an earlier state, which is printed again
            printed.intersection_update(said)
        for line in said:
            if not about:
                say(line)
            elif line not in printed:
                printed.add(line)
                print_wrapped(terminal_text.printable(line))
