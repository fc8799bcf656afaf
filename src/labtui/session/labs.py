"""Editions on disk, the evidence in a lab folder, and its answers: all that the pure package `lab` needs from files.

Nothing here decides whether a box is ticked, and nothing changes a student's script. An answer file that was changed
in another program is never overwritten: the text is stored beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from labtui.cluster.local_files import expand_home, files_inside
from labtui.doctor.checks import Requirements
from labtui.domain.errors import LabError, failure, os_errors, suggest
from labtui.domain.profile import Profile, fill
from labtui.domain.state import LabState
from labtui.lab.checks import TaskCheck, check_all
from labtui.lab.edition import Edition, Task
from labtui.lab.edition_file import base_id, parse_edition
from labtui.lab.evidence import Answers, Evidence, ExportFact, FileFact, new_sheet, read_sheet, text_above
from labtui.lab.plan import PlanOverrides
from labtui.results.charts import FAMILIES, slug
from labtui.results.compute import compute_results
from labtui.results.measured import measured_from_state
from labtui.results.rows import Results
from labtui.session.folder import LabFolder, list_remote, read_remote
from labtui.session.settings import Settings, cluster_user, load_named, named_file, read_text

if TYPE_CHECKING:
    from labtui.session.session import Session


LABS = Path(__file__).resolve().parents[1] / "labs"
"""The folder of the editions that come with labtui."""
_CHART_FILES = {".png", ".svg", ".pdf", ".jpg"}
COUNTED, MAX_HEAD_BYTES = b", counts ", 65_536
"""What stands in an exported chart, among its first bytes, before the runs that it counts."""


# --------------------------------------------------------------------------- editions


def list_editions() -> tuple[Edition, ...]:
    """The editions that come with labtui."""
    return tuple(read_edition_file(path) for path in sorted(LABS.glob("*.toml")))


def load_edition(id_or_path: str | Path, folder: LabFolder | None = None) -> Edition:
    """An edition by its id, or from a file: a path with a slash or ending in ``.toml``.

    With `folder` the scripts it names are not checked here: preflight reports those that the folder lacks.

    Raises:
        UsageError: when there is no such edition (the hint lists the known ones), or when a folder that is not trusted
            names a file outside it.
        DataError: when the file is not an edition.
    """
    text = str(id_or_path)
    if isinstance(id_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        path = named_file(folder.path, text) if folder is not None else expand_home(text)
        return read_edition_file(path, check_names=folder is None)
    path = LABS / f"{text}.toml"
    known = sorted(item.stem for item in LABS.glob("*.toml"))
    if text not in known:
        raise failure("no-lab", lab=text, near=suggest(text, known), known=", ".join(known))
    return read_edition_file(path)


def read_edition_file(path: Path, *, check_names: bool = True) -> Edition:
    """Read an edition file and check its schema; with `check_names` also that the scripts it names exist.

    Raises:
        DataError: it cannot be read or is not an edition; with the line and one sentence.
    """
    text = read_text(path, str(path))
    names = {"script": list_remote()} if check_names else None
    return parse_edition(text, str(path), names, _base_text(text))


def _base_text(text: str) -> str | None:
    """The text of the edition that another one extends: one that comes with labtui and extends none itself."""
    if (base := LABS / f"{base_id(text)}.toml") not in LABS.glob("*.toml"):
        return None
    base_text = read_text(base, str(base))
    return None if base_id(base_text) else base_text


# --------------------------------------------------------------------------- evidence


def lab_results(state: LabState, edition: Edition | None) -> Results:
    """The results of a lab folder; of one whose edition cannot be read, with what its logs say alone."""
    scripts, images = (edition.run_scripts, edition.images) if edition is not None else ((), None)
    return compute_results(measured_from_state(state, scripts), images=images)


def gather_evidence(folder: LabFolder, edition: Edition, state: LabState) -> Evidence:
    """Everything the checks look at: the lab folder as it is now, and what the cluster last reported.

    Raises:
        FolderError: when scripts or answers cannot be read.
        LabError: when the settings or the profile are not valid.
    """
    settings, profile = load_named(folder.path)
    files = folder.script_files()
    scripts = {name: FileFact(name, data) for name, data in files.items()}
    needed = needed_paths(folder, settings, profile, edition)
    seen = {path: state.paths[path] for path in needed if path in state.paths}
    gone = any(not answer.there for answer in seen.values())
    if len(seen) < len(needed) and not gone:  # not told before all were asked about, unless one is missing
        seen = {}
    asked = [task for task in edition.tasks if task.questions]
    return Evidence(
        state=state,
        results=lab_results(state, edition),
        scripts=scripts,
        originals={**_originals(), **{name: scripts[name] for name in folder.unchanged_scripts(files)}},
        exports=tuple(_exports(folder, edition, state)),
        answers={task.id: read_answers(folder, task) for task in asked},
        above={each.id: text_above(each, sheet_text(folder, answer_path(folder, each.id))) for each in asked},
        files=frozenset(path.name for path in folder.path.iterdir() if folder.has(path)),
        remote=seen,
        overrides=PlanOverrides(max_per_gpu_batch=settings.max_per_gpu_batch),
        without_gpus=profile.without_gpus,
    )


def files_stamp(folder: LabFolder) -> frozenset[tuple[str, int, int]]:
    """Path, modification time (ns) and size of each file that checks and screens read, to notice that one changed."""
    stamp = set()
    for place in (folder.scripts, folder.slurm, folder.answers, folder.plots):
        for path in files_inside(folder.path, place):
            with contextlib.suppress(OSError):  # it was just deleted
                status = path.stat()
                stamp.add((str(path), status.st_mtime_ns, status.st_size))
    return frozenset(stamp)


def check_folder(folder: LabFolder, edition: Edition, state: LabState) -> tuple[TaskCheck, ...]:
    """The boxes of a lab folder, in the edition's order.

    Raises:
        FolderError: when scripts or answers cannot be read.
    """
    return check_all(edition, gather_evidence(folder, edition, state))


def requirements_of(
    folder: LabFolder | None, settings: Settings, profile: Profile, edition: Edition | None = None
) -> Requirements:
    """What the settings and their lab need from the cluster; without a lab, what TensorFlow's editions need.

    Paths may contain {account} and {user}; "" and () stand for what is not read.
    """
    with contextlib.suppress(LabError):  # it cannot be read; the connection can still be examined
        edition = edition or load_edition(settings.edition, folder)
    runs = [run.spec for task in edition.tasks for run in task.runs] if edition is not None else []
    wanted = Requirements(
        **{name: getattr(settings, name) for name in ("account", "qos", "partition", "root")},
        gpu_runs=not runs or any(run.device == "gpu" for run in runs),
        cpu_runs=any(run.device == "cpu" for run in runs),
    )
    trainings = [run for run in runs if run.program is None]
    if runs and not trainings:
        return replace(wanted, framework="")
    pytorch = bool(runs) and all(run.script.startswith("pytorch/") for run in trainings)
    data_sets = tuple(dict.fromkeys(run.data_set for run in trainings if run.reads_folder))
    reads_cifar = not runs or any(run.data_set in ("", "cifar10") for run in trainings)
    return replace(
        wanted,
        framework="torch" if pytorch else "tensorflow",
        data_dir=(settings.data_dir or profile.data_folder(images=False)) if reads_cifar else "",
        images_dir=(settings.data_dir or profile.data_folder(images=True)).rstrip("/") if data_sets else "",
        image_sets=data_sets,
        container=settings.container or profile.container_for(pytorch=pytorch),
    )


def needed_paths(folder: LabFolder, settings: Settings, profile: Profile, edition: Edition) -> list[str]:
    """The remote paths this folder's trainings need: data and container, from edition, settings and profile."""
    needs = requirements_of(folder, settings, profile, edition)
    # A set whose folder is not known is still needed: no path is looked for, and the box of the data stays open.
    paths = (needs.data_dir, *(needs.image_paths or needs.image_sets), needs.container)
    user = cluster_user(settings, profile) if any("{user}" in path for path in paths) else ""
    values = {"account": profile.account_of(settings.account), "user": user}
    filled = (fill(path, values) for path in dict.fromkeys(paths))
    return [path for path in filled if path and "{" not in path]


@cache
def _originals() -> Mapping[str, FileFact]:
    """The training scripts as shipped; they do not change while labtui runs."""
    return {name: FileFact(name, read_remote(name)) for name in list_remote()}


def _exports(folder: LabFolder, edition: Edition, state: LabState) -> Iterable[ExportFact]:
    """Exported charts, recognised by the kind of chart and the models in the file name; an empty file is none."""
    models = {plan.spec.model for task in edition.tasks for plan in task.runs}
    models |= {run.spec.model for run in state.runs.values()}
    slugs = {model: slug(edition.names.get(model, model)) for model in sorted(models - {""})}
    for path in files_inside(folder.path, folder.plots):
        stem, is_chart = path.stem, path.suffix in _CHART_FILES and path.stat().st_size
        charts = [family for family in FAMILIES if family in stem and is_chart]
        if charts:  # the longest is meant: `cpu-gpu-throughput` is no `throughput`
            with contextlib.suppress(OSError), folder.reader(path) as file:  # not to be read: none
                told = file.read(MAX_HEAD_BYTES).partition(COUNTED)[2].partition(b";")[0]
                yield ExportFact(
                    path=path.relative_to(folder.path).as_posix(),
                    chart=max(charts, key=len),
                    models=tuple(model for model, word in slugs.items() if word in stem or model in stem),
                    mark="practice" if state.rehearsed or "practice" in stem else "",
                    at=path.stat().st_mtime,
                    counted=frozenset(told.decode("ascii", "replace").split()),
                )


# --------------------------------------------------------------------------- copies of scripts


def start_copy(folder: LabFolder, original: str, target: str) -> Path:
    """Start a new script as a copy of another, for the student to change.

    A `target` that is unchanged since labtui wrote it is replaced.

    Raises:
        FolderError: when the original is missing or the target holds the student's work.
    """
    source, path = folder.inside(f"scripts/{original}"), folder.inside(f"scripts/{target}")
    if not source.is_file():
        raise failure("no-original", name=original)
    with os_errors("not-copied", name=original):
        text = folder.read(source)
        old = folder.read(path) if path.exists() else text
    if old != text and not folder.unchanged_scripts({target: old}):
        raise failure("copy-exists", name=target)
    folder.write(path, text)
    return path


# --------------------------------------------------------------------------- answers


MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""A larger file is not an answer and is not read."""


def answer_path(folder: LabFolder, task_id: str) -> Path:
    """The path of a task's answer file."""
    return folder.inside(f"answers/{task_id}.md")


def open_answers(folder: LabFolder, task: Task) -> Path:
    """The path of a task's answer file; a missing one is made with the questions as headings.

    Raises:
        FolderError: when it cannot be written.
    """
    path = answer_path(folder, task.id)
    folder.write_new(str(path.relative_to(folder.path)), new_sheet(task).encode())
    return path


def read_answers(folder: LabFolder, task: Task) -> Answers:
    """A task's answers; none if the file is missing.

    Raises:
        FolderError: when the file exists but cannot be read.
    """
    return read_sheet(task, sheet_text(folder, answer_path(folder, task.id)))


def sheet_text(folder: LabFolder, path: Path) -> str:
    """The text of an answer file; "" if it is missing.

    Raises:
        FolderError: when it cannot be read or is too large to be an answer.
    """
    if not path.is_file():
        return ""
    with os_errors("closed-answer", path=path):
        if path.stat().st_size > MAX_ANSWER_BYTES:
            raise failure("large-answer", path=path)
        return folder.read(path).decode("utf-8-sig", "replace")


class AnswerFiles:
    """Loads and saves answers; remembers each file's text to notice changes made in other programs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder: LabFolder = session.folder
        self._known: dict[str, str] = {}
        self._beside: dict[str, str] = {}  # where the text of a conflict is until the file is loaded again

    def path(self, task_id: str) -> Path:
        """The Markdown file of a task, for another editor; a missing one is made with the task's questions."""
        task = self._answerable_task(task_id)
        return answer_path(self._folder, task_id) if task is None else open_answers(self._folder, task)

    def _answerable_task(self, task_id: str) -> Task | None:
        """The task, if it has questions and the folder may be written; else None."""
        task = self._session.edition.task(task_id)
        return task if task is not None and task.questions and not self._session.read_only else None

    def load(self, task_id: str) -> str:
        """The text of a task's file; "" if it cannot be read."""
        self._beside.pop(task_id, None)
        self._known[task_id] = self._text(task_id) or ""
        return self._known[task_id]

    def changed_outside(self, task_id: str) -> bool:
        """Whether the file changed since it was loaded or saved here."""
        return self._text(task_id) not in (None, self._known.get(task_id))

    def _text(self, task_id: str) -> str | None:
        """The file's text, or a new sheet if it is missing (it is first written with an answer); None on errors."""
        try:
            path, task = answer_path(self._folder, task_id), self._answerable_task(task_id)
            if task is not None and not path.exists():
                return new_sheet(task)
            return sheet_text(self._folder, path)
        except LabError:
            return None

    def save(self, task_id: str, text: str) -> str:
        """Save the text, or save it beside a file that was changed elsewhere; return a sentence on any problem."""
        try:
            path = answer_path(self._folder, task_id)
            if path.exists() and sheet_text(self._folder, path) != self._known.get(task_id, ""):
                names = (f"answers/{task_id}.yours{at}.md" for at in chain([""], count(2)))
                mine = self._beside.setdefault(task_id, next(n for n in names if not self._folder.has(n)))
                self._folder.write(mine, text.encode())
                return f"answers/{task_id}.md was changed by someone else. Your text is in {mine}; merge the two."
            self._folder.write(path, text.encode())
        except LabError as error:
            return error.sentence
        self._known[task_id] = text
        return ""
