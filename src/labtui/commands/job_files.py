"""Job files on the command line: `labtui lint`, and the options and previews that `labtui submit` shares with it."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from labtui.cluster.local_files import write_inside
from labtui.commands import options
from labtui.commands.terminal import fields_of, folder_here, print_json, print_line, require_trust, say
from labtui.domain.errors import failure, os_errors
from labtui.domain.model import SubmissionDraft, plural
from labtui.domain.terminal_text import range_text
from labtui.domain.tuning import tuning_words
from labtui.preflight import ScriptContext, fix_all, preflight, rules_table
from labtui.preflight.findings import Finding, preview_fix
from labtui.results.cost import hours_text
from labtui.session import own_jobs, preview
from labtui.session.folder import SHELL_SUFFIXES, LabFolder
from labtui.session.settings import Settings, load_named, load_profile
from labtui.slurm.batch_script import read_script
from labtui.slurm.values import number


def is_job_file(word: str) -> bool:
    """Whether a word of the command line is a job file: it has the suffix of one, or is the path of a file."""
    return Path(word).suffix in SHELL_SUFFIXES or (("/" in word or "\\" in word) and Path(word).is_file())


def sbatch_options(args: argparse.Namespace) -> dict[str, str]:
    """The options for `sbatch`'s command line, by long name."""
    given = {name: getattr(args, name) for name in ("account", "qos", "partition", "time")}
    return {name: str(value) for name, value in given.items() if value}


def run_answers(args: argparse.Namespace) -> own_jobs.Answers:
    """What the options say about the runs of a job file.

    Raises:
        UsageError: --gpus is not a single number.
    """
    n_gpus = number(args.gpus) if args.gpus is not None else None
    if args.gpus is not None and n_gpus is None:
        raise failure("one-number")
    said = {"model": args.model or None, "n_gpus": n_gpus}
    said |= {"batch_size": args.batch_size, "epochs": args.epochs}
    return {name: value for name, value in said.items() if value is not None}


def job_line(made: preview.Preview, names: Mapping[str, str]) -> str:
    """A job in one line: its runs, time limit, expected time and cost."""
    draft, seconds, hours = made.draft, made.seconds, made.gpu_hours
    expected, cost = ", expected time not known", ""
    if seconds is not None:
        expected = f", expected {range_text(seconds, like=60)} min"  # minutes, as the limit
    limit = f"limit {draft.time_limit_minutes} min" if draft.time_limit_minutes else "the queue's time limit"
    if hours is not None and draft.gpus:
        most = draft.total_gpus * draft.time_limit_minutes / 60
        cost = f", {hours_text(hours.value)} GPU-hours expected"
        cost += f", {hours_text(most)} at most" if most else ""
    return (
        f"{draft.job_name}: {runs_in_words(draft, names)}; {limit}{expected}{cost}"
        f" ({draft.queue or 'default queue'}, {draft.account or 'default account'})"
    )


def runs_in_words(draft: SubmissionDraft, names: Mapping[str, str]) -> str:
    """``ResNet50 on 1, 2 GPUs, batch 2,048 per GPU, 5 epochs``, one part for the runs that differ in GPUs only."""
    if unknown := dict.fromkeys(name for spec in draft.runs for name in spec.unknown):
        what = ", ".join({"n_gpus": "GPUs used", "batch_size": "batch"}.get(name, name) for name in unknown)
        texts = ((run.called(names).label.strip(" ·"), plural(run.epochs, "epoch")) for run in draft.runs)
        known = dict.fromkeys(text for pair in texts for text in pair if text not in ("", "0 epochs"))
        return f"{', '.join([plural(len(draft.runs), 'run'), *known])} (the log will tell: {what})"
    groups: dict[tuple[str, str, int, int, str], list[int]] = {}
    for spec in (each.called(names) for each in draft.runs):
        tuned = ", ".join(("", *tuning_words(spec.tuning)))  # jobs may differ in these alone
        alike = (spec.model, spec.device, spec.per_gpu_batch, spec.epochs, tuned)
        groups.setdefault(alike, []).append(spec.n_gpus)
    parts = []
    for (model, device, batch, epochs, tuned), sizes in groups.items():
        where, per = "the CPU", ""
        if device == "gpu":
            where, per = f"{', '.join(map(str, sizes))} GPU{'s' if max(sizes) != 1 else ''}", " per GPU"
        parts.append(f"{model} on {where}, batch {batch:,}{per}, {plural(epochs, 'epoch')}{tuned}")
    return "; ".join(parts)


def submission_errors(previews: Sequence[preview.Preview]) -> list[Finding]:
    """The findings that stop a submission."""
    return [found for each in previews for found in each.findings if found.severity == "error"]


def finding_line(found: Finding, folder: Path = Path()) -> str:
    """``FILE:LINE: SEVERITY: EFFECT [RULE]``; `folder` is where the file lies."""
    place = f"{folder / found.file}:{found.line}" if found.line else f"{folder / found.file}"
    return f"{place}: {found.severity}: {found.effect} [{found.rule}]"


def finding_json(found: Finding) -> dict[str, Any]:
    """The fields of a finding in JSON."""
    return fields_of(found, "rule severity file line text effect") | {"fix": found.fix and found.fix.title}


def lint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="job files, or training scripts")
    parser.add_argument("--cluster", metavar="PROFILE", help="the cluster (default: the lab folder's)")
    parser.add_argument("--fix", action="store_true", help="apply the safe fixes")
    parser.add_argument("--rules", action="store_true", help="list the rules")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--diff", action="store_true", help="show what --fix would change; write nothing")
    options.add_json(shown)


MAX_FIX_ROUNDS = 8
"""A fix may reveal another finding, whose fix is applied in the next round."""


def run_lint(args: argparse.Namespace) -> int:
    """Check each file together with the files beside it. Return 1 if there is an error."""
    if args.rules:
        print(rules_table(), end="")
        return 0
    if not args.files:
        raise failure("no-file-named")
    here = folder_here(args.folder)
    folders = {name: folder_here(args.folder, Path(name).resolve().parent) or here for name in args.files}
    if not args.cluster and None in folders.values():
        say("There is no lab folder here, so no site's rules are checked (--cluster names a site).")
    rows: list[dict[str, Any]] = []
    for name, folder in folders.items():
        path = Path(name).resolve() if Path(name).is_symlink() else Path(name)
        if args.fix and not args.diff:
            if path != Path(name):
                raise failure("fix-link", file=name, target=path)
            _apply_fixes(path, folder, args)
        context, places, findings = _check(path, folder, args)
        for fix in (each.fix for each in findings if args.diff and each.fix and each.fix.file in places):
            print(preview_fix(context.files[fix.file], replace(fix, file=places[fix.file])))
        site = context.profile.id
        rows.append({"path": name, "cluster": site, "findings": list(map(finding_json, findings))})
        for found in () if args.json else findings:
            print_line(finding_line(found, path.parent))
            if found.fix is not None:
                print_line(f"    fix: {found.fix.title}")
    every = [found["severity"] for row in rows for found in row["findings"]]
    errors = every.count("error")
    if args.json:
        print_json({"cluster": site, "files": rows})
    else:
        say(f"{plural(errors, 'error')}, {plural(len(every) - errors, 'warning')}")
    return 1 if errors else 0


_Checked = tuple[ScriptContext, dict[str, str], Collection[Finding]]


def _check(path: Path, folder: LabFolder | None, args: argparse.Namespace) -> _Checked:
    """What is known about one file, where each file checked with it lies, and the findings; no file's come twice.

    With a lab folder, as if it was submitted there. A place is relative to the file's folder, or absolute for the
    scripts of a lab folder that it does not lie in.
    """
    if args.cluster or folder is None:
        settings = folder.settings() if folder else Settings(edition="", profile="slurm")
        profile = load_profile(args.cluster or settings.profile, folder.path if folder else Path.cwd())
    else:
        settings, profile = load_named(folder.path)
        own = {key: place for key in ("container", "data_dir") if (place := getattr(settings, key))}
        profile = replace(profile, **own)
    root, (files, large) = path.resolve().parent, own_jobs.with_files_beside(path)
    main, given = path.name if path.suffix != ".py" else "", sbatch_options(args)
    where = {name: name for name in files}
    if folder:  # a job file is sent together with scripts/, and its folders are made on the cluster
        files = {**folder.script_files(), **files}
        base = Path(relpath(folder.scripts, root)) if root.is_relative_to(folder.path) else folder.scripts
        where = {name: (base / name).as_posix() for name in files} | where
    if folder and main:
        text = files[main].decode("utf-8", "replace")
        given = own_jobs.complete_options(read_script(main, text, given), profile, settings)
    context = ScriptContext(
        files, None, profile, profile.account_of(settings.account), (settings.qos, settings.partition),
        remote={item.name: True for item in root.iterdir() if item.is_dir()},
        main=main, given=given, bash_errors=preview.bash_errors(files, main), makes_folders=folder is not None,
        left_out=large,
    )  # fmt: skip
    placed = (replace(each, file=where.get(each.file, each.file)) for each in preflight(context))
    return context, where, {each.key: each for each in placed}.values()


def _apply_fixes(path: Path, folder: LabFolder | None, args: argparse.Namespace) -> None:
    """Write the files beside `path`, and the scripts of its lab folder, with the fixes applied.

    Raises:
        NotTrusted: one of them lies in a lab folder that is not trusted.
    """
    for times in range(MAX_FIX_ROUNDS):
        context, places, findings = _check(path, folder, args)
        files = fix_all(context.sent, findings)
        ours = [n for n in files if files[n] != context.sent[n] and not Path(places[n]).is_absolute()]
        if not ours:
            if not times:
                say(f"{path}: unchanged, as no finding in its own files has a fix")
            break
        for name in ours:
            real = (path.parent / places[name]).resolve()
            if (lab := folder_here(None, real.parent)) is not None:
                require_trust(lab.path, args)
            with os_errors("cannot-write", path=real):
                write_inside(real.parent, real.name, files[name], real.stat().st_mode & 0o777)
            say(f"{path.parent / places[name]}: changed")
