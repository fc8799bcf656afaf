"""Fixtures and settings of all tests: the real cluster, the order of tests on workers, the summary of skipped ones."""

import gc
import importlib.util
import io
import os
import platform
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from textual import constants as textual_constants
from textual._compositor import Compositor
from textual.css.stylesheet import Stylesheet

from tests.real_cluster import Cluster, ClusterSettings, Student, missing_requirements
from tests.real_cluster.settings import pair_settings

settings.register_profile(
    "labtui",
    deadline=None,  # no test asserts a time, whatever else the machine is doing
    max_examples=int(os.environ.get("LABTUI_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("labtui")

# Tests, and the programs they start, keep the list of trusted lab folders apart from the developer's own.
_state = tempfile.TemporaryDirectory(prefix="labtui-tests-")
os.environ["XDG_STATE_HOME"] = _state.name

# No test opens an editor that happens to be installed.
os.environ["VISUAL"] = os.environ["EDITOR"] = "true"

# Screens in this process are drawn less often and without animation: about a tenth less to compute. Textual reads both
# constants at import; programs that tests start keep its own.
textual_constants.MAX_FPS = 10
textual_constants.TEXTUAL_ANIMATIONS = "none"

_paint = Compositor.render_update


def _without_painting(compositor: Compositor, full: bool = False, **how: Any) -> Any:
    """Skip painting frames that nobody sees; it took a fifth of the processor time of screen tests."""
    if full:  # a screenshot
        return _paint(compositor, full=True, **how)
    return compositor._dirty_regions.clear()


Compositor.render_update = _without_painting

_parse_rules = Stylesheet._parse_rules
_parsed: dict[Any, Any] = {}


def _parsed_once(sheet: Stylesheet, css: str, **how: Any) -> Any:
    """Cache parsed stylesheets; otherwise each app of this process would parse the same ones again."""
    key = css, *how.values(), *sheet._variables.items()
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, **how)
    return _parsed[key]


Stylesheet._parse_rules = _parsed_once

os.fsync = lambda _: None  # tests kill processes, not machines, so the disk need not be waited for

NO_CLUSTER = "no test cluster here: "
NO_TENSORFLOW = "no TensorFlow here: "
NO_TORCH = "no PyTorch here: "
TORCH_PYTHON = Path(
    os.environ.get("LABTUI_TORCH_PYTHON") or Path(__file__).parents[1] / ".venv-torch" / "bin" / "python"
)
"""The interpreter that trains with PyTorch, from an environment of its own."""


LONGEST_FIRST = (
    *("foreign-sites", "cluster-commands", "torch", "tensorflow", "cluster-cluster", "two-nodes"),
    *("cluster-e2e", "cluster-contract", "cluster-lab", "campaign", "reliability", "sbatch-dies"),
    *("cluster-doctor", "contract-practice"),
)
"""Groups of more than about a minute. One that is missing here begins later, which only costs time."""
AT_ONCE = 3
"""The number of groups that begin first; the others are spread among the tests that compute."""
QUICK = ("domain", "lab", "preflight", "results", "slurm", "training_logs")
"""Folders of tests that take milliseconds: they run last, so that no worker begins something long at the end."""


SECOND_TRY = ("cluster", "tensorflow", "torch", "terminal")
"""In CI, a failed test with one of these marks is tried once more and named in the summary. Pure tests never are."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cluster tests of one folder on one worker, which has a cluster of its own, and order all tests.

    Cluster tests mostly wait for Slurm, so groups run beside each other and beside the tests that compute: running
    all groups at once would leave the processor idle, and all other tests at once would overload it.
    """
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(f"cluster-{item.path.parent.name}"))
        if os.environ.get("CI") and any(map(item.get_closest_marker, SECOND_TRY)):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if hasattr(config, "workerinput"):
        items[:] = _spread(items)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    groups: dict[str, list[pytest.Item]] = {}
    long, quick = [], []
    for item in items:
        if mark := item.get_closest_marker("xdist_group"):
            groups.setdefault(mark.args[0], []).append(item)
        elif item.get_closest_marker("slow") or item.path.parent.name not in QUICK:
            long.append(item)
        else:
            quick.append(item)
    long.sort(key=lambda item: item.get_closest_marker("slow") is None)
    waiting = [groups.pop(name) for name in LONGEST_FIRST if name in groups] + [*groups.values()]
    ordered = [item for group in waiting[:AT_ONCE] for item in group]
    later = waiting[AT_ONCE:]
    # All groups begin within the first half of the long tests, so that none is left at the end.
    gap = len(long) // (2 * len(later) + 1)
    for number, group in enumerate(later):
        ordered += [*long[number * gap : (number + 1) * gap], *group]
    return [*ordered, *long[len(later) * gap :], *quick]


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, and let it run less often.

    Screens make and drop hundreds of thousands of objects: with the default threshold, the collector took a third of
    the processor time of their tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a cluster, TensorFlow or PyTorch if it is missing, and say what is missing."""
    cluster_mark = item.get_closest_marker("cluster")
    if cluster_mark and (reasons := missing_requirements(**cluster_mark.kwargs)):
        pytest.skip(NO_CLUSTER + "; ".join(reasons))
    if item.get_closest_marker("tensorflow") and importlib.util.find_spec("tensorflow") is None:
        pytest.skip(f"{NO_TENSORFLOW}it is not installed for Python {platform.python_version()}")
    if item.get_closest_marker("torch") and not has_torch():
        pytest.skip(f"{NO_TORCH}{TORCH_PYTHON.parents[1].name} does not hold it (make .venv-torch/stamp)")


@cache
def has_torch() -> bool:
    """Whether `TORCH_PYTHON` has PyTorch."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    try:
        return subprocess.run([str(TORCH_PYTHON), "-c", code], check=False).returncode == 0
    except OSError:
        return False


class TextTerminal(io.StringIO):
    """A stand-in for a terminal on standard input or output."""

    def isatty(self) -> bool:
        return True


def new_seed() -> int:
    """A new seed for each run, which is printed; in CI always the same, as for Hypothesis's examples."""
    seed = 0 if os.environ.get("CI") else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return seed


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after everything else that is printed
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Name the tests that were tried twice, and count the skipped ones by what is missing."""
    yield
    for name in dict.fromkeys(report.nodeid for report in terminalreporter.stats.get("rerun", [])):
        terminalreporter.write_line(f"flaky: {name}", yellow=True, bold=True)
    counted: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        kinds = (("cluster", NO_CLUSTER), ("training", NO_TENSORFLOW), ("PyTorch training", NO_TORCH))
        for kind, missing in kinds:
            if missing in text:
                counted[f"{kind} tests were SKIPPED ({text.split(missing, 1)[1]})"] += 1
    for line, number in counted.items():
        terminalreporter.write_line(f"{number} {line}", yellow=True, bold=True)


@pytest.fixture(autouse=True)
def _no_job_is_certain_sooner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the five minutes after which a lost request has surely made no job; tests/slurm uses the real value."""
    if request.node.get_closest_marker("cluster") is not None:
        monkeypatch.setattr("labtui.slurm.submit.NO_JOB_S", 20.0)


@pytest.fixture
def painting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint frames, for a test about what is painted."""
    monkeypatch.setattr(Compositor, "render_update", _paint)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """This worker's own running OpenSSH and Slurm; jobs and files of earlier tests may still be there."""
    running = Cluster.start(settings=ClusterSettings())
    yield running
    running.down()


@pytest.fixture(scope="session")
def pair() -> Iterator[Cluster]:
    """A cluster of two nodes with two simulated GPUs each, and with their own host names and addresses.

    Tests that use it are marked ``cluster(separate_nodes=True)`` and are in the xdist group ``two-nodes``.
    """
    running = Cluster.start(settings=pair_settings(images_per_batch_file=32, noisy_login=False))
    yield running
    running.down()


@pytest.fixture
def student(cluster: Cluster) -> Student:
    """The student of `cluster`, with an empty queue and all daemons up. What a test leaves, the next one clears."""
    cluster.repair()
    cluster.cancel_all()
    return cluster.student


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command with this exit code, and gives what was printed since the last one."""

    from labtui.commands.cli import main

    def printed(arguments: list[str], code: int = 0) -> Any:
        assert main(arguments) == code
        return capsys.readouterr()

    return printed
