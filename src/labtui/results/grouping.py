"""Groups runs that repeat each other by configuration, and leaves out the runs that measured nothing.

The number of images per epoch is the log's, else the given one (``--images``, the lab's edition) where the log's steps
and global batch do not contradict it. Otherwise steps x batch bound it, since only the last batch may be short; a log
with neither leaves it unknown.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from labtui.domain.model import Interval, WorkUnit, plural
from labtui.domain.run import DEEDS, MIXED, Mark
from labtui.domain.tuning import Tuning, distinguishing_words
from labtui.results.measured import CPUS, MeasuredRun, grouped, policy
from labtui.slurm.values import number

CIFAR10_IMAGES = 50_000
"""The size of the lab's training set: assumed where a log's bounds contain it, and a note says so."""
UNKNOWN = "unknown"
_NUMBER = re.compile(r"(\d+)")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two runs repetitions of each other: only runs equal in all of this are pooled.

    `device` is ``cpu``, ``gpu`` or ``unknown``; `n_gpus` is 0 on a CPU, None when unknown. `batch_size` is the global
    batch. `images` and `steps` are per epoch: `images` is None when unknown, and `steps` is set only to tell apart runs
    whose batch or images are unknown.
    `apart` is not "" for a run of unknown configuration or with a log that contradicts itself. Such a run is neither
    pooled nor compared, except with runs of the same log if all of them can be taken for one model without a name.
    `tuning` holds the script options that change the speed, and a script of the student's own.
    `unit` is what a rate counts; with tokens, a batch counts
    sequences of `sequence_length`. `validated`: each epoch's time includes a validation. `gpu_kind` is the GPU's name
    where the log prints it. `mark` tells practice runs and small runs from real ones.
    """

    mark: Mark
    model: str
    framework: str = ""
    device: str
    n_gpus: int | None
    batch_size: int | None = None
    images: int | None = None
    steps: int | None = None
    apart: str = ""
    data_set: str = ""
    tuning: Tuning = ()
    unit: WorkUnit = "images"
    sequence_length: int | None = None
    validated: bool = False
    gpu_kind: str = ""

    @property
    def control(self) -> str:
        """The kind of control run (see `scaling`), "" for other runs."""
        return dict(self.tuning).get("control", "")

    @property
    def work_key(self) -> tuple[object, ...]:
        """What two configurations must share to be compared, beside their images (`same_images`)."""
        return (*self.family_key, self.options, self.validated, self.gpu_kind)

    @property
    def options(self) -> Tuning:
        """Its tuning without the number of CPUs, which is a size."""
        return tuple(option for option in self.tuning if option[0] != CPUS)

    @property
    def family_key(self) -> tuple[object, ...]:
        """The part of `work_key` that says what is trained; the rest says how."""
        unit = (self.unit, self.sequence_length)
        return (bool(self.mark), self.model, self.framework, self.data_set, unit, self.apart)

    @property
    def whole_batches(self) -> bool:
        """Whether an epoch has whole batches only, so its images depend on the batch (PyTorch's drop_last)."""
        known = self.images is not None and self.batch_size is not None and self.batch_size > 0
        return self.framework.startswith("pytorch") and known and self.images % self.batch_size == 0  # type: ignore[operator]

    @property
    def data_bound(self) -> Interval | None:
        """The size of the data set: the images of an epoch, and at most about a batch that drop_last leaves out."""
        if self.images is None or not self.whole_batches:
            return self.images_bound
        left = (self.batch_size or 1) + max(1, self.n_gpus or 1) - 1
        return Interval(self.images, self.images, self.images + left)

    @property
    def per_gpu_batch(self) -> float | None:
        """The global batch divided by the number of devices."""
        if self.batch_size is None or self.n_gpus is None:
            return None
        return self.batch_size / max(1, self.n_gpus)

    @property
    def batch_words(self) -> str:
        """``2,048 images per GPU per step``; "" where the batch is not known."""
        counted = "sequences" if self.unit == "tokens" else self.unit
        return "" if self.per_gpu_batch is None else f"{self.per_gpu_batch:,.0f} {counted} per GPU per step"

    @property
    def images_bound(self) -> Interval | None:
        """The images per epoch, else their bounds from steps x batch: only the last batch may be short."""
        if self.images is not None:
            return Interval.exact(self.images)
        if not self.batch_size or not self.steps:
            return None
        least, most = (self.steps - 1) * self.batch_size + 1, self.steps * self.batch_size
        fits = least <= CIFAR10_IMAGES <= most
        return Interval(CIFAR10_IMAGES if fits else (least + most) / 2, least, most)

    @property
    def network(self) -> str:
        """The network, with its data set where the lab has several: ``ViT-H/14 on tiny-224``."""
        data = f"{self.data_set} data" if self.data_set == "synthetic" else self.data_set
        return " on ".join(filter(None, (self.model, data)))


def devices(n_gpus: int | None, *, cpu: str = "the CPU", unknown: str = "an unknown device") -> str:
    """The devices of a training in words: ``2 GPUs``."""
    other = unknown if n_gpus is None else cpu
    return plural(n_gpus, "GPU") if n_gpus else other


def _reading_order(configuration: Configuration, first_run: int) -> tuple[object, ...]:
    """A sort key: real before practice, one line after another, CPU before GPUs, fewer GPUs first.

    `first_run` is that of its learning-rate policy: of these each mends the one before.
    """
    made = configuration
    options = " ".join(f"{name} {value}" for name, value in made.options)
    return (
        bool(made.mark),
        *map(natural_key, (made.model, made.framework, made.data_set)),
        first_run,
        natural_key(options),
        {"cpu": 0, "gpu": 1}.get(made.device, 2),
        made.n_gpus if made.n_gpus is not None else math.inf,
        natural_key(" ".join(value for _, value in made.tuning)),
        (made.per_gpu_batch or 0, made.images or 0, made.steps or 0, made.apart),
    )


def natural_key(name: str) -> tuple[str, list[int]]:
    """The key of an order in which 12.2 comes before 12.10."""
    return _NUMBER.sub("#", name), [number(piece) or 0 for piece in _NUMBER.split(name)]


def same_images(one: Configuration, other: Configuration) -> bool:
    """Whether an epoch of two configurations has the same images, as far as these are known."""
    mine, theirs = one.data_bound, other.data_bound  # unknown, they may be any; a note says so
    return mine is None or theirs is None or (mine.lo <= theirs.hi and theirs.lo <= mine.hi)


def what_others_lack(one: Configuration, others: Sequence[Configuration]) -> str:
    """What no other configuration of one family has as this one has it, as the end of a sentence."""
    options = ", ".join(distinguishing_words([one.tuning, *(other.tuning for other in others)])[0])
    shared = {
        "gpu_kind": f"the same GPU (here {one.gpu_kind or 'not named'})",
        "validated": f"epochs with{'' if one.validated else 'out'} a validation",
        "tuning": f"the same options (here {options or 'none'})",
    }
    every = (one, *others)
    lacking = [what for name, what in shared.items() if len({getattr(each, name) for each in every}) > 1]
    if not all(same_images(one, each) for each in others):
        lacking.append("the same number of images per epoch")
    return " and ".join(lacking)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is in no row, and why."""

    run: MeasuredRun
    reason: str


_KERAS = re.compile(r"(?:(?:tf\.)?keras|tensorflow|mlperf)(?![\w+])", re.IGNORECASE)
_SOFTWARE = re.compile(r"[a-z]+(?:[ _+/-]+[a-z]+)*", re.IGNORECASE)


def group_runs(
    runs: Iterable[MeasuredRun], images: int | None, *, insist: bool = False
) -> tuple[dict[Configuration, list[MeasuredRun]], tuple[LeftOut, ...]]:
    """Group the runs by configuration, in reading order; also return those that measured nothing, with the reason."""
    groups: dict[Configuration, list[MeasuredRun]] = {}
    left_out: list[LeftOut] = []
    runs = tuple(runs)
    nameless = _logs_of_one_model(runs)
    places: Counter[str] = Counter()
    for run in runs:
        places[run.source] += 1
        if reason := _why_unusable(run):
            left_out.append(LeftOut(run=run, reason=reason))
            continue
        shared = run.source in nameless and run.run.n_gpus is not None and not run.run.contradictions
        apart = run.source if shared else f"{run.source}#{places[run.source]:04}"
        groups.setdefault(configuration_of(run, images, apart, insist=insist), []).append(run)
    oldest = sorted((run.run_id or 0, policy(run)) for members in groups.values() for run in members)
    first = {name: number for number, name in reversed(oldest)} | {"": 0}
    order = sorted(groups, key=lambda each: _reading_order(each, first[policy(groups[each][0])]))
    return {each: groups[each] for each in order}, tuple(left_out)


def configuration_of(run: MeasuredRun, images: int | None, apart: str, *, insist: bool) -> Configuration:
    """The configuration of a run; `images` are the given ones per epoch, `apart` is used if the run is unknown.

    `insist`: the given images count even where steps and batch contradict them. That of a program without epochs has
    its number of processes in `n_gpus`, and its size in `data_set`.
    """
    parsed = run.run
    if (program := parsed.program) is not None:
        return Configuration(
            mark=run.mark,
            model=program.name,
            device="gpu" if program.counts == "GPUs" else "cpu",
            n_gpus=parsed.processes,
            data_set=parsed.size,
        )
    device = parsed.device or (UNKNOWN if parsed.n_gpus is None else "gpu" if parsed.n_gpus else "cpu")
    n_gpus = 0 if device == "cpu" else parsed.n_gpus
    batch = parsed.batch_size
    if batch is None and parsed.batch_per_gpu is not None and n_gpus is not None:
        batch = parsed.batch_per_gpu * max(1, n_gpus)
    steps = printed_steps(run)
    counted = parsed.unit == "images" or (insist and parsed.epochs)
    given = images if (insist or run.takes_images) and counted else None
    images = parsed.images or given
    if images and contradicts(images, steps, batch) and (parsed.images or not insist):
        images = None  # the steps bound it
    known = n_gpus is not None and parsed.model is not None and not run.run.contradictions
    return Configuration(
        mark=run.mark,
        model=parsed.model or run.job_name or UNKNOWN,
        framework=software_family(parsed.framework),
        device=device,
        n_gpus=n_gpus,
        batch_size=batch,
        images=images,
        steps=steps if batch is None or images is None else None,
        apart="" if known else apart,
        data_set=run.data_set,
        tuning=parsed.tuning,
        unit=parsed.unit,
        sequence_length=parsed.sequence_length,
        validated=_validates(run),
        gpu_kind=(parsed.gpu_kind or "") if device == "gpu" else "",
    )


def _validates(run: MeasuredRun) -> bool:
    """Whether the epoch times include a validation, as those in Keras's own lines do."""
    printed = (sample for sample in run.run.epochs if sample.printed_seconds is not None)
    return any(name.startswith("val_") for sample in printed for name in sample.metrics)


def printed_steps(run: MeasuredRun) -> int | None:
    """Steps per epoch as the log prints them."""
    return next((sample.steps for sample in run.run.epochs if sample.steps is not None), None)


def contradicts(images: int, steps: int | None, batch: int | None) -> bool:
    """Whether `images` in global batches of `batch` make another number of steps than `steps`."""
    if steps is None or not batch:  # some logs print a batch of 0
        return False
    return math.ceil(images / batch) != steps


def software_family(framework: str) -> str:
    """The software without its versions: runs of different software are neither pooled nor compared.

    Keras, TensorFlow and MLPerf records without another name are one family (""): most Keras logs do not name
    themselves, and the lab's own scripts print both forms.
    """
    if not framework or (_KERAS.match(framework) and "+" not in framework):
        return ""
    return "+".join(_SOFTWARE.findall(framework.lower())) or framework.lower()


def _why_unusable(run: MeasuredRun) -> str:
    if run.run.epochs or run.run.throughput is not None:
        return "the training ran on the CPU, so it is not counted as a GPU run" if run.no_gpu else ""
    if run.run.program is None and run.run.outcome == "completed":
        other = f"see `labtui parse {run.source}`, then set log_patterns in lab.toml"
        return f"no epoch time was read: {MIXED if MIXED in run.run.notes else other}"
    missing = "no epoch was finished" if run.run.program is None else "its log has no time"
    return f"{missing}: it {DEEDS[run.run.end or 'unfinished']}"


def _logs_of_one_model(runs: Sequence[MeasuredRun]) -> frozenset[str]:
    """The logs whose runs name no model but can be taken for one model: no number of GPUs occurs twice.

    A second model would be trained on the same numbers of GPUs, so a log in which one repeats may hold several models;
    its runs are compared with nothing.
    """
    usable = (run for run in runs if run.run.model is None and not _why_unusable(run))
    logs = grouped((run for run in usable if run.source and run.run.n_gpus is not None), attrgetter("source"))
    return frozenset(log for log, found in logs.items() if len({r.run.n_gpus for r in found}) == len(found))
