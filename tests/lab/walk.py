"""Helpers that do a lab by program: submit a task's plan, wait for it, write answers, export, check the boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from labtui.lab.checks import TaskCheck
from labtui.lab.edition import DECKS, ChartsCheck, HandInCheck, RunsCheck, Task
from labtui.lab.plan import PlanOverrides, task_of
from labtui.results.charts import slug
from labtui.session.folder import LabFolder
from labtui.session.labs import check_folder, load_edition, open_answers, start_copy
from labtui.session.session import Session
from labtui.session.settings import Settings
from tests.real_cluster.cluster import wait_until

if TYPE_CHECKING:
    from labtui.practice.cluster import PracticeCluster
    from tests.real_cluster import Student

PATIENT_MINUTES = {"": 120, "acc_training": 1200}
"""By QoS, the time limit of jobs that are to finish; starting one can take minutes on a slow machine."""
NETWORKS = {"ResNet101.py": "ResNet101V2", "ResNet152.py": "ResNet152V2", "ResNet152_seq.py": "ResNet152V2"}


def boxes(session: Session) -> dict[str, TaskCheck]:
    """The boxes of all tasks, by task id."""
    found = check_folder(session.folder, session.edition, session.state)
    return {box.task_id: box for box in found}


def make_copies(session: Session, task: Task) -> None:
    """Make the copies that a task asks for, with the student's change in them."""
    for original, target in task.copies_to_start:
        path = start_copy(session.folder, original, target)
        text = path.read_text(encoding="utf-8")
        changed = text.replace("resnet_v2.ResNet50V2", f"resnet_v2.{NETWORKS.get(target)}")
        changed = changed.replace('{"lr": args', '{"fused": True, "lr": args')
        assert changed != text
        path.write_text(changed, encoding="utf-8")


def answer(session: Session, task: Task) -> None:
    """Answer every question of a task."""
    path = open_answers(session.folder, task)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<!-- your answer -->", "What we found."), encoding="utf-8")


def submit(session: Session, task_id: str, overrides: PlanOverrides | None = None) -> list[str]:
    """Submit a task's plan, which must have no errors in preflight, and return the tokens of its submissions."""
    before = set(session.state.submissions)
    wanted = overrides or PlanOverrides()
    task = task_of(session.edition, task_id)
    if not any("time-limit" in check.outcomes for check in task.checks if isinstance(check, RunsCheck)):
        wanted = replace(wanted, time_limit_minutes=PATIENT_MINUTES[wanted.qos])
    drafts = session.drafts(task_id, wanted)
    for draft in drafts:
        errors = [f for f in session.preview(draft).findings if f.severity == "error"]
        assert not errors, errors
        session.submit(draft)
    wait_until(lambda: len(session.state.submissions) > len(before) or not drafts, what="a submission")
    return [token for token in session.state.submissions if token not in before]


def finish(session: Session) -> None:
    """Wait until every run is over and its log has been read to the end."""

    def read() -> bool:
        logs = [sent.logs.get("out") for sent in session.state.submissions.values()]
        ended = [run.outcome for run in session.state.runs.values()]
        return all(ended) and all(log is not None and log.complete for log in logs)

    wait_until(read, what="the runs to end", deadline_s=900)


def export(session: Session, tasks: Iterable[Task], *, whole: bool = False) -> tuple[Path, ...]:
    """Export and return the files; unless `whole`, only tables, charts as SVG, and slides if a task asks for them."""
    from labtui.export import REPORTS, _plots, drawings, export_lab, write_files
    from labtui.export.contents import read_contents

    folder, state = session.folder.path, session.state
    asked = any(isinstance(check, HandInCheck) for task in tasks for check in task.checks)
    decks, reports = (DECKS, REPORTS) if whole else (("pptx",) if asked else (), ())
    files = export_lab(folder, formats=decks, reports=reports, plots=whole, state=state).files
    if not whole:
        charts = _plots(read_contents(session.folder, state=state))
        files += write_files(drawings(charts, ("svg",), into="plots/"), folder, folder)
    names = {path.relative_to(folder).as_posix() for path in files}
    assert all(path.stat().st_size for path in files), names
    for task in tasks:
        for check in task.checks:
            if isinstance(check, ChartsCheck):
                models = [slug(session.edition.names.get(model, model)) for model in check.models]
                for wanted in (f"plots/{chart}-{model}" for chart in check.charts for model in models):
                    drawn = [name for name in names if name.startswith(wanted) and name.endswith(".svg")]
                    assert drawn, (task.id, wanted)
            elif isinstance(check, HandInCheck):
                assert names & set(check.files), (task.id, sorted(names))
    return files


def folder_of(path: Path, edition: str, **settings: object) -> LabFolder:
    """A new lab folder without the scripts that the student is to make."""
    return LabFolder.create(path, Settings(edition=edition, **settings), wanted=load_edition(edition).needs)


@contextmanager
def practised(cluster: PracticeCluster, path: Path, edition: str) -> Iterator[Session]:
    """A session of a new lab folder on a practice cluster."""
    settings = cluster.settings(load_edition(edition).framework_scripts)
    with Session.open(folder_of(path, edition, **settings).path) as session:
        yield session


@contextmanager
def real(student: Student, path: Path, edition: str) -> Iterator[Session]:
    """A session of a new lab folder on a real cluster."""
    at = {name: getattr(student, name) for name in ("host", "port", "user", "host_key", "account")}
    at |= {"identity": str(student.key), "root": f"{student.scratch}/{path.parent.name}", "profile": "mn5"}
    with Session.open(folder_of(path, edition, **at).path) as session:
        yield session
