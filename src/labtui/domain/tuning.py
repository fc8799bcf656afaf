"""The options of training scripts that change their speed, and how to say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_PLAIN_WORDS = ("", "none", "no", "false", "0", "fp32", "constant")
"""Values of an option that leave a training as it is without the option."""


def tuning_of(options: Mapping[str, str], variant: str = "") -> tuple[str, ...]:
    """How a script's options, and a variant of it, change its speed, in words; options by name, without dashes.

    Nothing for what is left at its default, so that a script that prints all its options and a command that names
    some of them say the same: ``("bf16", "10 workers", "compiled")``.
    """
    found = []
    for name, word in TUNING_OPTIONS.items():
        value = options.get(name, "").lower()
        if value in _PLAIN_WORDS or (name == "resolution" and value == "224"):
            continue
        label = word.format(value)
        if name == "num_workers" and value == "1":
            label = "1 worker"
        elif name == "lr_policy" and options.get("warmup_epochs", "0") != "0":
            epochs = options["warmup_epochs"]
            label += f", warm-up of {epochs} epoch{'s' * (epochs != '1')}"
        found.append(label)
    return (*found, f"{variant} script") if variant else tuple(found)


def named_options(words: Sequence[str]) -> dict[str, str]:
    """The ``--name value`` and ``--name=value`` of a command; a flag without a value is ``true``."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            after = words[at + 1] if at + 1 < len(words) else "--"
            found[name] = value if equals else "true" if after.startswith("--") else after
    return found


CONTROL = "control: "
"""How the tuning of a control run begins: it shows a cause, and is no run of a task."""
TUNING_OPTIONS = {
    "model_precision": "{} weights",
    "mixed_precision": "{}",
    "num_workers": "{} workers",
    "compile": "compiled",
    "torch_compile": "compiled",
    "attn": "{} attention",
    "use_liger_kernel": "Liger kernels",
    "resolution": "{} pixels",
    "sequence_length": "sequences of {}",
    "lr_policy": "{} rate",
    "control": CONTROL + "{}",
}
"""Options of the course's PyTorch scripts that make trainings differ, and how to say their values."""
