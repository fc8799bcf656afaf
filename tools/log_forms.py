"""Write docs/log-forms.md from the table of forms, log_forms.toml, with what labtui reads from each example.

python tools/log_forms.py
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from labtui.commands.parse import ParsedFile, file_text
from labtui.training_logs.patterns import own_pattern
from labtui.training_logs.reader import parse_log

HERE = Path(__file__).parent
TABLE = HERE / "log_forms.toml"
PAGE = HERE.parent / "docs" / "log-forms.md"


def forms() -> list[dict[str, Any]]:
    """The rows of the table."""
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["form"]
    return rows


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _section(form: dict[str, Any]) -> str:
    own = [own_pattern(form["pattern"])] if "pattern" in form else []
    report = parse_log(form["log"].encode(), patterns=own)
    read = file_text(ParsedFile("log", report)).split("\n", 1)[1].lstrip("\n")
    note = form.get("note", form["generation"][0].upper() + form["generation"][1:] + ".").strip()
    command = f"```sh\nlabtui parse LOG --pattern '{form['pattern']}'\n```\n\n" if own else ""
    title = form["title"]
    body = f"```log\n{form['log']}```\n\n```read\n{read}\n```\n"
    return f"### {title}\n\n{note}\n\n{command if own and '```sh' not in note else ''}{body}"


def page() -> str:
    """The text of the page."""
    data = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    rows = [
        f"| [{form['title']}](#{_anchor(form['title'])}) | {form['generation']} | `{line}` |"
        for form in data["form"]
        for line in (form["line"].replace("|", "\\|"),)
    ]
    head = "| form | generation | its line |\n|---|---|---|\n" + "\n".join(rows)
    sections = "\n".join(_section(form) for form in data["form"])
    return f"{data['intro'].strip()}\n\n{head}\n\n{data['middle'].strip()}\n\n## The forms\n\n{sections}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
