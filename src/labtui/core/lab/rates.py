"""Was the learning rate scaled with the GPUs? The log says so, or the plan, or the script.

The linear rule of the lab: n GPUs take n times the batch and n times the base rate.
"""

from __future__ import annotations

import math
import re

from labtui.core.lab.edition import Edition, LearningRateCheck, Task
from labtui.core.lab.evidence import Evidence, rests_on
from labtui.core.lab.matching import Match, cite_run, match_planned
from labtui.core.lab.plan import expected_learning_rate

_SCALED = re.compile(
    r"^[^#\n]*\b(?:SGD|Adam\w*|RMSprop|learning_rate|lr)\b[^#\n]*\*[^#\n]*(?:n_gpus|num_gpus|replicas)", re.M
)
_SCALED_BEFORE = re.compile(
    r"^[^#\n]*\b(?:SGD|Adam\w*|RMSprop|learning_rate|lr)\b[^#\n]*(?:n_gpus|num_gpus|replicas\w*)\s*\*", re.M
)

Item = tuple[bool, str, str, str]
"""Met, what is asked, what shows it, what is missing."""


def rate_items(edition: Edition, task: Task, check: LearningRateCheck, evidence: Evidence) -> list[Item]:
    """One item per planned run that was made; one that waits for the runs when none was."""
    matches = match_planned(edition, task, check.tasks, evidence)
    made = [match for match in matches if match.met]
    if not made:
        return [
            (
                False,
                "the learning rate grows with the GPUs",
                "",
                "The learning rate can be seen once runs are made.",
            )
        ]
    return [_item(edition, match, evidence) for match in made]


def _item(edition: Edition, match: Match, evidence: Evidence) -> Item:
    if match.run is None:
        raise ValueError("only runs that were made have a learning rate")
    wanted = expected_learning_rate(edition, match.spec)
    sentence = f"{match.spec.label}: learning rate {wanted:g}"
    told = match.run.learning_rate if match.run.learning_rate is not None else match.run.spec.learning_rate
    if told is not None:
        where = cite_run(match.run, evidence)
        if math.isclose(told, wanted, rel_tol=1e-6):
            return True, sentence, f"{told:g}: {where}", ""
        missing = (
            f"{match.spec.label} was trained with a learning rate of {told:g}, not {wanted:g} "
            f"(base {edition.base_learning_rate:g} x {match.spec.replicas})."
        )
        return False, sentence, where, missing
    shown = _in_script(match, evidence)
    if shown:
        return True, sentence, shown, ""
    missing = f"Neither the log nor {match.spec.script} shows the learning rate of {match.spec.label}."
    return False, sentence, "", missing


def _in_script(match: Match, evidence: Evidence) -> str:
    """The line of the script (or of one it imports) that multiplies the rate by the GPUs."""
    script = match.run.spec.script if match.run is not None else match.spec.script
    for path in rests_on(script, evidence.scripts):
        text = evidence.scripts[path].text if path in evidence.scripts else ""
        found = _SCALED.search(text) or _SCALED_BEFORE.search(text)
        if found:
            line = text.count("\n", 0, found.end()) + 1
            return f"scripts/{path}, line {line}: {found[0].strip()[:80]}"
    return ""
