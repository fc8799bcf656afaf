"""What `labtui parse` takes for a log, and what it refuses with a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labtui.commands import parse
from labtui.commands.cli import main
from labtui.domain.errors import DataError


def test_a_device_without_end_is_refused() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no such device here")
    with pytest.raises(DataError, match="not a regular file"):
        parse.read_log("/dev/zero", "out")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="not a regular file") as caught:
        parse.read_log(str(pipe), "out")
    assert "standard input" in caught.value.hint


def test_what_is_no_text_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "holes.out"
    with path.open("wb") as file:
        file.truncate(50 << 20)  # a hole: 50 MiB of zeros
    assert parse.read_log(str(path), "out").size < 10 << 20


def test_a_log_named_twice_is_read_once_and_told_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_text("Epoch 1/1\n13/13 - 31s - loss: 2.0\n")
    first, second = parse.parse_files([str(path), str(path)])
    assert first is second


def test_numbers_that_json_does_not_know_are_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.out"
    path.write_text(
        "Epoch 1/2\n10/10 - 1s - loss: nan - accuracy: inf - val_loss: 0.5 - 1s/epoch - 100ms/step\n"
    )
    assert main(["parse", "--json", str(path)]) == 0

    def refuse(word: str) -> float:
        raise AssertionError(word)

    answer = json.loads(capsys.readouterr().out, parse_constant=refuse)
    (epoch,) = answer["files"][0]["runs"][0]["epochs"]
    assert epoch["metrics"] == {"loss": None, "accuracy": None, "val_loss": 0.5}
    assert epoch["not_finite"] == {"loss": "nan", "accuracy": "inf"}
