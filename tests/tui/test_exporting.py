"""The export key's child process: its end, its failures."""

import json
from pathlib import Path
from typing import Any

import pytest

from labtui.domain.errors import ExportError
from labtui.tui import messages

CHILD = """
import os, stat, sys, time
assert os.getpgrp() == os.getpid(), "ctrl+c before the editor would end it"
assert sys.argv[1:] == ["export", "--json"], sys.argv
assert not any(stat.S_ISFIFO(os.fstat(each).st_mode) for each in (1, 2)), "it would end with labtui"
{body}
"""
NAMES = ["results.csv", "analysis.ipynb", *(f"{n:02}-chart.pdf" for n in range(9)), "report.pdf", "deck.pptx"]


def exported(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch, told: Any = print) -> list[str]:
    """What an export says whose child is a small program, and its remarks."""
    package = folder / "labtui"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(CHILD.format(body=body))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    remarks: list[str] = []
    return [messages.export_all(folder, told, remarks.extend).result(240), *remarks]


@pytest.mark.parametrize(("answer", "said"), [
    (r'{"files": ["/lab/x/plots/a.png", "/lab/x/plots/a.svg", "/lab/x/deck.pptx"],'
     r' "notes": ["\\u001b[31mno answers"]}',
     ["deck.pptx, 2 more. 1 remark: press !", "no answers"]),
    (json.dumps({"files": NAMES, "notes": []}), ["report.pdf, deck.pptx, 11 more."]),
])  # fmt: skip
def test_what_is_being_written_was_written_where_and_remarked_is_said(monkeypatch, tmp_path, answer, said):
    lines = ("Writing ...", "1 of 2: deck.pptx", "note: nothing", "2 of 2: \x1b[31mresults.csv")
    files, body = list[str](), f"print({chr(10).join(lines)!r}, file=sys.stderr)\nprint('{answer}')"
    for here, where in {tmp_path: "here", tmp_path.parent: f"to {tmp_path}"}.items():
        monkeypatch.chdir(here)
        told = exported(tmp_path, body, monkeypatch, files.append)
        assert told == [f"Written {where}: {said[0]}", *said[1:]]
    assert files == 2 * ["1 of 2: deck.pptx", "2 of 2: results.csv"]


@pytest.mark.parametrize(("body", "sentence"), [
    ("sys.exit('labtui: Nothing is there.')", "Nothing is there."),
    ("sys.stderr.write('labtui: It is gone.\\n  hint: Run it.\\n'); sys.exit(2)", "It is gone."),
    *((body, "The export did not finish.") for body in ("raise SystemError('bug')", "time.sleep(600)")),
])  # fmt: skip
def test_an_export_that_fails_is_a_sentence_and_a_hint(monkeypatch, tmp_path, body, sentence):
    monkeypatch.setattr(messages, "TIMEOUT_S", 0.0 if "sleep" in body else messages.TIMEOUT_S)
    with pytest.raises(ExportError) as caught:
        exported(tmp_path, body, monkeypatch)
    assert caught.value.sentence == sentence
    hint = "Run `labtui export` in the lab folder for details."
    assert caught.value.hint == ("Run it." if "Run it" in body else hint)
