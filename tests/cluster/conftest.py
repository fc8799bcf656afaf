"""Connections to the real cluster, closed after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labtui.cluster.connection import Connection
from tests.cluster.prompting import connection
from tests.real_cluster import Student

Connect = Callable[..., Connection]


@pytest.fixture
def connect(student: Student, tmp_path: Path) -> Iterator[Connect]:
    """A function that makes connections (not connected) to the student's login node; arguments override its values."""
    made: list[Connection] = []

    def make(**values: Any) -> Connection:
        plain = {"port": student.port, "user": student.user, "key": student.key, "host_key": student.host_key}
        made.append(connection(tmp_path, **(plain | values)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def line(connect: Connect) -> Connection:
    """An open connection."""
    made = connect()
    made.connect()
    return made
