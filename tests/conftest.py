"""The real cluster as a fixture for all rooms. Its tests stay together by folder and are counted when skipped."""

from __future__ import annotations

import importlib.util
import platform
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster, ClusterSettings, Student, missing_requirements

NO_CLUSTER = "no test cluster here: "
NO_TENSORFLOW = "no TensorFlow here: "


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With ``-n``, keep the tests of one cluster on one worker unless another ``--dist`` was asked for."""
    option = config.option
    if getattr(option, "numprocesses", None) and getattr(option, "dist", "") == "no":
        option.dist = "loadgroup"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cluster tests of one folder stay on one worker, which has a cluster of its own.

    They wait for Slurm more than they compute, so the folders run beside each other.
    """
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(f"cluster-{item.path.parent.name}"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a cluster or TensorFlow where there is none, saying what is missing."""
    if item.get_closest_marker("cluster") and (reasons := missing_requirements()):
        pytest.skip(NO_CLUSTER + "; ".join(reasons))
    if item.get_closest_marker("tensorflow") and importlib.util.find_spec("tensorflow") is None:
        pytest.skip(f"{NO_TENSORFLOW}it is not installed for Python {platform.python_version()}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud how many tests did not meet a real Slurm or a real TensorFlow, and why."""
    counted: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for kind, missing in (("cluster", NO_CLUSTER), ("training", NO_TENSORFLOW)):
            if missing in text:
                counted[f"{kind} tests were SKIPPED ({text.split(missing, 1)[1]})"] += 1
    for told, number in counted.items():
        terminalreporter.write_line(f"{number} {told}", yellow=True, bold=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running OpenSSH and Slurm of this worker's own; jobs and files of earlier tests may be there."""
    running = Cluster.start(settings=ClusterSettings())
    yield running
    running.down()


@pytest.fixture
def student(cluster: Cluster) -> Iterator[Student]:
    """The student of `cluster`, with an empty queue and all daemons up, before the test and after it."""
    cluster.repair()
    cluster.cancel_all()
    yield cluster.student
    cluster.repair()
    cluster.cancel_all()
