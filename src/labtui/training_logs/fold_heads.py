"""What is said of a run before it trains, and that one begins."""

from __future__ import annotations

from dataclasses import replace

from labtui.training_logs.fold import Fold
from labtui.training_logs.open_run import OpenRun
from labtui.training_logs.runs import GpuCount, RunFacts
from labtui.training_logs.said import Begins, Says, Shortage, Starts

MAX_STRATEGIES = 1000
MAX_PLANNED = 1000


def take_says(fold: Fold, line: int, said: Says) -> None:
    """A fact: of the run announced, else of the next."""
    if said.gpus is not None:
        _gpus(fold, said.gpus)
    if said.job or said.run:
        _hint(fold, said.facts, said.run)
        return
    run = fold.open
    waits = run is not None and not run.trained and not run.ended
    if said.stands_in and run is not None and run.facts.practice:
        return
    if said.option is not None:
        _option(fold, run, said)
    again = run is not None and run.batch_line and (run.broken or not waits)
    if (said.samples is not None and not waits) or (said.batch_line and (run is None or run.ended or again)):
        run, waits = fold.begin(line), True
    if run is None or not (waits or said.late):
        fold.coming = fold.coming.with_others(said.facts)
        return
    if said.workers and waits and run.batch_line and not run.facts.batch_per_gpu:
        batch = run.facts.batch_size or 0
        run.learn(RunFacts(batch_size=batch * said.workers or None, batch_per_gpu=batch or None))
    run.last_line = max(run.last_line, line)
    run.samples = said.samples or run.samples
    run.batch_line = run.batch_line or said.batch_line
    run.learn(said.facts, sure=waits and said.sure)
    run.images_line = line if said.facts.images else run.images_line


def _option(fold: Fold, run: OpenRun | None, said: Says) -> None:
    name, value = said.option or ("", "")
    if run is not None and not run.ended and not run.epochs:
        run.options[name] = value
    else:
        fold.coming_options[name] = value


def _hint(fold: Fold, facts: RunFacts, run: int) -> None:
    if run:
        if len(fold.plan) < MAX_PLANNED:
            fold.plan[run] = facts
        return
    fold.hints = fold.hints.with_others(facts)
    if facts.practice and fold.open is not None:
        fold.open.learn(RunFacts(practice=True))


def take_begins(fold: Fold, line: int, said: Begins) -> None:
    run = fold.open
    facts = _by_header(fold, said.facts) if said.by == "command" else said.facts
    if run is None or not run.may_be_announced_by(said):
        run = fold.begin(line, facts)
    run.announced.add(said.by)
    run.last_line = line
    if said.text == "run_start":
        run.interleaved, run.started = run.interleaved or run.started, True
    if said.by == "command":
        run.command, run.masked = said.text, said.masked
    run.learn(facts)
    if said.by == "banner" and facts.n_gpus:
        fold.contradicted(run.weigh(GpuCount("banner", facts.n_gpus, line, said.text)))


def _by_header(fold: Fold, facts: RunFacts) -> RunFacts:
    """The facts of the next run's command, its batch as the job's header says it is meant."""
    shares = fold.plan.get(fold.index + (fold.open is not None) + 1, RunFacts()).batch_shares
    given = facts.batch_per_gpu or facts.batch_size
    if shares is None or given is None:
        return facts
    total = given * shares
    return replace(facts, batch_size=total, batch_per_gpu=total // facts.n_gpus if facts.n_gpus else None)


def _gpus(fold: Fold, found: GpuCount) -> None:
    """A number of GPUs that a strategy reports: of the run announced, else of the next."""
    if found.source == "job":
        fold.job_gpus = found
        return
    if len(fold.strategies) < MAX_STRATEGIES:
        fold.strategies.append(found)
    run = fold.open
    again = run is not None and found.source == "devices" and "devices" in run.gpus
    if run is None or run.trained or run.ended or run.broken or again:
        fold.coming_gpus[found.source] = found
        return
    run.last_line = found.line
    fold.contradicted(run.weigh(found))


def take_starts(fold: Fold, line: int, said: Starts) -> None:
    if fold.open is not None:
        fold.open.fresh = True


def take_shortage(fold: Fold, line: int, said: Shortage) -> None:
    if fold.open is not None:
        fold.open.out_of_data = said.batches
