"""Rules for text pasted from a document: long dashes, curly quotes, special blanks, split lines, placeholders."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from labtui.domain.profile import CONTAINER_IMAGES
from labtui.preflight.findings import Hit, PythonScript, ScriptContext, change, code_of, replace_line, rule
from labtui.slurm.batch_script import PRINTS, JobScript, without_comment
from labtui.slurm.script_commands import quoting

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_LONG_OPTION = re.compile(rf"(?<![^\s('\"=])-*[{_DASHES}][-{_DASHES}]*[ \t\u00a0]*(?P<word>[A-Za-z][\w-]*)")
_LONE = re.compile(r"(?<=\s)--[ \t]+(?=[A-Za-z_][\w-]*(?:[\s=]|$))")
_QUOTES = str.maketrans("\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033", "'" * 5 + '"' * 5)
_INVISIBLE = str.maketrans("\u00a0\u2007\u202f\u3000", "    ", "\u200b\u200c\u200d\u2060\ufeff\u00ad")
_PLAIN = _QUOTES | _INVISIBLE
_ODD = re.compile(rf"(?<![^\W\d_])[^\x00-\x7f]|[^\x00-\x7f](?![^\W\d_])|[{''.join(map(chr, _INVISIBLE))}]")
"""What may stand for a plain character; an apostrophe between two letters is meant."""
_HOLE = re.compile(r"<[A-Za-z][\w .-]{0,40}>")
_TELLS = re.compile(r"\b(?:echo|printf|grep|sed|awk|mail)\b")
_NUMBERLESS = re.compile(r"\bnct_?(?:X{2,}|N{2,})\b")
_COMMAND_HOLES = re.compile(
    r"<(?:your[\w .-]*|account|path|user(?:name)?|group|dir(?:ectory)?|project|"
    r"reservation ?name|image|data)>(?![\w.$])",
    re.IGNORECASE,
)


# --------------------------------------------------------------------------- characters

PASTED = "pasted-character"
_TITLE = "use plain dashes, quotes and spaces"


@rule(PASTED, "error", over="shells")
def pasted_in_shell(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A long dash, curly quote, no-break or invisible character: it looks right and is another word.

    In commands and directives outside straight quotes; an apostrophe within a word is meant.
    """
    for number, line in job.code:
        code = code_of(line)
        if (fixed := _replace_characters(code)) != code:
            fix = replace_line(job, number, fixed + line[len(code) :], _TITLE)
            yield Hit(number, _pasted_effect(code), fix, "warning" if PRINTS.match(code) else None)


@rule(PASTED, over="pythons")
def pasted_in_python(_context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """Only where the program does not parse: in a string any character is meant."""
    for number, line in enumerate(script.lines if isinstance(script.parsed, Exception) else (), 1):
        code = line.partition("#")[0]
        if (fixed := code.translate(_QUOTES).translate(_INVISIBLE)) != code:
            fix = replace_line(script, number, fixed + line[len(code) :], _TITLE)
            yield Hit(number, _pasted_effect(code), fix)


def _replace_characters(code: str) -> str:
    """A shell line with plain characters; within straight quotes all stay."""
    if code.isascii():
        return code
    code = _sub(_LONG_OPTION, lambda m: "-" * min(2, len(m["word"])) + m["word"], code)
    return _sub(_ODD, lambda m: m[0].translate(_PLAIN), code)


def _sub(pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], code: str, start: int = 0) -> str:
    """The code with the pattern replaced where it begins outside straight quotes, from `start` on."""
    free = [outside for _, outside, _ in quoting(code)]
    return pattern.sub(lambda m: new(m) if m.start() >= start and free[m.start()] else m[0], code)


def _pasted_effect(code: str) -> str:
    if any(char in _DASHES for char in code):
        return "Word processors turn two dashes into one long one; no program takes that for an option."
    if code != code.translate(_QUOTES):
        return "Curly quotes quote nothing: ordinary characters to bash, a syntax error to Python."
    return "An invisible character, or a space of the wrong kind: words run together or no longer match."


@rule("lone-dashes", "error", over="shells")
def lone_dashes(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A space after the dashes (`-- epochs 5`): the option is not recognised.

    In commands that run Python and in directives; `--` alone is also how a document breaks a line.
    """
    for number, line in job.code:
        code = code_of(line)
        after = re.search(r"^#SBATCH\b|\.py\b", code)
        start = len(code) if after is None or PRINTS.match(code) else after.start()
        if (fixed := _sub(_LONE, lambda _: "--", code, start)) != code:
            effect = "The space parts the dashes from the option's name; the program refuses both."
            fix = replace_line(job, number, fixed + line[len(code) :], "remove the space after the dashes")
            yield Hit(number, effect, fix)


@rule("crlf", "error", over="shells")
def crlf(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """Windows line endings: `sbatch` refuses the script, bash fails on helper scripts.

    In job scripts and shell helpers; Python does not mind.
    """
    if ends := [(n, line) for n, line in enumerate(job.lines, 1) if line.endswith("\r")]:
        effect = "Windows line endings: sbatch refuses them, and bash reads the \\r as part of a word."
        lines = {n: (line.rstrip("\r"),) for n, line in ends}
        yield Hit(ends[0][0], effect, change(job, "use LF line endings", lines))


# --------------------------------------------------------------------------- split lines, placeholders


@rule("broken-command", "error", over="shells")
def broken_command(_context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A command split over two lines: its options start a line of their own.

    `python x.py` / `--epochs 1` on the next line, or a line that ends in a lone `--`.
    """
    effect = "The command ends at the line's end; what follows is read as a command of its own."
    for command, next_one in pairwise(job.commands):
        number = command.end
        code, following = without_comment(job.lines[number - 1]).rstrip(), job.lines[number].rstrip("\r")
        if next_one.line != number + 1 or PRINTS.match(code):
            continue
        if re.search(r"\s--$", code) and re.match(r"[A-Za-z_]", following):
            lines = {number: (code + following,), number + 1: ("",)}
        elif re.match(r"\s*--[A-Za-z_][\w-]*(?=[\s=]|$)", following) and ".py" in code:
            lines = {number: (code + " \\",)}
        elif re.search(r"=\S+-$", code) and re.fullmatch(r"[\w.-]+\.(?:sif|py|simg)", following.strip()):
            lines = {number: (code + following.strip(),), number + 1: ("",)}
        else:
            continue
        yield Hit(number, effect, change(job, "join the two lines", lines))


@rule("placeholder", "error", over="shells")
def placeholder(context: ScriptContext, job: JobScript) -> Iterator[Hit]:
    """A placeholder left in: `<account>`, `nct_XXX`, `<path>`.

    In directives and commands; once, where all come from the folder's account.
    """
    written = context.draft is not None and context.draft.form != "own"
    unset = context.account if written and is_no_account(context.account) else None
    overridden = {d.line for d in job.directives if d.name in job.given}
    noted = False
    for number, line in job.code:
        code = "" if number in overridden or _TELLS.search(line) else code_of(line)
        pattern = _HOLE if line.startswith("#SBATCH") else _COMMAND_HOLES
        match = pattern.search(code) or _NUMBERLESS.search(code)
        if match is not None and match[0] != unset:
            yield _placeholder_hit(context, job, number, match[0])
        elif match is not None and not noted:
            noted = True
            yield Hit(number, f"{match[0]} stands for your account: set `account` in lab.toml.")


@rule("placeholder", over="pythons")
def placeholder_in_python(context: ScriptContext, script: PythonScript) -> Iterator[Hit]:
    """In the strings of the program that are paths."""
    for number, text in script.strings:
        match = _COMMAND_HOLES.search(text) or _NUMBERLESS.search(text)
        if match is not None and text.startswith("/"):
            yield _placeholder_hit(context, script, number, match[0])


def is_no_account(account: str) -> bool:
    """Whether an account is a placeholder such as ``nct_NNN``, which documents write for the student's own."""
    return _NUMBERLESS.fullmatch(account) is not None


def _placeholder_hit(context: ScriptContext, script: JobScript | PythonScript, number: int, hole: str) -> Hit:
    new, title = _fill(context, script.lines[number - 1], hole)
    effect = f"{hole} stands for something you have to fill in."
    return Hit(number, effect, replace_line(script, number, new, title))


def _fill(context: ScriptContext, line: str, hole: str) -> tuple[str, str]:
    """The line with the placeholder filled in, and a title for that; the same line and "" if the value is unknown."""
    word = hole.strip("<>").casefold()
    if word in {"account", "your account"} or _NUMBERLESS.fullmatch(hole):
        account = context.account
        return (line.replace(hole, account), f"write {account}") if account else (line, "")
    if word.replace(" ", "") == "reservationname" and line.startswith("#SBATCH"):
        return _reservation(context, line, hole)
    path = re.search(rf"[^\s'\"=]*{re.escape(hole)}[^\s'\"]*", line)
    known = _known_path(context, path[0], hole) if path else ""
    return (line.replace(path[0], known), f"write {known}") if path and known else (line, "")


def _reservation(context: ScriptContext, line: str, hole: str) -> tuple[str, str]:
    """The line with the plan's reservation, or without the option if there is none; and a title for that."""
    if name := context.draft.reservation if context.draft else "":
        return line.replace(hole, name), f"write {name}"
    rest = re.sub(rf"\s+--reservation[=\s]\s*{re.escape(hole)}", "", line)
    alone = re.fullmatch(r"#SBATCH\s*(?:#.*)?", rest)
    return f"#{line}" if alone else rest, "leave the reservation out: the job uses the ordinary queue"


def _known_path(context: ScriptContext, path: str, hole: str) -> str:
    """The one path of the plan or the site that fits a path with a placeholder; "" if none or several fit."""
    images, data_dir = context.containers, context.data_dir
    images = {each for each in images if each.rpartition("/")[2] == path.rpartition("/")[2]} or images
    if path.endswith(CONTAINER_IMAGES) and [each.endswith(CONTAINER_IMAGES) for each in images] == [True]:
        return images.pop()
    shape = ".+".join(re.escape(part) for part in path.split(hole))
    places = {*images, data_dir, data_dir.rpartition("/")[0]} - {""}
    fitting = [place for place in places if re.fullmatch(shape, place) and context.remote.get(place, True)]
    return fitting[0] if len(fitting) == 1 else ""
