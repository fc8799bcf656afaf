"""The input of an export: the runs of a lab folder or of some logs, and everything that belongs to them.

`labtui results`, `plot` and `export` all get their input here, so that they cannot disagree. A lab folder is read once,
even while another process has it open, and never changed.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from labtui.domain.model import plural
from labtui.domain.profile import Profile
from labtui.domain.run import IS_SMALL
from labtui.domain.state import WITHOUT_JOB, LabState, SubmissionState
from labtui.export import drawing, markdown
from labtui.lab.checks import TaskCheck, check_all
from labtui.lab.edition import Edition, Task
from labtui.lab.evidence import Evidence
from labtui.results import compute, numbers, report
from labtui.results.cost import LabCost, RunUtilization, lab_cost, run_utilization
from labtui.results.measured import MeasuredRun, measured_from_state
from labtui.results.rows import Results, rename_models, without_small
from labtui.session import labs, opening
from labtui.session.folder import LabFolder
from labtui.session.settings import Settings, load_profile
from labtui.training_logs.gpu_sampler import GpuSample, read_samples

MAX_LOG_BYTES = 4_000_000
"""Only this much of a longer file is read, from its beginning."""
MAX_PICTURE_BYTES, MAX_PIXELS = 20_000_000, 50_000_000


def stamp_of(results: Results) -> str:
    """The state that an export shows: when its last epoch ended, and a hash of all numbers.

    It is in every file of an export; the same state gives the same stamp. A practice cluster's clock runs ahead of the
    real one, so its time is marked.
    """
    runs = (run.run for row in results.rows for run in row.members)
    ended = [each.ended_at for run in runs for each in run.epochs if each.ended_at is not None]
    when = ""
    with contextlib.suppress(OverflowError, ValueError, OSError):  # a damaged time, or none
        when = f"last epoch {datetime.fromtimestamp(max(ended), UTC):%Y-%m-%d %H:%M} UTC"
    if when and results.mark:
        when += " by the practice clock"
    text = json.dumps(report.results_json(results), sort_keys=True)
    return ", ".join(filter(None, (when, f"fingerprint {hashlib.sha256(text.encode()).hexdigest()[:8]}")))


def small_notes(results: Results) -> list[str]:
    """Which rows the charts leave out, and why."""
    said = f"{IS_SMALL}: it is in no chart."
    rows = (*results.rows, *results.programs)
    return [f"{numbers.clean(row.label)} {said}" for row in rows if row.mark == "small"]


SAMPLER_END = ".gpu.csv"


class Measurements(msgspec.Struct, frozen=True, dict=True):
    """The runs that were read, and what belongs to them.

    `samples` are GPU samples by the log they belong to; only a lab folder has `cost` and `edition`. `names` are the
    edition's of the models. `unread`: a file could not be read.
    """

    runs: tuple[MeasuredRun, ...] = ()
    samples: Mapping[str, tuple[GpuSample, ...]] = {}
    cost: LabCost | None = None
    edition: Edition | None = None
    names: Mapping[str, str] = {}
    unread: bool = False

    def results(self, images: int | None = None) -> Results:
        """Compute the numbers; `images` per epoch replace the edition's for logs that do not print their own."""
        usual = self.edition.images if self.edition is not None else None
        return compute.compute_results(self.runs, images=images or usual, insist=images is not None)

    def named(self, results: Results) -> Results:
        """The results with the edition's names of the models, for people; JSON and CSV have the scripts' names."""
        return rename_models(results, self.names)

    @functools.cached_property
    def uses(self) -> tuple[RunUtilization, ...]:
        """The GPU use of each run whose job had a sampler."""
        found = (run_utilization(one, self.samples.get(one.source, ())) for one in self.runs)
        return tuple(use for use in found if use is not None)

    def json_of(self, results: Results) -> dict[str, Any]:
        """Everything that `labtui results --json` prints."""
        return report.results_json(results) | {
            "export": stamp_of(results),
            "accuracy": report.accuracy_json(results),
            "gpu_use": [report.utilization_json(use) for use in self.uses],
            **({} if self.cost is None else {"cost": report.cost_json(self.cost)}),
        }


def samples_beside(log: str, read: Callable[[Path], bytes] = Path.read_bytes) -> tuple[GpuSample, ...]:
    """The GPU samples beside a log; none when they cannot be read, since the results do not depend on them."""
    path = Path(log.removesuffix(".out").removesuffix(".err") + SAMPLER_END)
    try:
        return read_samples(read(path)) if log.endswith((".out", ".err")) else ()
    except OSError:
        return ()


def measurements_of(folder: LabFolder, state: LabState, edition: Edition | None) -> Measurements:
    """The runs of a lab folder and the GPU samples beside their logs; no edition where it cannot be read."""
    runs = measured_from_state(state, edition.run_scripts if edition is not None else ())
    sources = {one.source for one in runs if one.source}
    return Measurements(
        runs=runs,
        samples={source: samples_beside(source, folder.read) for source in sources},
        cost=lab_cost(state),
        edition=edition,
        names=edition.names if edition is not None else {},
    )


# --------------------------------------------------------------------------- a lab folder


class LabContents(Evidence, frozen=True, kw_only=True, dict=True):
    """A lab at one moment: the evidence, and the outcome of its checks.

    Job scripts, logs and pictures are read from the folder when a page shows them.
    """

    folder: LabFolder
    edition: Edition
    settings: Settings
    profile: Profile
    measurements: Measurements
    checks: Mapping[str, TaskCheck]
    today: date
    plots: Mapping[str, Callable[[], bytes]] = {}
    """Draws the plots of this export, by path: an answer shows these, not those of an earlier export."""

    @functools.cached_property
    def named(self) -> Results:
        """The results with the edition's names of its models."""
        return self.measurements.named(self.results)

    @functools.cached_property
    def shown(self) -> Results:
        """The named results that pages and charts show."""
        return without_small(self.named)

    @property
    def mark(self) -> str:
        """The line for pages with numbers of the practice cluster; "" where none are."""
        return drawing.PRACTICE_LINE if self.results.mark else ""

    def job_of(self, task: Task) -> SubmissionState | None:
        """The submission whose log a task's page shows: the last one with epochs, else the last one sent."""
        measured = {run.token for run in self.state.runs.values() if run.epochs}
        mine = (each for each in self.state.submissions.values() if each.task_id == task.id)
        sent = [each for each in mine if each.status not in WITHOUT_JOB]
        return max(sent, key=lambda s: (s.token in measured, s.run_ids), default=None)

    def original_of(self, script: str) -> tuple[str, str]:
        """Name and text of the script that a student's script began as: another script where the lab asks to copy."""
        copied = {to: source for task in self.edition.tasks for source, to in task.copies_to_start}
        name = copied.get(script, script)
        fact = (self.scripts.get(name) if name != script else None) or self.originals.get(name)
        return name, fact.text if fact is not None else ""

    def text(self, path: str) -> str:
        """The text of a file of the folder, up to `MAX_LOG_BYTES`; "" when it cannot be read."""
        try:
            with self.folder.reader(path) as stream:
                return stream.read(MAX_LOG_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def picture(self, name: str) -> bytes | None:
        """The picture that an answer names; None if it cannot be shown."""
        drawn = self.plots.get(name)
        return drawn() if drawn is not None else read_picture(self.folder, name)


def read_picture(folder: LabFolder, name: str) -> bytes | None:
    """The PNG or JPEG file that an answer names, beside it or in the lab folder; None if it cannot be shown."""
    from PIL import Image

    for start in ("answers", ""):
        with contextlib.suppress(Exception):  # Pillow raises many kinds for a damaged file
            path = os.path.normpath(Path(start, name))
            status = folder.status(path)
            if status is not None and status.st_size <= MAX_PICTURE_BYTES:
                data = folder.read(path)
                picture = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
                if picture.width * picture.height <= MAX_PIXELS:
                    picture.load()
                    return data
    return None


def left_out(folder: LabFolder, task: str, number: int, text: str, drawn: Collection[str] = ()) -> list[str]:
    """A sentence on each part of an answer that documents do not show; `drawn` are the plots of this export."""
    names: list[str] = []
    markdown.blocks_of(text, names.append)
    lost = [numbers.clean(name) for name in names if name not in drawn and read_picture(folder, name) is None]
    data = "a picture within the text is not shown: save it as a file and name that."
    said = [data if "data:" in name else f"{name} is not there, or not a PNG or JPEG file." for name in lost]
    if more := markdown.shown_part(text)[1]:
        said.append(f"only answers/{task}.md has its last {plural(more, 'line')}.")
    return [f"Answer {number} of {task}: {each}" for each in said]


def read_contents(
    folder: LabFolder, *, state: LabState | None = None, today: date | None = None, made: Iterable[str] = ()
) -> LabContents:
    """Read a lab folder for its export.

    Without a `state` the stored one is read. `made` names the files that this export will write, so that no check
    calls them missing.

    Raises:
        LabError: when settings, edition, scripts or answers cannot be read.
    """
    settings = folder.settings()
    edition = labs.load_edition(settings.edition, folder)
    state = opening.stored_state(folder) if state is None else state
    evidence = labs.gather_evidence(folder, edition, state)
    evidence = msgspec.structs.replace(evidence, files=evidence.files | frozenset(made))
    return LabContents(
        **msgspec.structs.asdict(evidence),
        folder=folder,
        edition=edition,
        settings=settings,
        profile=load_profile(settings.profile, folder.path),
        measurements=measurements_of(folder, state, edition),
        checks={check.task_id: check for check in check_all(edition, evidence)},
        today=today or date.today(),
    )
