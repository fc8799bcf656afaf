"""``python -m tests.reliability.show_hostile FOLDER``: the real screens on a folder full of hostile text.

Every text that comes from outside (names, reasons, sentences of servers, log lines, metrics, the edition, the
profile, file names, answers) carries `EVIL`. Used by `test_screens`, under a pseudo-terminal.
"""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
from msgspec.structs import replace

from labtui.domain.state import Change, LabState
from labtui.session.folder import LabFolder
from labtui.session.labs import LABS
from labtui.session.settings import Settings
from labtui.tui.app import LabApp
from tests import changes
from tests.changes import after
from tests.reliability.hostile import EVIL
from tests.tui import fed_session

FREE = {
    "job_name", "account", "qos", "sentence", "hint", "reason", "node", "exit_code", "host", "framework",
    "text", "advice", "slurm_state", "title", "detail", "partition",
}  # fmt: skip


def poisoned(value: Any, key: str = "") -> Any:
    """The same value with `EVIL` in every free text."""
    if isinstance(value, dict):
        return {
            (f"{name}{EVIL}" if key == "metrics" else name): poisoned(one, name)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [poisoned(one, key) for one in value]
    return f"{value}{EVIL}" if isinstance(value, str) and key in FREE else value


def evil(value: Any) -> Any:
    """A value of the state as a hostile cluster would make it."""
    return msgspec.convert(poisoned(msgspec.to_builtins(value)), type(value), strict=False)


class EvilSession(fed_session.FedSession):
    clean = LabState()

    def feed(self, *news: Change) -> None:
        self.clean = after(*news, state=self.clean)
        super().feed(self._poisoned)

    def _poisoned(self, _: LabState) -> LabState:
        clean = self.clean
        return replace(
            clean, submissions={token: evil(item) for token, item in clean.submissions.items()},
            runs={number: evil(run) for number, run in clean.runs.items()},
            connection=evil(clean.connection), problems=tuple(map(evil, clean.problems)),
        )  # fmt: skip


def evil_edition(text: str) -> str:
    """An edition file whose every sentence carries `EVIL`."""
    document = tomlkit.parse(text)

    def walk(node: Any) -> None:
        for key, value in list(node.items()) if isinstance(node, dict) else list(enumerate(node)):
            if isinstance(value, dict | list):
                walk(value)
            elif isinstance(value, str) and key in SENTENCES:
                node[key] = f"{value} {EVIL}"

    walk(document)
    return tomlkit.dumps(document)


SENTENCES = {
    "title", "summary", "text", "do", "question", "what", "why", "note", "sentence", "hint", "term", "goal",
}  # fmt: skip


def evil_folder(path: Path) -> LabFolder:
    """Make a lab folder in which every name contains `EVIL`."""
    path.mkdir(parents=True, exist_ok=True)
    profile = fed_session.PROFILE.replace(
        "A cluster for tests", "A cluster " + "".join(f"\\u{ord(c):04x}" for c in EVIL)
    )
    (path / "tests.toml").write_text(profile, encoding="utf-8")
    original = (LABS / "hpc4ai-ch10.toml").read_text(encoding="utf-8")
    (path / "evil.toml").write_text(evil_edition(original), encoding="utf-8")
    printable = "".join(char for char in EVIL if char.isprintable())  # settings take no other
    settings = Settings(
        edition="evil.toml", profile="tests.toml", user=f"nct{printable}", account=f"nct_345{printable}",
        host=f"host{printable}",
    )  # fmt: skip
    folder = LabFolder.create(path, settings)
    name = f"ResNet50{EVIL.replace('/', '_')}"[:150].encode() + b"\xff.py"
    with open(os.path.join(os.fsencode(folder.path / "scripts"), name), "wb") as file:  # noqa: PTH118, PTH123
        file.write(b"print('" + EVIL.encode() + b"')\n")
    script = folder.path / "scripts" / "ResNet50.py"
    script.write_text(script.read_text(encoding="utf-8") + f"\n# {EVIL}\n", encoding="utf-8")
    (folder.path / "answers").mkdir(exist_ok=True)
    (folder.path / "answers" / "10.5.md").write_text(f"## 1\n{EVIL}\n", encoding="utf-8")
    return folder


def fill(session: EvilSession) -> None:
    fed_session.lab_session(session)
    for token in list(session.state.submissions)[:4]:
        text = fed_session.log_text(fed_session.spec(gpus=4), 3)
        lines = "".join(f"{line} {EVIL}\n" for line in text.splitlines())
        fed_session.write_log(session, token, lines + f"ModuleNotFoundError: No module named '{EVIL}'\n")
        fed_session.write_log(session, token, f"slurmstepd: error: {EVIL}\n", "err")
    session.feed(changes.problem("queue", f"squeue: {EVIL}", EVIL))


def main() -> None:
    folder = evil_folder(Path(sys.argv[1]))
    session: Any = EvilSession.open(folder.path, start=False, clock=fed_session.FrozenClock())
    session.requests = []
    fill(session)
    try:
        LabApp(session).run()
    finally:
        session.close()


if __name__ == "__main__":
    main()
