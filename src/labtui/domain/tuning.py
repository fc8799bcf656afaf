"""The options of training scripts that change their speed, and the words for them."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

from labtui.domain.decode import own_toml

Tuning = tuple[tuple[str, str], ...]
"""Options that change a training's speed, with their values, in the order of `TUNING_OPTIONS`.

Those of a student's own script are any options, with the script's name first (`results.measured.own_options`).
"""


TUNING_OPTIONS: dict[str, list[str]] = own_toml(__file__, "words.toml")["options"]
"""Options of the course's PyTorch scripts that make trainings differ, each with the words for its value and for a
training without it. `variant` is a changed script; a `control` run
shows a cause and belongs to no task."""
_HARMLESS = re.compile(
    r"[bgo]|bs|lr|learning_rate|seed|\w*(gpus?|nodes?|devices?)(_ids?)?|\w*(epochs?|batch(_size)?)|world_size|"
    r"(local_|node_|machine_)?rank|(\w+_)?(dist(ribut\w+)?(_\w+)?|index|host|addr|port)|(run|job|exp)_(name|id)|"
    r"(out(put)?|save|log|checkpoint)(_?(dir|path|file|folder|model|to|level|steps|freq|interval|every))?"
)
_ALIASES = dict.fromkeys(("torch_compile", "jit_compile", "xla", "use_xla", "xla_compile"), "compile")
_PLAIN_VALUES = ("", "none", "no", "false", "0", "fp32", "constant")
"""Values with which an option changes nothing."""


def is_tuning(option: str) -> bool:
    return option in TUNING_OPTIONS or option in _ALIASES


def tuning_of(options: Mapping[str, object], variant: str = "") -> Tuning:
    """The tuning that a script's options (by name, without dashes) and its variant make.

    Options at their default are left out, so that a script that prints all its options and a command that names some
    of them give the same tuning.
    """
    given = {_ALIASES.get(name, name): str(value).lower() for name, value in options.items()}
    given = {name: value for name, value in given.items() if value not in _PLAIN_VALUES}
    given["variant"] = variant
    if given.get("resolution") == "224":
        del given["resolution"]
    if "lr_policy" not in given:
        given.pop("warmup_epochs", None)
    return tuple((name, given[name]) for name in TUNING_OPTIONS if given.get(name))


def other_options(options: Mapping[str, str]) -> Tuning:
    """The options of a script that `TUNING_OPTIONS` need not name: any may change the speed.

    Size, rank, batch and epochs are fields of the run; learning rate, seed and where it writes make no step slower.
    """
    return tuple(sorted(pair for pair in options.items() if all(pair) and not _HARMLESS.fullmatch(pair[0])))


def tuning_words(tuning: Tuning) -> tuple[str, ...]:
    """A tuning in words: ``("bf16", "10 workers", "compiled")``."""
    return tuple(_option_words(name, value) for name, value in tuning)


def _option_words(name: str, value: str | None) -> str:
    if name not in TUNING_OPTIONS:
        return f"{name} {value}".removesuffix(" true") if value else ""
    words, default = TUNING_OPTIONS[name]
    if value is None:
        return default
    return words.format(value).removesuffix("s" if value == "1" and "{}" in words else "")


def distinguishing_words(tunings: Sequence[Tuning]) -> list[tuple[str, ...]]:
    """For each tuning, the words of the options in which the tunings differ; the default's words where it has none."""
    given = [dict(tuning) for tuning in tunings]
    names = dict.fromkeys([*TUNING_OPTIONS, *(name for each in given for name in each)])
    differ = {name for name in names if len({each.get(name) for each in given}) > 1}
    differ |= {"warmup_epochs"} if "lr_policy" in differ else set()  # as charts name a policy
    told = [name for name in names if name in differ]
    return [tuple(filter(None, (_option_words(name, each.get(name)) for name in told))) for each in given]


def option_groups(words: Sequence[str]) -> list[Sequence[str]]:
    """The options of a script, each with its values: ``[["--lr", "0.1"], ["--amp"]]``."""
    starts = [at for at, word in enumerate(words) if word.startswith("-") or not at]
    return [words[at:end] for at, end in pairwise((*starts, len(words)))]


def without_option(words: Sequence[str], option: str) -> tuple[str, ...]:
    """The words without an option (``--foo``) and its values."""
    return tuple(chain(*(each for each in option_groups(words) if each[0].partition("=")[0] != option)))


def named_options(words: Sequence[str]) -> dict[str, str]:
    """The ``--name value``, ``-n value`` and ``--name=value`` of a command; a flag without a value is ``true``.

    Names lose their leading dashes; dashes inside become underscores.
    """
    found: dict[str, str] = {}
    for word, after in zip(words, (*words[1:], "--"), strict=False):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            found[name.replace("-", "_")] = value if equals else "true" if after.startswith("--") else after
    return found
