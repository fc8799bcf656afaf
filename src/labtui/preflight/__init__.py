"""Preflight: what would go wrong, seen in the files before anything is submitted.

Each rule is one small function over one file: what was pasted, the directives, the commands, paths, the training
script. A finding names file, line and effect, and where possible a fix: a pure edit of the text, shown as a
difference and applied when the student wants it. Nothing here reads files or asks a cluster; what the
cluster knows comes in.
"""

from collections.abc import Mapping

from labtui.preflight import directives, files, launch, pasted
from labtui.preflight.files import paths_to_ask
from labtui.preflight.findings import RULES, Finding, ScriptContext, apply_fix

__all__ = ["ScriptContext", "fix_all", "paths_to_ask", "preflight", "rules_table"]
_TOPICS = (pasted, directives, launch, files)
"""The modules of the rules, which register themselves."""


def preflight(context: ScriptContext) -> tuple[Finding, ...]:
    """Everything worth saying about the files of a submission, errors first, then by file and line.

    Never raises for any content of the files.
    """
    findings = (finding for rule in RULES.values() for finding in rule.findings(context))
    once = list(dict.fromkeys(findings))  # a command in a loop is seen in each of its rounds
    return tuple(sorted(_without_echoes(once), key=lambda f: (f.severity != "error", f.file, f.line, f.rule)))


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """A file that does not parse is said once: not again where the reason (a pasted character) is named."""
    named = {f.file for f in findings if f.rule in {pasted.PASTED, "broken-command", "crlf"}}
    return [f for f in findings if not (f.rule in {"python-syntax", "bash-syntax"} and f.file in named)]


def fix_all(files: Mapping[str, bytes], findings: tuple[Finding, ...]) -> dict[str, bytes]:
    """The files with every fix applied that still fits after those before it."""
    changed = dict(files)
    for finding in findings:
        if finding.fix is not None and finding.fix.file in changed:
            text = changed[finding.fix.file].decode("utf-8", "surrogateescape")
            changed[finding.fix.file] = apply_fix(text, finding.fix).encode("utf-8", "surrogateescape")
    return changed


def rules_table() -> str:
    """The rules as a Markdown table, for the documentation."""
    lines = ["| rule | what it sees | a finding |", "|---|---|---|"]
    for rule in RULES.values():
        lines.append(f"| `{rule.id}` | {rule.sentence} | {rule.severity} |")
    return "\n".join(lines) + "\n"
