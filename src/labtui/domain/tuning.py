"""The options of training scripts that change their speed, and how to say them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Tuning = tuple[tuple[str, str], ...]
"""Options that change a training's speed, with their values, in the order of `TUNING_OPTIONS`."""


class TuningOption(NamedTuple):
    """How an option's value is said, and what a training has without it."""

    words: str
    default: str = ""


TUNING_OPTIONS = {
    "model_precision": TuningOption("{} weights", "fp32 weights"),
    "mixed_precision": TuningOption("{}", "fp32"),
    "num_workers": TuningOption("{} workers", "0 workers"),
    "compile": TuningOption("compiled", "not compiled"),
    "attn": TuningOption("{} attention", "sdpa attention"),
    "use_liger_kernel": TuningOption("Liger kernels", "no Liger kernels"),
    "resolution": TuningOption("{} pixels", "224 pixels"),
    "sequence_length": TuningOption("sequences of {}", "sequences of 8192"),
    "lr_policy": TuningOption("{} rate", "constant rate"),
    "warmup_epochs": TuningOption("warm-up of {} epochs"),
    "variant": TuningOption("{} script", "original script"),
    "control": TuningOption("control: {}"),
}
"""Options of the course's PyTorch scripts that make trainings differ. `variant` is a changed script; a `control` run
shows a cause, and is no run of a task."""
_SAME = {"torch_compile": "compile"}
_PLAIN_VALUES = ("", "none", "no", "false", "0", "fp32", "constant")
"""Values of an option that leave a training as it is without the option."""


def is_tuning(option: str) -> bool:
    return option in TUNING_OPTIONS or option in _SAME


def tuning_of(options: Mapping[str, object], variant: str = "") -> Tuning:
    """What a script's options, and a variant of it, change of its speed; options by name, without dashes.

    Nothing for what is left at its default, so that a script that prints all its options and a command that names
    some of them give the same.
    """
    given = {_SAME.get(name, name): str(value).lower() for name, value in options.items()}
    given = {name: value for name, value in given.items() if value not in _PLAIN_VALUES}
    given["variant"] = variant
    if given.get("resolution") == "224":
        del given["resolution"]
    if "lr_policy" not in given:
        given.pop("warmup_epochs", None)
    return tuple((name, given[name]) for name in TUNING_OPTIONS if given.get(name))


def tuning_words(tuning: Tuning) -> tuple[str, ...]:
    """A tuning as people say it: ``("bf16", "10 workers", "compiled")``."""
    return tuple(_said(name, value) for name, value in tuning)


def _said(name: str, value: str) -> str:
    form = TUNING_OPTIONS[name].words
    return form.format(value).removesuffix("s" if value == "1" and "{}" in form else "")


def distinguishing_words(tunings: Sequence[Tuning]) -> list[tuple[str, ...]]:
    """Of each tuning the words for what others have not; where it lacks an option, what it has instead."""
    given = [dict(tuning) for tuning in tunings]
    differ = [name for name in TUNING_OPTIONS if len({each.get(name) for each in given}) > 1]
    words = (
        [_said(name, each[name]) if name in each else TUNING_OPTIONS[name].default for name in differ]
        for each in given
    )
    return [tuple(filter(None, found)) for found in words]


def named_options(words: Sequence[str]) -> dict[str, str]:
    """The ``--name value``, ``-n value`` and ``--name=value`` of a command; a flag without a value is ``true``.

    Names are without dashes at their beginning, and with underscores for those inside.
    """
    found: dict[str, str] = {}
    for word, after in zip(words, (*words[1:], "--"), strict=False):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            found[name.replace("-", "_")] = value if equals else "true" if after.startswith("--") else after
    return found
