"""Which runs repeat each other: the configuration of each run, and what keeps a run out of all rows.

The number of images is what the log says, else what its reader says (``--images``, the lab's edition) where the log's
steps and global batch do not contradict it. Else steps x batch bound it, since only the last batch may be short; and
where the log has neither, it is unknown.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from labtui.domain.model import Interval, Program, WorkUnit, plural
from labtui.domain.run import DEEDS, Mark
from labtui.domain.tuning import Tuning, tuning_words
from labtui.results.measured import MeasuredRun
from labtui.slurm.values import number

CIFAR10_IMAGES = 50_000
"""The lab's training set: taken as the likeliest number where a log's bounds hold it, and named as taken."""
UNKNOWN = "unknown"
_NUMBER = re.compile(r"(\d+)")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two runs repetitions of each other: only runs equal in all of this are pooled.

    `device` is ``cpu``, ``gpu`` or ``unknown``; `n_gpus` 0 on a CPU, None when the log does not tell.
    `batch_size` is the global batch. `images` per epoch, None where nothing tells them. `steps` per epoch tell runs
    without a known batch or number of images apart.
    `apart` is not "" for a run of unknown configuration, or one whose log contradicts itself: it is pooled and compared
    with nothing, save that the runs of one log that names no model share it when they can be taken for one model.
    `tuning` is what the script's options change of its speed; `unit` what a rate counts, where a batch of tokens is
    so many sequences of `sequence_length`. `validated`: a validation is inside each epoch's time. `gpu_kind` is the
    GPU's name where the log tells it. `practice` is that of small runs, too: `small` tells them from rehearsals.
    """

    mark: Mark
    model: str
    framework: str
    device: str
    n_gpus: int | None
    batch_size: int | None
    images: int | None
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
        """What a control run leaves out, "" for other runs."""
        return dict(self.tuning).get("control", "")

    @property
    def work_key(self) -> tuple[object, ...]:
        """What two configurations that are compared must share; their images are looked at, too."""
        return (*self.family_key, self.tuning, self.validated, self.gpu_kind)

    @property
    def family_key(self) -> tuple[object, ...]:
        """The part of it that says what is trained; the rest says how."""
        unit = (self.unit, self.sequence_length)
        return (bool(self.mark), self.model, self.framework, self.data_set, unit, self.apart)

    @property
    def whole_batches(self) -> bool:
        """Whether an epoch is whole batches only, so that its images depend on the batch: PyTorch with drop_last."""
        known = self.images is not None and self.batch_size is not None and self.batch_size > 0
        return self.framework.startswith("pytorch") and known and self.images % self.batch_size == 0  # type: ignore[operator]

    @property
    def data_bound(self) -> Interval | None:
        """The images of the data set: those of an epoch, and at most a batch that is left out."""
        if self.images is None or not self.whole_batches:
            return self.images_bound
        left = (self.batch_size or 1) + max(1, self.n_gpus or 1) - 1
        return Interval(self.images, self.images, self.images + left)

    @property
    def per_gpu_batch(self) -> float | None:
        """The global batch divided over the devices that share a step."""
        if self.batch_size is None or self.n_gpus is None:
            return None
        return self.batch_size / max(1, self.n_gpus)

    @property
    def images_bound(self) -> Interval | None:
        """The images per epoch, as certainly as the log tells them: all but the last batch are whole."""
        if self.images is not None:
            return Interval.exact(self.images)
        if self.batch_size is None or not self.steps:
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
    """What a training ran on, in words."""
    if not n_gpus:
        return unknown if n_gpus is None else cpu
    return plural(n_gpus, "GPU")


def reading_order(configuration: Configuration) -> tuple[object, ...]:
    """A sort key: real before practice, models by their numbers, CPU before GPUs, fewer GPUs first."""
    return (
        bool(configuration.mark),
        *_natural(configuration.model),
        configuration.framework,
        *_natural(configuration.data_set),
        {"cpu": 0, "gpu": 1}.get(configuration.device, 2),
        configuration.n_gpus if configuration.n_gpus is not None else math.inf,
        configuration.per_gpu_batch or 0,
        configuration.images or 0,
        configuration.steps or 0,
        configuration.tuning,
        configuration.apart,
    )


def _natural(name: str) -> tuple[str, list[int]]:
    return _NUMBER.sub("#", name), [number(piece) or 0 for piece in _NUMBER.split(name)]


def same_work(one: Configuration, other: Configuration) -> bool:
    """Whether two configurations train the same thing in the same way, on whatever number of devices."""
    return one.work_key == other.work_key and same_images(one.data_bound, other.data_bound)


def difference(one: Configuration, other: Configuration) -> str:
    """How two configurations of one family were trained differently, as a sentence's end."""
    words = []
    if one.gpu_kind != other.gpu_kind:
        words.append(f"another GPU ({other.gpu_kind or 'not named'}, here {one.gpu_kind or 'not named'})")
    if one.validated != other.validated:
        words.append(f"{'no ' if one.validated else 'a '}validation inside its epochs")
    if one.tuning != other.tuning:
        here, there = (", ".join(tuning_words(each.tuning)) or "none" for each in (one, other))
        words.append(f"other options ({there}, here {here})")
    return " and ".join(words)


def same_images(one: Interval | None, other: Interval | None) -> bool:
    """Whether two epochs may have the same number of images; unknown ones are taken to, and a note says so."""
    return one is None or other is None or (one.lo <= other.hi and other.lo <= one.hi)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is in no row, and why."""

    run: MeasuredRun
    reason: str


_KERAS = re.compile(r"(?:(?:tf\.)?keras|tensorflow|mlperf)(?![\w+])", re.IGNORECASE)
_SOFTWARE = re.compile(r"[a-z]+(?:[ _+/-]+[a-z]+)*", re.IGNORECASE)


def group_runs(
    runs: Iterable[MeasuredRun], images: int | None, *, insist: bool = False
) -> tuple[dict[Configuration, list[MeasuredRun]], tuple[LeftOut, ...]]:
    """Sort runs into configurations in reading order; name what measures nothing, and why."""
    groups: dict[Configuration, list[MeasuredRun]] = {}
    left_out: list[LeftOut] = []
    runs = tuple(runs)
    nameless = _one_nameless_model(runs)
    places: Counter[str] = Counter()
    for run in runs:
        places[run.source] += 1
        if reason := _unusable(run):
            left_out.append(LeftOut(run=run, reason=reason))
            continue
        shared = run.source in nameless and run.run.n_gpus is not None and not run.run.contradictions
        apart = run.source if shared else f"{run.source}#{places[run.source]:04}"
        groups.setdefault(configuration_of(run, images, apart, insist=insist), []).append(run)
    ordered = sorted(groups, key=reading_order)
    return {configuration: groups[configuration] for configuration in ordered}, tuple(left_out)


def configuration_of(
    run: MeasuredRun, images: int | None, apart: str, *, insist: bool = False
) -> Configuration:
    """The configuration of a run; `images` are those its reader says, `apart` what keeps an unknown run alone.

    `insist`: the reader's images count although steps and batch contradict them.
    """
    parsed = run.run
    if parsed.program is not None:
        return _of_program(run, parsed.program)
    device = parsed.device or (UNKNOWN if parsed.n_gpus is None else "gpu" if parsed.n_gpus else "cpu")
    n_gpus = 0 if device == "cpu" else parsed.n_gpus
    batch = parsed.batch_size
    if batch is None and parsed.batch_per_gpu is not None and n_gpus is not None:
        batch = parsed.batch_per_gpu * max(1, n_gpus)
    steps = printed_steps(run)
    if images is not None and not insist and (not run.takes_images or contradicts(images, steps, batch)):
        images = None
    images = images if parsed.unit == "images" else None
    images = parsed.images or images
    known = n_gpus is not None and parsed.model is not None and not run.run.contradictions
    return Configuration(
        mark=run.mark or parsed.mark,
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


def _of_program(run: MeasuredRun, program: Program) -> Configuration:
    """That of a program without epochs: `n_gpus` is the number of its processes, `data_set` its size."""
    return Configuration(
        mark=run.mark or run.run.mark,
        model=program.name,
        framework="",
        device="gpu" if program.counts == "GPUs" else "cpu",
        n_gpus=run.run.processes,
        batch_size=None,
        images=None,
        data_set=run.run.size,
    )


def _validates(run: MeasuredRun) -> bool:
    """Whether a validation is inside each epoch's time, as Keras's own lines have it."""
    return any(
        sample.printed_seconds is not None and any(name.startswith("val_") for name in sample.metrics)
        for sample in run.run.epochs
    )


def printed_steps(run: MeasuredRun) -> int | None:
    """Steps per epoch as the log prints them."""
    return next((sample.steps for sample in run.run.epochs if sample.steps is not None), None)


def contradicts(images: int, steps: int | None, batch: int | None) -> bool:
    """Whether so many images do not make so many steps of such a global batch."""
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


def _unusable(run: MeasuredRun) -> str:
    if not run.run.epochs and run.run.throughput is None:
        missing = "no epoch was finished" if run.run.program is None else "its log has no time"
        return f"{missing}: it {DEEDS[run.run.outcome or 'unfinished']}"
    said = "the training found no GPU and ran on the CPU, so it is not counted as a GPU run"
    return said if run.no_gpu else ""


def _one_nameless_model(runs: Sequence[MeasuredRun]) -> frozenset[str]:
    """Logs whose runs name no model and can be taken for one model: no size comes twice.

    Another model would be trained on the same sizes again, so a log in which sizes repeat may hold several; its
    runs are compared with nothing.
    """
    sizes: dict[str, list[int]] = {}
    for run in runs:
        if run.run.model is None and run.run.n_gpus is not None and not _unusable(run):
            sizes.setdefault(run.source, []).append(run.run.n_gpus)
    return frozenset(source for source, found in sizes.items() if source and len(set(found)) == len(found))
