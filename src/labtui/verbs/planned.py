"""What `labtui submit` says before it sends: one line a job, the findings, and the question on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labtui.core.interval import Interval
from labtui.core.model import SubmissionDraft
from labtui.verbs.terminal import plain, say

if TYPE_CHECKING:
    from labtui.engine.planning import Preview


_PUSHED = {"new": "not pushed", "unchanged": "same as pushed", "changed": "not as pushed"}


def job_line(draft: SubmissionDraft, preview: Preview) -> str:
    """A job in one line: its runs, its limit, what it should take and cost."""
    expected = f", expected {minutes(preview.seconds)}" if preview.seconds else ", length unknown"
    cost = f", {hours(preview.gpu_hours)} GPU-hours" if preview.gpu_hours and draft.gpus else ""
    return (
        f"{draft.job_name}: {runs_in_words(draft)}; limit {draft.time_limit_minutes} min{expected}{cost}"
        f" ({draft.qos or 'default queue'}, {draft.account or 'default account'})"
    )


def runs_in_words(draft: SubmissionDraft) -> str:
    """``ResNet50 on 1, 2 GPUs, 2,048 images per GPU, 5 epochs``; a run that differs stands by itself."""
    groups: dict[tuple[str, str, int, int], list[int]] = {}
    for spec in draft.runs:
        groups.setdefault((spec.model, spec.device, spec.per_gpu_batch, spec.epochs), []).append(spec.n_gpus)
    told = []
    for (model, device, each, epochs), sizes in groups.items():
        where = "the CPU" if device == "cpu" else f"{', '.join(map(str, sizes))} GPU{_s(max(sizes))}"
        per = "images a step" if device == "cpu" else "images per GPU"
        told.append(f"{model} on {where}, {each:,} {per}, {epochs} epoch{_s(epochs)}")
    return "; ".join(told)


def minutes(seconds: Interval) -> str:
    """An expected time, in seconds below two minutes."""
    if seconds.hi < 120:
        return f"{seconds.lo:.0f} to {seconds.hi:.0f} s"
    return f"{seconds.lo / 60:.0f} to {max(1.0, seconds.hi / 60):.0f} min"


def hours(gpu_hours: Interval) -> str:
    """GPU-hours with two figures."""
    return f"{gpu_hours.lo:.2g} to {gpu_hours.hi:.2g}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"


def without(preview: Preview, rule: str) -> Preview:
    """A preview that does not speak of one rule."""
    return replace(preview, findings=tuple(found for found in preview.findings if found.rule != rule))


def blocked(previews: Sequence[Preview]) -> bool:
    """Whether something was found that would make a job fail."""
    return any(found.severity == "error" for preview in previews for found in preview.findings)


def show_findings(previews: Sequence[Preview]) -> int:
    """Say each finding once, on stderr; how many there were."""
    shown = set()
    for preview in previews:
        for found in preview.findings:
            place = f"{found.file}:{found.line}" if found.line else found.file
            text = f"{found.severity}: {place}: {found.effect}"
            if text not in shown:
                shown.add(text)
                say(text)
    return len(shown)


def agreed(question: str) -> bool:
    """Ask yes or no on a terminal. Without one nothing is asked: the command line was the answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        return True
    print(plain(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def finding_row(found: Any) -> dict[str, Any]:
    """A finding for JSON."""
    return {
        "rule": found.rule,
        "severity": found.severity,
        "file": found.file,
        "line": found.line,
        "text": found.text,
        "effect": found.effect,
        "fix": found.fix.title if found.fix else None,
    }


def file_words(item: dict[str, Any]) -> str:
    """How a file stands beside what the cluster has of it, in words with a comma before each."""
    told = []
    if item["since"] is not None:
        told.append(f"{item['since']} since job {item['since_job']}" if item["since_job"] else item["since"])
    if item["pushed"] is not None:
        told.append(_PUSHED[item["pushed"]])
    if item["changed"]:
        told.append("changed by you")
    return "".join(f", {word}" for word in told)
