"""Random edits and concatenations of logs: no number becomes another, and unlike trainings never become one run."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from labtui.training_logs import reader, runs
from tests.training_logs.samples import mllog


@dataclass
class Log:
    """A training's log, with the true seconds of the epoch that a line ends."""

    lines: list[str] = field(default_factory=list)
    truth: dict[int, tuple[int, float]] = field(default_factory=dict)

    def say(self, text: str) -> None:
        self.lines.append(text.rstrip("\n"))

    def epoch(self, text: str, number: int, seconds: float) -> None:
        self.truth[len(self.lines)] = (number, seconds)
        self.say(text)


def keras(source: random.Random) -> Log:
    log, steps, planned = Log(), source.randrange(20, 400), source.randrange(2, 6)
    if source.random() < 0.5:
        log.say(f" Model ResNet{source.choice((50, 101, 152))} {source.choice((1, 2, 4))} GPUs")
        log.say(f"Batch_size: {2 ** source.randrange(5, 12)}")
    for number in range(1, planned + 1):
        seconds = source.uniform(5, 200)
        log.say(f"Epoch {number}/{planned}")
        each = seconds / steps
        step = f"{each * 1000:.0f}ms/step" if each < 1 else f"{each:.0f}s/step"
        log.epoch(f"{steps}/{steps} - {seconds:.0f}s - {step} - loss: 2.1000", number, seconds)
    return log


def mlperf(source: random.Random) -> Log:
    log, now = Log(), 0
    log.say(mllog("submission_benchmark", "resnet"))
    log.say(mllog("run_start", ms=now))
    for number in range(1, source.randrange(2, 6)):
        seconds = source.uniform(5, 200)
        log.say(mllog("epoch_start", ms=now, epoch_num=number))
        now += round(seconds * 1000)
        log.epoch(mllog("epoch_stop", ms=now, epoch_num=number), number, seconds)
    log.say(mllog("run_stop", ms=now, status="success"))
    return log


def by_hand(source: random.Random) -> Log:
    log, planned = Log(), source.randrange(2, 6)
    for number in range(1, planned + 1):
        seconds = source.uniform(5, 200)
        log.epoch(f"Epoch {number}/{planned} | Time: {seconds:.2f}s", number, seconds)
    return log


def bars(source: random.Random) -> Log:
    log, steps, planned = Log(), source.randrange(50, 400), source.randrange(2, 6)
    for number in range(1, planned + 1):
        seconds = source.randrange(5, 200) + 0.5
        clock = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
        bar = f"Epoch {number}/{planned}: 100%|###| {steps}/{steps} [{clock}<00:00, 8.06it/s]"
        log.epoch(bar, number, seconds)
    return log


def imagenet(source: random.Random) -> Log:
    log, steps = Log(), source.randrange(10, 40)
    log.say(f"=> creating model 'resnet{source.choice((18, 34))}'")
    for number in range(source.randrange(2, 5)):
        mean = round(source.uniform(0.1, 2), 3)
        for index in range(steps):
            text = f"Epoch: [{number}][{index:3d}/{steps}]\tTime  0.581 ( {mean:.3f})\tData  0.273 ( 0.283)"
            if index == steps - 1:
                log.epoch(text, number + 1, mean * steps)
            else:
                log.say(text)
        log.say(" * Acc@1 10.130 Acc@5 30.862")
    return log


def rate(source: random.Random) -> Log:
    value = source.uniform(100, 5000)
    benchmark = f"Batch size:  128 global\n1\timages/sec: {value:.1f} +/- 0.0\ntotal images/sec: {value:.2f}"
    trainer = f"{{'train_runtime': 24.4, 'train_samples_per_second': {value:.3f}, 'epoch': 2.0}}"
    timm = f"/196 (  9%)]  Loss: 6.9 (6.9)  Time: 0.345s, 2968.12/s  (0.350s, {value:.2f}/s)"
    batches = "\n".join(f"Train: {epoch} [{at:4d}{timm}" for epoch in (0, 1) for at in (0, 50, 195))
    return Log(source.choice((benchmark, trainer, batches)).split("\n"))


KINDS: tuple[Callable[[random.Random], Log], ...] = (keras, mlperf, by_hand, bars, imagenet, rate)


def report_of(lines: list[str]) -> runs.LogReport:
    return reader.parse_log("".join(f"{line}\n" for line in lines).encode())


def part_of(line: int, ends: list[int]) -> int:
    return next(place for place, end in enumerate(ends) if line <= end)


@pytest.mark.parametrize("seed", range(12))
def test_concatenated_trainings_stay_apart(seed):
    source = random.Random(f"joined {seed}")
    for _ in range(100):
        logs = [source.choice(KINDS)(source) for _ in range(source.randrange(2, 4))]
        if logs[0].truth and source.random() < 0.5:  # the first one is cut short
            began = min(logs[0].truth, default=1) + 1
            logs[0].lines = logs[0].lines[: source.randrange(began, len(logs[0].lines) + 1)]
        lines, ends, truth = [], [], {}
        for log in logs:
            kept = {place: true for place, true in log.truth.items() if place < len(log.lines)}
            truth |= {len(lines) + place + 1: true for place, true in kept.items()}
            lines += log.lines
            ends.append(len(lines))
        for run in report_of(lines).runs:
            parts = {part_of(sample.line or 1, ends) for sample in run.epochs}
            if run.throughput is not None:
                parts |= {part_of(each, ends) for each in (run.first_line, run.last_line)}
            assert len(parts) <= 1, (lines, run)
            alone = report_of(logs[min(parts)].lines).runs if parts else ()
            assert not parts or run.model in {None, *(one.model for one in alone)}, (lines, run)
            for sample in run.epochs:
                if sample.source == "pytorch" and sample.line not in truth:
                    continue  # cut within its last two batches
                number, seconds = truth[sample.line or 0]
                slack = 2e-3 + 1e-9 * seconds
                assert sample.epoch == number, (lines, run)
                assert sample.seconds.lo - slack <= seconds <= sample.seconds.hi + slack, (lines, run)


def edited(source: random.Random, lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Some lines lost, repeated, cut, or with another program's words between them."""
    lines = list(lines)
    for _ in range(source.randrange(1, 6)):
        place = source.randrange(len(lines)) if lines else 0
        match source.randrange(4):
            case 0:
                del lines[place : place + source.randrange(1, 3)]
            case 1:
                lines[place:place] = lines[place : place + 1]
            case 2 if lines:
                number, text = lines[place]
                lines[place] = (number, text[: source.randrange(len(text) + 1)])
            case _:
                words = source.choice(("Saving the model", "WARNING: slow", "", "loss is 2.1"))
                lines.insert(place, (-1, words))
    return lines


@pytest.mark.parametrize("seed", range(12))
def test_an_edit_makes_no_number_another(seed):
    source = random.Random(f"edited {seed}")
    for _ in range(200):
        log = source.choice(KINDS)(source)
        lines = edited(source, list(enumerate(log.lines)))
        report = report_of([text for _, text in lines])
        for run in report.runs:
            for sample in run.epochs:
                origin = lines[(sample.line or 1) - 1][0]
                if origin not in log.truth or "imagenet" in sample.source:
                    continue
                _, seconds = log.truth[origin]
                assert sample.seconds.lo - 2e-3 <= seconds <= sample.seconds.hi + 2e-3, (lines, run)
