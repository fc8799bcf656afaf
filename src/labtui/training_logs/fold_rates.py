"""Rates, figures about a whole training, and ends."""

from __future__ import annotations

from labtui.training_logs.fold import Fold
from labtui.training_logs.open_run import OpenRun
from labtui.training_logs.said import Ends, Rate, Totals


def take_rate(fold: Fold, line: int, said: Rate) -> None:
    run = fold.open
    if run is not None and run.rate_is_a_ranks(said):
        if said.total and said.rate is not None:
            run.widen_rate(said.rate)
        return
    run = _run_of_rate(fold, line, said)
    if run is None:
        return
    run.form, run.rated, run.last_line = said.form, True, line
    run.learn(said.facts)
    run.rate(said, line)
    if said.note:
        run.note(said.note)
    if said.per_gpu and not run.facts.n_gpus:
        run.note("The log gives tokens per second of one GPU and not how many GPUs there were.")
    if said.total:
        run.success, run.ended = True, not run.started  # MLPerf's own end is still to come


def _run_of_rate(fold: Fold, line: int, said: Rate) -> OpenRun | None:
    """The run a rate belongs to; None where it only waits beside a training that may go on."""
    run = fold.open
    if run is None or run.ended or run.begins_anew(said):
        return fold.begin(line)
    if not run.trained or run.form in ("", said.form):
        return fold.begin(line) if run.clocked and run.form != said.form else run
    if said.total or run.broken or run.fresh or run.done:
        return fold.begin(line)
    if said.form in run.beside:
        return None
    if fold.aside is None or fold.aside.form != said.form:
        fold.aside = OpenRun(line, line)
        fold.aside.facts = fold.coming
    aside = fold.aside
    aside.form, aside.rated, aside.last_line = said.form, True, line
    aside.learn(said.facts)
    aside.rate(said, line)
    return None


def take_totals(fold: Fold, line: int, said: Totals) -> None:
    run = fold.open if said.memory is None else _here_or_last(fold, line)
    if run is None:
        return
    run.totals_line = line
    run.total_seconds = said.seconds or run.total_seconds
    run.gpu_memory = said.memory or run.gpu_memory


def _here_or_last(fold: Fold, line: int) -> OpenRun:
    run = fold.open or fold.begin(line)
    run.last_line = line
    return run


def take_ends(fold: Fold, line: int, said: Ends) -> None:
    run = fold.open
    if said.launcher:
        if run is not None and (run.trained or run.batch_seconds is not None) and not run.aborted:
            run.success = run.ended = True
        return
    if run is None:
        return
    if said.status and run.ended:
        run.interleaved = True  # another rank's
        return
    run.last_line = line
    run.learn(said.facts)
    run.end(said, line)
