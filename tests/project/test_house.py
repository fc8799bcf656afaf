"""The house in figures: rooms, circles, splinters. Prints them and fails where a bound breaks.

A module is a file under ``src/labtui``; an importer is another file that imports it, late imports included. The
stand-ins for other people's packages (``practice/rehearsal``) are not ours to arrange and are left out.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

from labtui.commands.cli import _MODULES, COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "labtui"
ROOMS = {
    *("commands", "tui", "export", "session", "practice", "doctor", "cluster"),
    *("lab", "preflight", "results", "training_logs", "slurm", "domain"),
}
BOUNDS = {"files": 190, "modules with one importer": 29}
"""The aims: at most 190 files, and under 30 modules with one importer."""
PROGRAMS = {
    *("__main__", "practice.programs", "practice.rehearse", "practice.srun"),
    *(f"commands.{_MODULES.get(name, name)}" for name in COMMANDS),
}
"""Started by name or by path, commands among them, whoever else imports them."""


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if not name.startswith("practice.rehearsal"):
            found[name] = path
    return found


def _targets(node: ast.AST) -> list[str]:
    """Names of labtui's own that an import statement asks for, the package's name left out."""
    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "labtui":
        inside = node.module.removeprefix("labtui").lstrip(".")
        whole = (f"{inside}.{alias.name}".lstrip(".") for alias in node.names)
        return [name if name in modules() else inside for name in whole]
    if isinstance(node, ast.Import):
        return [
            alias.name.removeprefix("labtui.") for alias in node.names if alias.name.startswith("labtui.")
        ]
    return []


@cache
def imports(*, late: bool) -> dict[str, set[str]]:
    """Module to the modules it imports; without `late`, only what is imported when it is loaded."""
    graph: dict[str, set[str]] = {}
    for name, path in modules().items():
        graph[name] = set()
        waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
        while waiting:
            node = waiting.pop()
            graph[name].update(target for target in _targets(node) if target in modules() and target != name)
            for child in ast.iter_child_nodes(node):
                later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                    isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                )
                if late or not later:
                    waiting.append(child)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                found.append(sorted(members))

    for name in graph:
        if name not in index:
            visit(name)
    return found


@cache
def lines() -> dict[str, int]:
    return {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}


def single_importer_modules() -> list[str]:
    users = defaultdict(set)
    for name, targets in imports(late=True).items():
        for target in targets:
            users[target].add(name)
    return [
        name
        for name, path in modules().items()
        if path.name != "__init__.py" and name not in PROGRAMS and len(users[name]) == 1
    ]


def room_share() -> tuple[str, float]:
    rooms: dict[str, int] = defaultdict(int)
    for name, count in lines().items():
        rooms[name.split(".")[0]] += count
    biggest = max(rooms, key=lambda room: rooms[room])
    return biggest, rooms[biggest] / sum(rooms.values())


def typed_share() -> float:
    """Share of lines in the packages that ``mypy --strict`` reads."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert settings["strict"] is True
    strict = [package.removeprefix("labtui").lstrip(".") for package in settings["packages"]]
    typed = sum(
        count
        for name, count in lines().items()
        if any(not package or name == package or name.startswith(package + ".") for package in strict)
    )
    return typed / sum(lines().values())


def test_the_house_in_figures(record_property, capsys):
    whole, loading = circles(imports(late=True)), circles(imports(late=False))
    single = single_importer_modules()
    biggest, share = room_share()
    rows = [
        ("files", str(len(modules()))),
        ("lines", f"{sum(lines().values()):,}"),
        ("import circles when loading", str(len(loading))),
        ("import circles, late imports counted", str(len(whole))),
        ("modules with one importer", str(len(single))),
        ("biggest room", f"{biggest}, {share:.0%}"),
        ("type-checked strictly", f"{typed_share():.0%}"),
    ]
    with capsys.disabled():
        print("\n" + "\n".join(f"  {what:40} {figure}" for what, figure in rows))
    for what, figure in rows:
        record_property(what, figure)
    assert loading == []
    assert whole == []
    assert len(modules()) <= BOUNDS["files"]
    assert len(single) <= BOUNDS["modules with one importer"], single
    assert share <= 0.18
    assert typed_share() == 1


def test_every_room_of_the_drawing_is_there_and_no_other():
    there = {name.split(".")[0] for name in modules()} - {"", "__main__"}
    assert there == ROOMS


def test_every_arrow_of_the_drawing_is_held_by_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    named = set(chain.from_iterable(layer.replace("labtui.", "").split(" | ") for layer in layers))
    assert named - {"__main__"} == ROOMS


def test_no_value_is_called_by_who_spoke() -> None:
    """A value has the name of what it is (`text`, `answer`, `request`), not of how it came."""
    for path in chain(modules().values(), (ROOT / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        values = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        values |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        values |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not values & {"told", "said", "asked"}, path


def test_no_screen_keeps_something_under_a_name_that_textual_uses() -> None:
    """A screen that set `_running` was never mounted: Textual took it for one that runs already."""
    textual = Path(importlib.util.find_spec("textual").origin).parent  # type: ignore[union-attr, arg-type]
    bases = ("message_pump", "dom", "widget", "screen", "app", "scroll_view", "widgets/_data_table")
    assigned = re.compile(r"self\.(_[a-z]\w*)\s*(?::[^=\n]+)?=(?!=)")
    theirs = {
        name
        for base in bases
        for name in assigned.findall((textual / f"{base}.py").read_text(encoding="utf-8"))
    }
    assert "_running" in theirs
    for name, path in modules().items():
        if name.startswith("tui"):
            ours = set(assigned.findall(path.read_text(encoding="utf-8")))
            assert not (ours & theirs) - {"_closed", "_notifications"}, name
