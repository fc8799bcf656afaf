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

_RATE = re.compile(r"\b(?:SGD|Adam\w*|RMSprop|learning_rate|lr)\b")
_GPUS_TIMES = re.compile(
    r"\*\s*(?:\w+\.)*(?:n_gpus|num_gpus|\w*replicas\w*)|(?:n_gpus|num_gpus|\w*replicas\w*)\s*\*"
)
_LONGEST = 1_000
"""Characters of a line that are looked at; code lines are shorter."""

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
        for number, line in enumerate(text.splitlines(), 1):
            code = line[:_LONGEST].partition("#")[0]
            if _RATE.search(code) and _GPUS_TIMES.search(code):
                return f"scripts/{path}, line {number}: {code.strip()[:80]}"
    return ""
