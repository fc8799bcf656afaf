"""What `labtui doctor` says about faults that tests/doctor/test_doctor.py does not make, on the real cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.doctor.test_doctor import arguments, doctor_checks
from tests.real_cluster import Cluster, Student

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("reliability")]

Ask = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def ask(student: Student, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asking(*more: str) -> tuple[int, dict[str, dict[str, str]]]:
        return doctor_checks(capsys, arguments(student, *more))

    return asking


def problem(checks: dict[str, dict[str, str]], key: str) -> dict[str, str]:
    check = checks[key]
    assert check["status"] in ("problem", "warning"), check
    assert check["sentence"] and check["fix"], check
    return check


def test_a_start_up_file_that_breaks_sftp(ask: Ask, cluster: Cluster) -> None:
    cluster.set_bashrc("echo welcome to the cluster\n")
    _, checks = ask()
    assert ".bashrc" in problem(checks, "sftp")["fix"]


def test_clocks_that_differ(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 400)
    _, checks = ask()
    problem(checks, "clock")


def test_a_controller_that_is_down(ask: Ask, cluster: Cluster) -> None:
    cluster.daemon("slurmctld", "stop")
    status, checks = ask()
    assert status == 1
    problem(checks, "squeue")
