"""Preflight: what would go wrong, seen in the files before anything is submitted.

Each rule is one small function, by topic: what was pasted, the directives, the commands, paths, the training
script. A finding names file, line and effect, and where possible a fix: a pure edit of the text, shown as a
difference and applied when the student wants it. Nothing here reads files or asks a cluster; what the
cluster knows comes in.
"""

from __future__ import annotations

from collections.abc import Mapping

from labtui.core.model import SubmissionDraft
from labtui.core.preflight import directives, launch, pasted, paths, training
from labtui.core.preflight.context import RULES, Context, Rule
from labtui.core.preflight.findings import Edit, Finding, Fix, Severity, apply_fix, preview_fix
from labtui.core.profile import Profile

__all__ = [
    "RULES",
    "Edit",
    "Finding",
    "Fix",
    "Rule",
    "Severity",
    "apply_fix",
    "fix_all",
    "paths_to_ask",
    "preflight",
    "preview_fix",
    "rules_table",
    "text_of",
]

_TOPICS = {
    "pasted": pasted,
    "directives": directives,
    "launch": launch,
    "paths": paths,
    "training": training,
}
MAX_TEXT = 1_000_000
"""Characters of a file that are looked at: no script is longer, and data is none of our business."""


def preflight(
    files: Mapping[str, bytes],
    draft: SubmissionDraft | None,
    profile: Profile,
    account: str = "",
    *,
    remote: Mapping[str, bool] | None = None,
) -> tuple[Finding, ...]:
    """Everything worth saying about the files of a submission, errors first, then by file and line.

    `files` are what would be pushed, by relative path; the job script is ``job.slurm`` (without one, every
    job script among them is looked at). `remote` says of absolute remote paths whether they exist. Never
    raises for any content of the files.
    """
    context = Context(
        files={name: text_of(data) for name, data in files.items()},
        draft=draft,
        profile=profile,
        account=account,
        remote=dict(remote or {}),
    )
    findings = [finding for rule in RULES.values() for finding in rule.check(context)]
    findings = _without_echoes(findings)
    return tuple(sorted(findings, key=lambda f: (f.severity != "error", f.file, f.line, f.rule)))


def paths_to_ask(
    files: Mapping[str, bytes], draft: SubmissionDraft | None, profile: Profile
) -> tuple[str, ...]:
    """The remote paths whose existence `preflight` would like to know (its `remote` argument)."""
    texts = {name: text_of(data) for name, data in files.items()}
    return paths.remote_paths(Context(files=texts, draft=draft, profile=profile))


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """A file that does not parse is said once: not again where the reason (a pasted character) is named."""
    named = {f.file for f in findings if f.rule in {"curly-quotes", "invisible", "long-dash"}}
    return [f for f in findings if not (f.rule == "python-syntax" and f.file in named)]


def text_of(data: bytes) -> str:
    """A file's bytes as text; bytes that are no UTF-8 survive being written back."""
    return data[:MAX_TEXT].decode("utf-8", "surrogateescape")


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
    for topic in _TOPICS:
        for rule in RULES.values():
            if rule.topic == topic:
                lines.append(f"| `{rule.id}` | {rule.sentence} | {rule.severity} |")
    return "\n".join(lines) + "\n"
