"""The size of the program against its budgets: printed by package, and held so that no figure grows."""

import ast
import importlib.util
import io
import re
import tokenize
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

PACKAGE = Path(__file__).parents[2] / "src" / "labtui"
_LOGS_AND_SLURM = {"domain": 700, "training_logs": 2200, "slurm": 2000, "preflight": 1050}
_RESULTS = {"lab": 1900, "results": 2100, "export": 2100}
_CLUSTER = {"cluster": 1400, "session": 3400, "doctor": 600, "practice": 2900}
BUDGETS = _LOGS_AND_SLURM | _RESULTS | _CLUSTER | {"tui": 4900, "commands": 2600}
"""Code lines: no blank lines, comments or docstrings."""
MAX_CODE_LINES, MAX_FILES, MAX_LONG_FILES = 30_000, 172, 0
"""What holds now, to be lowered only; the aims are 30,000 lines, 160 files and none over `LONG_LINES`."""
MAX_TEST_LINES, LONG_LINES = 32_000, 450
BLANK = {getattr(tokenize, name) for name in ["COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"]}


def code_lines(source: str) -> int:
    """Lines that hold code, as `cloc` counts them."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        for child in node.body if isinstance(getattr(node, "body", None), list) else []:
            match child:
                case ast.Expr(value=ast.Constant(value=str())):
                    code.difference_update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return len(code)


def test_the_program_does_not_grow(capsys):
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    packages: Counter[str] = Counter()
    for path, source in sources.items():
        packages[path.relative_to(PACKAGE).parts[0]] += code_lines(source)
    long = sorted(path.name for path, source in sources.items() if source.count("\n") > LONG_LINES)
    rows = [(name, packages[name], budget) for name, budget in BUDGETS.items()]
    rows += [("all", packages.total(), 30_000), ("files", len(sources), 160), ("long files", len(long), 0)]
    with capsys.disabled():
        print("\n" + "\n".join(f"  {name:14} {figure:6,} of {budget:6,}" for name, figure, budget in rows))
    assert packages.total() <= MAX_CODE_LINES
    assert len(sources) <= MAX_FILES
    assert len(long) <= MAX_LONG_FILES, long
    tests = (path.read_text(encoding="utf-8") for path in PACKAGE.parents[1].joinpath("tests").rglob("*.py"))
    assert sum(text.count("\n") for text in tests) <= MAX_TEST_LINES


def test_no_module_imports_itself_over_others():
    """Late imports counted, those for annotations alone not. import-linter holds the order of the packages."""
    graph = grimp.build_graph("labtui", exclude_type_checking_imports=True)
    # Both put everything together; who asks them back does it late: a command that starts another, the list of keys.
    roots = {"labtui.commands.cli", "labtui.tui.app"}
    imports = {
        name: graph.find_modules_directly_imported_by(name) - roots
        for name in graph.modules
        if not name.startswith("labtui.practice.stand_in")  # in the shape of other people's packages
    }
    TopologicalSorter(imports).prepare()


def test_no_screen_keeps_something_under_a_name_that_textual_uses():
    """A screen that set `_running` was never mounted: Textual took it for one that runs already."""
    textual = Path(importlib.util.find_spec("textual").origin).parent
    bases = ("message_pump", "dom", "widget", "screen", "app", "scroll_view", "widgets/_data_table")
    assigned = re.compile(r"self\.(_[a-z]\w*)\s*(?::[^=\n]+)?=(?!=)")
    theirs = set()
    for base in bases:
        theirs |= set(assigned.findall((textual / f"{base}.py").read_text(encoding="utf-8")))
    assert "_running" in theirs
    for path in (PACKAGE / "tui").rglob("*.py"):
        ours = set(assigned.findall(path.read_text(encoding="utf-8")))
        assert not (ours & theirs) - {"_closed", "_notifications"}, path


def test_every_failure_is_given_the_words_of_its_sentence():
    tables = tomllib.loads((PACKAGE / "domain" / "failures.toml").read_text(encoding="utf-8")).values()
    sentences = {reason: " ".join(texts) for table in tables for reason, texts in table.items()}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    own: dict[str, set[str | None]] = {"failure": set(), "os_errors": {"text"}}
    for call in (n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") in own):
        given = {each.arg for each in call.keywords} - {"wait"} | own[call.func.id]
        written = {each.value for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant)}
        for reason in sentences.keys() & written:
            assert None in given or given == {*re.findall(r"{(\w+)", sentences[reason])}, reason
        assert not written or written & sentences.keys(), written
    assert sentences.keys() <= {node.value for node in nodes if isinstance(node, ast.Constant)}
