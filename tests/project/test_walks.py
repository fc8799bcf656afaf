"""Two walks through the house, taken by a program that runs: which files hold a call where a value changes its form.

A stop is such a place. When a stop is called, each of labtui's files with a frame on the stack is one that a reader
passes on the way there. Files that only lend a hand and return (a clock, a name, a limit) are not on the way. The lists
in `docs/architecture.md` are compared with what is found here, so neither can be longer or shorter than the other.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from textual.pilot import Pilot

from labtui.commands.cli import main
from labtui.practice.cluster import PracticeCluster
from labtui.session.folder import LabFolder
from labtui.session.session import Session
from labtui.session.settings import Settings
from labtui.tui.app import LabApp
from labtui.tui.screens.plan import PlanScreen
from labtui.tui.screens.prompts import Confirm
from tests.results.helpers import PUBLISHED
from tests.tui.waiting import text_of

pytestmark = [
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash"),
    pytest.mark.timeout(900),
]
ROOT = Path(__file__).parents[2]
PACKAGE = f"{ROOT / 'src' / 'labtui'}{os.sep}"
FACTOR = 100
DEADLINE_S = 360.0
BOUNDS = {"byte": 20, "key": 18}
"""The aims: a walk may only get shorter."""

BYTE = (
    ("session/log_follower.py", "LogFollower.step"),  # this log is due
    ("session/mirrors.py", "_Mirror._append"),  # its next bytes are here
    ("training_logs/lines.py", "LineCutter._cut"),  # bytes are a line
    ("training_logs/keras.py", "read_summary"),  # the line tells of an epoch
    ("domain/model.py", "Interval.between"),  # whose time is an interval
    ("training_logs/run_tracker.py", "RunTracker.here"),  # it belongs to a run
    ("training_logs/run_tracker.py", "OpenRun.view"),  # the run is a value
    ("session/run_matcher.py", "SubmissionReader._news"),  # the run was planned: an event
    ("session/store.py", "encode_event"),  # the event is stored
    ("session/store.py", "Store.append"),
    ("domain/reduce.py", "reduce_all"),  # and changes the state
    ("tui/session_app.py", "SessionApp._arrived"),  # the screens hear of it
    ("tui/view_model.py", "ViewModel.view_state"),
    ("domain/model.py", "Interval.mean"),  # epochs are a steady time
    ("results/compute.py", "configuration_of"),  # runs are rows
    ("results/charts.py", "_points"),  # rows are a chart as data
    ("results/charts.py", "Point.__post_init__"),
    ("tui/widgets/charts_pane.py", "ChartsPane._apply"),  # the pane gives it to its widget
    ("tui/widgets/plot_text.py", "row_scale"),  # which draws it
    ("tui/widgets/plot_text.py", "_Drawing._bar"),
)
KEY = (
    ("tui/session_app.py", "SessionApp.follow"),  # the key asks for a submission
    ("session/planning.py", "plan"),  # the draft is planned
    ("session/folder.py", "LabFolder.script_files"),  # files of the folder travel with it
    ("slurm/job_script.py", "job_script"),  # it has a job script
    ("cluster/atomic_file.py", "write_atomic"),  # that is kept in the folder
    ("session/store.py", "encode_event"),  # the intent is stored
    ("session/store.py", "Store.append"),
    ("domain/reduce.py", "reduce_all"),
    ("domain/reduce.py", "sendable"),  # its queue may take it
    ("cluster/slurm_cluster.py", "SlurmCluster.push"),  # its files go up
    ("cluster/files.py", "RemoteFiles.write_atomic"),
    ("slurm/submit.py", "submit_command"),  # sbatch runs once
    ("slurm/remote_command.py", "frame"),  # framed
    ("cluster/connection.py", "execute"),
    ("slurm/submit.py", "parse_submit"),  # its answer is read
    ("session/journal.py", "Journal.commit"),  # and is an event again
    ("tui/session_app.py", "SessionApp._arrived"),  # the screens hear of it
    ("tui/view_model.py", "ViewModel.view_state"),
)
EXPORT = (
    ("results/compute.py", "_measure"),  # epochs are a row
    ("results/compute.py", "_with_speedup"),  # compared with its baseline
    ("results/charts.py", "_points"),  # rows are a chart as data
    ("export/mpl_series.py", "_groups"),  # drawn
    ("export/chart_geometry.py", "value_text"),  # with its value
    ("export/figures.py", "_saved"),
    ("cluster/atomic_file.py", "write_atomic"),  # and written
)
MOST_RETURNS = 0
"""The aim is at most 3."""
BEGINS = {
    "export": (("commands/results.py", "run_plot"),),
    "byte": (
        ("session/log_follower.py", "LogFollower.step"),
        ("session/journal.py", "Journal._tell"),
        ("tui/session_app.py", "SessionApp.repaint"),
        ("tui/widgets/chart.py", "ChartView.render"),
        ("tui/view_model.py", "ViewModel._results_now"),  # whoever looks first
        ("tui/view_model.py", "ViewModel._charts_now"),
    ),
    "key": (
        ("tui/screens/plan.py", "PlanScreen._sent"),
        ("session/cluster_worker.py", "ClusterWorker._send"),
        ("session/submitter.py", "Submitter._ask.<locals>.done"),
        ("session/cluster_worker.py", "ClusterWorker._run_in_background.<locals>.ask"),
        ("session/journal.py", "Journal._tell"),
        ("tui/session_app.py", "SessionApp.repaint"),
    ),
}
"""Where the parts of a walk begin, one for each thread or turn of the screens; what is below them is a loop."""


class Walk:
    """Notes the files on the stack at each stop that is called; of several ways to a stop the shortest."""

    def __init__(self, stops: tuple[tuple[str, str], ...], begins: tuple[tuple[str, str], ...]) -> None:
        self.stops, self.begins = frozenset(stops), frozenset(begins)
        self.ways: dict[tuple[str, str], dict[str, None]] = {}
        self._returns_to: dict[tuple[str, str], int] = {}

    def stand_at(self, stop: tuple[str, str], frame: FrameType) -> None:
        """A stop is called: note the files on the stack if this is the shortest way to it."""
        passed, begun = [], False
        below: FrameType | None = frame
        while below is not None and not begun:
            if below.f_code.co_filename.startswith(PACKAGE):
                place = _place(below)
                passed.append(place[0])
                begun = place in self.begins
            below = below.f_back
        way = dict.fromkeys(reversed(passed))
        if begun and (stop not in self.ways or len(way) < len(self.ways[stop])):
            self._returns_to[stop] = len(list(groupby(passed))) - len(way)
            self.ways[stop] = way

    @property
    def missing(self) -> frozenset[tuple[str, str]]:
        return self.stops - self.ways.keys()

    @property
    def returns(self) -> int:
        """How often the walk comes back into a file that it had left for another."""
        return sum(self._returns_to.values())

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(chain.from_iterable(self.ways.values())))


def _place(frame: FrameType) -> tuple[str, str]:
    return frame.f_code.co_filename.removeprefix(PACKAGE).replace(os.sep, "/"), frame.f_code.co_qualname


class Watched:
    """Sees each call of a Python function, in every thread that starts while it is on, for the walks it is given."""

    def __init__(self) -> None:
        self.walks: tuple[Walk, ...] = ()
        self._stops = {*BYTE, *KEY, *EXPORT}
        self._stop_of: dict[CodeType, tuple[str, str] | None] = {}

    def __call__(self, frame: FrameType, _: str, __: object) -> None:
        """A trace function that returns None: the interpreter calls it for calls, not for lines and returns."""
        code = frame.f_code
        try:
            stop = self._stop_of[code]
        except KeyError:
            place = _place(frame) if code.co_filename.startswith(PACKAGE) else None
            stop = self._stop_of[code] = place if place in self._stops else None
        if stop is not None:
            for walk in self.walks:
                if stop in walk.stops and walk.missing:
                    walk.stand_at(stop, frame)


@contextmanager
def watched() -> Iterator[Watched]:
    watcher, before = Watched(), sys.gettrace()
    threading.settrace(watcher)
    sys.settrace(watcher)
    try:
        yield watcher
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]


async def come_to(pilot: Pilot[Any], condition: Callable[[], Any], what: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        await pilot.pause(0.05)
        if condition():
            return
    raise AssertionError(f"it never came to: {what()}\n{text_of(pilot.app)}")


def in_the_page(title: str) -> tuple[int, set[str]]:
    """The number and the files of a walk as the page gives them."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = re.search(rf"\*\*{title}[^(]*\((\d+) files\)\.\n\n((?:\|.*\n)+)", text)
    assert found is not None, title
    files, room = set(), ""
    for name in re.findall(r"`([\w/]+\.py)`", found[2]):
        room = name.rpartition("/")[0] or room
        files.add(name if "/" in name else f"{room}/{name}")
    return int(found[1]), files


async def test_the_two_walks_are_as_the_page_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with watched() as watcher, PracticeCluster.start(factor=FACTOR) as cluster:
        lab = LabFolder.create(tmp_path / "lab", Settings(edition="hpc4ai-ch10", **cluster.login.settings))
        session = Session.open(lab.path, start=False)
        app = LabApp(session, factor=FACTOR)
        async with app.run_test(size=(120, 40)) as pilot:
            await come_to(pilot, lambda: "● online" in text_of(app), lambda: "a connection")
            await pilot.press("down", "down", "down", "down", "s")
            await come_to(pilot, lambda: isinstance(app.screen, PlanScreen), lambda: "the plan")
            plan = app.screen
            assert isinstance(plan, PlanScreen)
            await come_to(pilot, lambda: len(plan.previews) == len(plan.drafts), lambda: "its cost")
            await pilot.press("s")
            await come_to(pilot, lambda: isinstance(app.screen, Confirm), lambda: "the last question")
            key, byte = watcher.walks = (Walk(KEY, BEGINS["key"]), Walk(BYTE, BEGINS["byte"]))
            await pilot.press("y", "c")
            await come_to(pilot, lambda: not key.missing | byte.missing, lambda: key.missing | byte.missing)
            await come_to(
                pilot,
                lambda: all(run.outcome for run in session.state.runs.values()),
                lambda: "the job's end",
            )
        session.close()
    for name, walk, title in (("byte", byte, "One byte"), ("key", key, "The key")):
        record_property(name, len(walk.files))
        number, files = in_the_page(title)
        assert set(walk.files) == files, sorted(files.symmetric_difference(walk.files))
        assert number == len(files) <= BOUNDS[name]


def test_an_exported_number_does_not_turn_back(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """From the lines of a log to the bars and values of a plot."""
    log = str(PUBLISHED / "ResNet50.31337.out")
    walk = Walk(EXPORT, BEGINS["export"])
    with watched() as watcher:
        watcher.walks = (walk,)
        arguments = ["--out", str(tmp_path), "--format", "svg", "--chart", "speedup-ResNet50"]
        assert main(["plot", log, *arguments]) == 0
    assert not walk.missing
    record_property("returns", walk.returns)
    assert walk.returns <= MOST_RETURNS
