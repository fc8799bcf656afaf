"""What is said of a run beside its epochs: that it begins, facts, rates, figures of the whole, its end."""

from __future__ import annotations

from dataclasses import replace

from labtui.training_logs.fold import Fold
from labtui.training_logs.open_run import OpenRun
from labtui.training_logs.runs import GpuCount, RunFacts
from labtui.training_logs.said import Begins, Ends, Rate, Says, Shortage, Starts, Totals

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
    if said.total and fold.aside is not None and fold.aside.form == said.form:
        return fold.promote_aside()
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
