"""Preflight: what would go wrong, seen in the files before anything is submitted.

Each rule is one small function over one file: what was pasted, the directives, the commands, paths, the training
script. A finding names file, line and effect, and where possible a fix: a pure edit of the text, shown as a
difference and applied when the student wants it. Nothing here reads files or asks a cluster; what the
cluster knows comes in.
"""

from __future__ import annotations

from collections.abc import Mapping

from labtui.domain.model import SubmissionDraft
from labtui.domain.profile import Profile
from labtui.preflight import directives, launch, pasted, paths, training
from labtui.preflight.findings import MAIN_SCRIPT, RULES, Finding, ScriptContext, apply_fix

_TOPICS = (pasted, directives, launch, paths, training)
"""The modules of the rules, which register themselves; the order of the table."""
MAX_TEXT = 1_000_000
"""Characters of a file that are looked at: no script is longer, and data is none of our business."""


def preflight(
    files: Mapping[str, bytes],
    draft: SubmissionDraft | None,
    profile: Profile,
    account: str = "",
    *,
    remote: Mapping[str, bool] | None = None,
    main: str = MAIN_SCRIPT,
    given: Mapping[str, str] | None = None,
    forecast_s: float | None = None,
    makes_folders: bool = False,
    bash_errors: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """Everything worth saying about the files of a submission, errors first, then by file and line.

    `files` are what would be pushed, by relative path; `main` is the job script (without it, every job script among
    them is looked at). `remote` says of absolute remote paths whether they exist. `given` are options that sbatch gets
    on its command line, by their long names. `forecast_s` is the least time in seconds that the trainings should take.
    `makes_folders`: relative log folders are made with the submission. `bash_errors` is what ``bash -n`` printed of the
    shell scripts, by name. Never raises for any content of the files.
    """
    context = ScriptContext(
        files={name: text_of(data) for name, data in files.items()},
        draft=draft,
        profile=profile,
        account=account,
        remote=dict(remote or {}),
        main=main,
        given=dict(given or {}),
        forecast_s=forecast_s,
        makes_folders=makes_folders,
        bash_errors=dict(bash_errors or {}),
    )
    findings = [finding for rule in RULES.values() for finding in rule.findings(context)]
    findings = _without_echoes(findings)
    return tuple(sorted(findings, key=lambda f: (f.severity != "error", f.file, f.line, f.rule)))


def paths_to_ask(
    files: Mapping[str, bytes],
    draft: SubmissionDraft | None,
    profile: Profile,
    *,
    main: str = MAIN_SCRIPT,
    given: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """The remote paths whose existence `preflight` would like to know (its `remote` argument)."""
    texts = {name: text_of(data) for name, data in files.items()}
    context = ScriptContext(files=texts, draft=draft, profile=profile, main=main, given=dict(given or {}))
    return paths.remote_paths(context)


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """A file that does not parse is said once: not again where the reason (a pasted character) is named."""
    named = {f.file for f in findings if f.rule in {pasted.PASTED, "broken-command", "crlf"}}
    return [f for f in findings if not (f.rule in {"python-syntax", "bash-syntax"} and f.file in named)]


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
    for rule in RULES.values():
        lines.append(f"| `{rule.id}` | {rule.sentence} | {rule.severity} |")
    return "\n".join(lines) + "\n"
