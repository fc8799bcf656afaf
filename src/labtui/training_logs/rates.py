"""Lines that give a rate, or the seconds of a step, and no epoch: a table of regular expressions.

A group's name says what it holds: `rate`, `unit` (in the log's word), `step_seconds`, `step_milliseconds`, `batch`
(global), `gpus`, `index` (0 or 1: the first of its training), `spread`. `total`: the training is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from labtui.domain.model import Interval, WorkUnit
from labtui.training_logs.patterns import unit_of
from labtui.training_logs.runs import RunFacts, rounded
from labtui.training_logs.said import Begins, Ends, Rate, Said, Says

_N = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][-+]?\d{1,3})?"


@dataclass(frozen=True, slots=True)
class RateForm:
    """A line with a rate: its name, what it must contain, its expression, and what the numbers are."""

    name: str
    word: str
    regex: re.Pattern[str]
    unit: WorkUnit = "images"
    total: bool = False
    note: str = ""


def _form(name: str, word: str, regex: str, unit: WorkUnit = "images", **more: object) -> RateForm:
    return RateForm(name, word, re.compile(regex.replace("<N>", _N)), unit, **more)  # type: ignore[arg-type]


_ONE_PROCESS = "The rate is of the process that prints it; the log does not say how many there are."
RATE_FORMS = (
    _form("tf_cnn_benchmarks", "images/sec", r"\s*total images/sec: +(?P<rate><N>)\s*\Z", total=True),
    _form("tf_cnn_benchmarks", "images/sec", r"\s*(?P<index>\d{1,9})\s+images/sec: +<N> \+/- <N>"),
    _form(
        "horovod",
        "img/sec",
        r"\s*Total img/sec on (?P<gpus>\d{1,6}) (?P<device>GPU|CPU)\(s\): +(?P<rate><N>) \+-(?P<spread><N>)",
        total=True,
    ),
    _form("horovod", "img/sec", r"\s*(?:Iter #(?P<index>\d{1,9}): +<N> img/sec per|Img/sec per (?:GPU|CPU): )"),
    _form(
        "timm",
        "Train: ",
        r"\s*Train: \d{1,7} \[ *(?P<index>\d{1,9})/\d{1,9} .{0,400}Time: <N>s, +<N>/s +"
        r"\(<N>s, +(?P<last><N>)/s\)",
    ),
    _form(
        "megatron",
        "elapsed time per iteration",
        r"\s*(?:\[[^\]]{0,40}\] )?iteration +(?P<index>\d{1,9})/ *\d{1,9} \|.{0,300}"
        r"elapsed time per iteration \(ms\): +"
        r"(?P<step_milliseconds><N>) \|.{0,400}global batch size: +(?P<batch>\d{1,9}) \|",
        "samples",
    ),
    _form(
        "torch_xla",
        "GlobalRate=",
        r"\|? ?(?:Training )?Device=.{0,200}\bRate=(?P<rate><N>)(?: (?P<unit>\w{1,20})/sec)?,? +GlobalRate=",
        "samples",
        note=_ONE_PROCESS,
    ),
    _form("deepspeed", "RunningAvgSamplesPerSec=", r"(?:\[[\w.: ]{1,80}\] )?\w{1,20}=\d.{0,200}"
        r"RunningAvgSamplesPerSec=(?P<last><N>)", "samples"),
    _form("tokens", "tok", r"\s*Training throughput: +(?P<rate><N>) (?P<unit>tok\w{0,3})/s\s*\Z", "tokens"),
    _form(
        "tf-examples",
        "examples/sec",
        r"\s*step (?P<index>\d{1,9}), loss = \S{1,40} \((?P<rate><N>) examples/sec; "
        r"(?P<step_seconds><N>) sec/batch\)",
        "samples",
    ),
    _form(
        "mmdet",
        "data_time: ",
        r"(?:\d\d/\d\d \d\d:\d\d:\d\d - mmengine - INFO - )?"
        r"Epoch(?:\(train\) +)? ?\[\d{1,7}\]\[ *(?P<index>\d{1,9})/\d{1,9}\].{0,200}? "
        r"time: (?P<step_seconds><N>),? +data_time: ",
    ),
    _form(
        "nanogpt",
        ", time ",
        r"iter (?P<index>\d{1,9}): loss \S{1,40}, time (?P<step_milliseconds><N>)ms, mfu ",
        "tokens",
    ),
)  # fmt: skip


def read(text: str) -> list[Said] | None:
    """What a line with a rate, or one of its program's head, says."""
    for form in RATE_FORMS:
        if form.word in text and (match := form.regex.match(text)):
            return [_rate(form, {name: value for name, value in match.groupdict().items() if value})]
    for word, reader in _OTHERS:
        if word in text and (said := reader(text)):
            return said
    return None


def _rate(form: RateForm, groups: dict[str, str]) -> Rate:
    rate, printed = None, None
    if "rate" in groups:
        rate = rounded(groups["rate"])
    elif "last" in groups:  # a running mean: the last one counts
        rate = rounded(groups["last"])
        printed = rate.value
    if rate is not None and "spread" in groups:
        rate = Interval.around(rate.value, min(rate.value, float(groups["spread"])))
    step = None
    if "step_seconds" in groups:
        step = rounded(groups["step_seconds"])
    elif "step_milliseconds" in groups:
        step = rounded(groups["step_milliseconds"]).scaled(1e-3)
    facts = RunFacts(framework=form.name, batch_size=int(groups["batch"]) if "batch" in groups else None)
    if "gpus" in groups:
        on_gpu = groups["device"] == "GPU"
        facts = RunFacts(
            framework=form.name,
            device="gpu" if on_gpu else "cpu",
            n_gpus=int(groups["gpus"]) if on_gpu else 0,
        )
    return Rate(
        form.name,
        rate,
        unit_of(groups["unit"]) if "unit" in groups else form.unit,
        step,
        printed,
        total=form.total,
        first=groups.get("index", "2") in ("0", "1"),
        facts=facts,
        note=form.note,
    )


# --------------------------------------------------------------------------- heads and ends of these programs

_GLOBAL_BATCH = re.compile(r"\s*Batch size: +(\d{1,9}) global\s*\Z")
_DEVICES = re.compile(r"\s*Devices: +\[([^\]]{1,2000})\]\s*\Z")
_WORKERS = re.compile(r"\s*Number of (GPU|CPU)s: +(\d{1,6})\s*\Z")
_TOKENS = re.compile(r"tokens per iteration will be: ([\d,]{1,15})\s*\Z")
_HF_NUMBER = r"'?(\d{1,12}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?)'?[,}]"
_HF_STEP = re.compile(r"\{'(?:loss|grad_norm)': .{0,2000}'epoch': ")
_HF_RATE = re.compile(rf"'train_samples_per_second': {_HF_NUMBER}")
_HF_STEPS = re.compile(rf"'train_steps_per_second': {_HF_NUMBER}")
_HF_TIME = re.compile(rf"'train_runtime': {_HF_NUMBER}")
_HF_HEAD = re.compile(
    r"\s*(Num examples|Num Epochs|Instantaneous batch size per device|Total train batch size \([^)]{1,100}\))"
    r" = ([\d,]{1,15})\s*\Z"
)
_HF_NOTE = "The rate covers the whole training, including start-up, evaluation and saving."
_HF = "transformers"
_LIGHTNING_END = re.compile(r"`?Trainer\.fit`? stopped: `?max_epochs=(\d{1,7})`? reached")
_LIGHTNING_RANKS = re.compile(r"All distributed processes registered\. Starting with (\d{1,5}) processes")
_LIGHTNING_GPU = re.compile(r"GPU available: (?:True|False)[^,]{0,40}, used: (True|False)")


def _benchmark_head(text: str) -> list[Said] | None:
    if match := _GLOBAL_BATCH.match(text):
        return [Says(RunFacts(batch_size=int(match[1]) or None), batch_line=True)]
    if match := _WORKERS.match(text):  # Horovod's benchmark prints one worker's batch above it
        on_gpu, count = match[1] == "GPU", int(match[2])
        return [
            Says(RunFacts(device="gpu" if on_gpu else "cpu", n_gpus=count if on_gpu else 0), workers=count)
        ]
    if (match := _DEVICES.match(text)) and "pu:" in match[1]:
        gpus = match[1].count("gpu:")
        return [Says(RunFacts(device="gpu" if gpus else "cpu", n_gpus=gpus), sure=False)]
    if match := _TOKENS.search(text):
        return [Says(RunFacts(tokens_per_step=int(match[1].replace(",", ""))))]
    return None


def _trainer(text: str) -> list[Said] | None:
    """Hugging Face's Trainer: dicts of metrics, and at the end how long the whole training took, and its rate."""
    if text.startswith("{'train_runtime'") and (time := _HF_TIME.search(text)):
        rate, steps = _HF_RATE.search(text), _HF_STEPS.search(text)
        return [
            Rate(
                _HF,
                rounded(rate[1]) if rate else None,
                "samples",
                total=True,
                facts=RunFacts(framework=_HF),
                seconds=rounded(time[1]),
                steps_rate=rounded(steps[1]) if steps else None,
                note=_HF_NOTE,
            )
        ]
    if _HF_STEP.match(text):
        return [Rate(_HF, unit="samples", facts=RunFacts(framework=_HF))]
    match = _HF_HEAD.match(text)
    if match is None:
        return None
    number, name = int(match[2].replace(",", "")) or None, match[1]
    facts = RunFacts(
        framework=_HF,
        images=number if name == "Num examples" else None,
        epochs_planned=number if name == "Num Epochs" else None,
        batch_per_gpu=number if name.startswith("Inst") else None,
        batch_size=number if name.startswith("Total") else None,
    )
    return [Begins("trainer", facts)] if name == "Num examples" else [Says(facts)]


def _lightning(text: str) -> list[Said] | None:
    if match := _LIGHTNING_END.match(text):
        return [Ends(facts=RunFacts(epochs_planned=int(match[1]) or None))]
    if match := _LIGHTNING_RANKS.match(text):
        return [Says(RunFacts(n_gpus=int(match[1]) or None), sure=False)]
    if match := _LIGHTNING_GPU.match(text):
        on_gpu = match[1] == "True"
        return [Says(RunFacts(device="gpu" if on_gpu else "cpu", n_gpus=None if on_gpu else 0), sure=False)]
    return None


_OTHERS: tuple[tuple[str, Callable[[str], list[Said] | None]], ...] = (
    (" global", _benchmark_head),
    ("Number of ", _benchmark_head),
    ("Devices:", _benchmark_head),
    ("tokens per iteration", _benchmark_head),
    ("'train_runtime'", _trainer),
    ("'epoch'", _trainer),
    ("Num ", _trainer),
    ("batch size", _trainer),
    ("Trainer.fit", _lightning),
    ("distributed processes", _lightning),
    ("GPU available", _lightning),
)
WORDS = (*(form.word for form in RATE_FORMS), *(word for word, _ in _OTHERS))
