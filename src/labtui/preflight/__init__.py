"""Preflight: finds mistakes in the files of a job before it is submitted.

Each rule is a small function that checks one file: pasted characters, directives, commands, paths, the training script.
A finding names file, line and effect, and where possible has a fix: an edit of the text, shown as a diff and applied if
the student wants it. Nothing here reads files or asks a cluster; callers pass in what the cluster said.
"""

from collections.abc import Iterable, Mapping

from labtui.preflight import directives, files, launch, pasted
from labtui.preflight.files import paths_to_ask
from labtui.preflight.findings import RULES, Finding, ScriptContext, apply_fix

__all__ = ["ScriptContext", "fix_all", "paths_to_ask", "preflight", "rules_table"]
_TOPICS = (pasted, directives, launch, files)
"""The modules of the rules, which are registered on import."""


def preflight(context: ScriptContext) -> tuple[Finding, ...]:
    """The findings in the files of a submission, errors first, then by file and line.

    Never raises, whatever the files contain.
    """
    # a command in a loop is found in each iteration
    once = list(dict.fromkeys(found for rule in RULES.values() for found in rule.findings(context)))
    # a pasted character is the reason for a syntax error in the same file
    named = {f.file for f in once if f.rule in {pasted.PASTED, "broken-command", "crlf"}}
    # of a file that is no job script nothing else matters
    no_job = {f.file for f in once if f.rule == "shebang" and f.fix is None}
    once = [f for f in once if f.rule == "shebang" or f.file not in no_job]
    kept = (f for f in once if not (f.rule in {"python-syntax", "bash-syntax"} and f.file in named))
    return tuple(sorted(kept, key=lambda f: (f.severity != "error", f.file, f.line, f.rule)))


def fix_all(files: Mapping[str, bytes], findings: Iterable[Finding]) -> dict[str, bytes]:
    """The files with all fixes applied in order, except those that no longer fit after earlier ones."""
    changed = dict(files)
    for fix in (each.fix for each in findings if each.fix is not None and each.fix.file in changed):
        text = changed[fix.file].decode("utf-8", "surrogateescape")
        changed[fix.file] = apply_fix(text, fix).encode("utf-8", "surrogateescape")
    return changed


def rules_table() -> str:
    """The rules as a Markdown table, for the documentation."""
    rows = (f"| `{rule.id}` | {rule.sentence} | {rule.severity} |\n" for rule in RULES.values())
    return "".join(("| rule | what it sees | a finding |\n", "|---|---|---|\n", *rows))
