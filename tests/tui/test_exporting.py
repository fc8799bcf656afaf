"""The export key's child process: its steps, its end, its failures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from labtui.domain.errors import ExportError
from labtui.tui import messages

CHILD = """
import pathlib, sys, time
assert sys.argv[1:] == ["export", "--json", "--progress"], sys.argv
{body}
"""


def exported(
    folder: Path, body: str, monkeypatch: pytest.MonkeyPatch, step: Callable[[str], None] = print
) -> str:
    """What an export says whose child is a small program."""
    package = folder / "labtui"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(CHILD.format(body=body))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(messages, "LOOK_EVERY_S", 0.01)
    return messages.export_all(folder, step).result(240)


def test_a_message_with_many_remarks_says_where_the_others_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = """print('{"files": ["/lab/x/deck.pptx"], "notes": ["one", "two", "three", "four"]}')"""
    output = exported(tmp_path, body, monkeypatch)
    assert output.splitlines()[1:] == ["one", "two", "2 more remarks: run `labtui export` to read them."]


def test_the_export_runs_beside_the_screens_and_tells_its_steps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = r"""
for number, share in ((3, 10), (4, 50)):
    print(f" {share}% file {number} of 6: chart \x1b[31mspeedup", file=sys.stderr, flush=True)
    while not pathlib.Path(f"told-{number}").exists():
        time.sleep(0.01)
print("note: no answers", file=sys.stderr)
print('{"files": ["/lab/x/plots/a.png", "/lab/x/plots/a.svg", "/lab/x/deck.pptx"], "notes": ["\\u001b[31mno answers"]}')
"""
    steps: list[str] = []

    def step(text: str) -> None:  # the child waits until what it said is on the screen
        steps.append(text)
        if found := re.search(r"file (\d)", text):
            (tmp_path / f"told-{found[1]}").touch()

    output = exported(tmp_path, body, monkeypatch, step)
    assert output == "Written in /lab/x: deck.pptx; 2 files in plots/.\nno answers"
    assert steps == [
        "starting",
        "file 3 of 6: chart speedup",
        "file 4 of 6: chart speedup",
    ]


def test_of_many_files_the_hand_in_is_named_and_the_rest_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [
        "results.csv",
        "analysis.ipynb",
        *(f"{number:02}-chart.pdf" for number in range(9)),
        "report.pdf",
        "deck.pptx",
    ]
    paths = ", ".join(f'"/lab/x/{name}"' for name in names)
    output = exported(tmp_path, f'print(\'{{"files": [{paths}], "notes": []}}\')', monkeypatch)
    assert output == "Written in /lab/x: report.pdf, deck.pptx, results.csv, analysis.ipynb and 9 more."


def test_an_export_that_fails_is_a_sentence_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bodies = {
        "sys.exit('labtui: Nothing is there.')": "The export failed.",
        "sys.stderr.write('labtui: Nothing is there.\\n  hint: Run it.\\n'); sys.exit(2)": "Nothing is there.",
        "raise SystemError('bug')": "The export failed.",
    }
    for body, sentence in bodies.items():
        with pytest.raises(ExportError) as caught:
            exported(tmp_path, body, monkeypatch)
        assert caught.value.sentence == sentence
        assert caught.value.hint == (
            "Run it." if "Run it" in body else "Run `labtui export` in the lab folder for details."
        )
    monkeypatch.setattr(messages, "TIMEOUT_S", 0.0)
    with pytest.raises(ExportError, match="did not finish"):
        exported(tmp_path, "time.sleep(600)", monkeypatch)
