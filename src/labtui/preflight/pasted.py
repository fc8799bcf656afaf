"""Text that came out of a document: long dashes, curly quotes, odd blanks, split lines, placeholders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labtui.preflight.findings import Edit, Finding, Fix, ScriptContext, found, nodes_of, replace_line, rule
from labtui.slurm.batch_script import JobScript, outside_quotes, without_comment

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_LONG_OPTION = re.compile(rf"(?<![^\s('\"=])[{_DASHES}]+[ \t\u00a0]*(?=[A-Za-z])(?P<word>[A-Za-z][\w-]*)")
_LONE = re.compile(r"(?<=\s)--[ \t]+(?=[A-Za-z_])")
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"'}
_QUOTES |= {"\u201e": '"', "\u201f": '"', "\u2033": '"', "\u2032": "'"}
_BLANKS = {"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": " "}
_NOTHING = dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
_INVISIBLE = _BLANKS | _NOTHING
_HOLE = re.compile(r"<[A-Za-z][\w .-]{0,40}>")
_NUMBERLESS = re.compile(r"\bnct_?(?:X{2,}|N{2,})\b")
_COMMAND_HOLES = re.compile(
    r"<(?:your[\w .-]*|account|path|user(?:name)?|group|dir(?:ectory)?|project|"
    r"reservation ?name|image|data)>",
    re.IGNORECASE,
)


def _code(line: str) -> str:
    """A shell line without its comment; a directive is no comment."""
    return line if line.startswith("#SBATCH") else without_comment(line)


# --------------------------------------------------------------------------- dashes


@rule("lone-dashes", "error", "A space after the dashes (`-- epochs 5`): the option is not recognised.")
def lone_dashes(context: ScriptContext) -> Iterator[Finding]:
    """In commands that run Python and in directives; `--` alone is also how a document breaks a line."""
    for job in context.shells:
        for number, line in job.code:
            code = _code(line)
            after = re.search(r"^#SBATCH\b|\.py\b|\bsbatch\b|\bsrun\b", code)
            if after is None or not _LONE.search(code, after.start()):
                continue
            head, tail = code[: after.start()], code[after.start() :]
            fixed = head + _LONE.sub("--", tail) + line[len(code) :]
            effect = "Dashes followed by a space are an option without a name; the program refuses the rest."
            fix = replace_line(job.name, number, line, fixed, "remove the space after the dashes")
            yield found("lone-dashes", job.name, number, line, effect, fix=fix)


@rule(
    "python-option", "error", "An option of the script declared with a space or a long dash (`' -- epochs'`)."
)
def python_option(context: ScriptContext) -> Iterator[Finding]:
    """`add_argument(' -- epochs')` declares an option nobody can type."""
    for name, text in context.pythons.items():
        for number, line in enumerate(text.split("\n"), 1):
            match = re.search(
                rf"add_argument\(\s*(?P<q>['\"\u2018\u2019\u201c\u201d])(?P<s>\s*(?:--|[{_DASHES}])[\s{_DASHES}-]*)(?=\w)",
                line,
            )
            if match is None or match["s"] in {"--", "-"}:
                continue
            fixed = line[: match.start("s")] + "--" + line[match.end("s") :]
            effect = "The option's name contains a space or a long dash, so no command line can name it."
            fix = replace_line(name, number, line, fixed, "write the option with two plain dashes")
            yield found("python-option", name, number, line, effect, fix=fix)


@rule("long-dash", "error", "A long dash where `--` or `-` belongs: the option is read as a word.")
def long_dash(context: ScriptContext) -> Iterator[Finding]:
    """In shell commands and directives; not in comments and not within text."""
    for job in context.shells:
        for number, line in job.code:
            code = _code(line)
            outside = outside_quotes(code)
            hits = [m for m in _LONG_OPTION.finditer(code) if outside[m.start()]]
            if not hits:
                continue
            fixed = _plain_dashes(code, outside) + line[len(code) :]
            effect = "Word processors turn two dashes into one long one; no program takes that for an option."
            fix = replace_line(job.name, number, line, fixed, "use plain dashes")
            yield found("long-dash", job.name, number, line, effect, fix=fix)


def _plain_dashes(code: str, outside: list[bool]) -> str:
    def dashed(match: re.Match[str]) -> str:
        if not outside[match.start()]:
            return match[0]
        return ("-" if len(match["word"]) == 1 else "--") + match["word"]

    return _LONG_OPTION.sub(dashed, code)


# --------------------------------------------------------------------------- quotes and blanks


@rule("curly-quotes", "error", "Curly quotes: ordinary characters to bash, a syntax error to Python.")
def curly_quotes(context: ScriptContext) -> Iterator[Finding]:
    """In shell code outside straight quotes, and in Python that does not parse."""
    effect = "Curly quotes are ordinary characters to bash and a syntax error to Python; they quote nothing."
    for job in context.shells:
        for number, line in job.code:
            code = _code(line)
            if _bare(code):
                fixed = _straight(code) + line[len(code) :]
                fix = replace_line(job.name, number, line, fixed, "use straight quotes")
                yield found("curly-quotes", job.name, number, line, effect, fix=fix)
    for name, text in context.pythons.items():
        if context.trees[name] is not None:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            code, _, comment = line.partition("#")
            if any(char in _QUOTES for char in code):
                fixed = "".join(_QUOTES.get(char, char) for char in code) + line[len(code) :]
                fix = replace_line(name, number, line, fixed, "use straight quotes")
                yield found("curly-quotes", name, number, line, effect, fix=fix)
            del comment


def _bare(code: str) -> bool:
    """Whether a curly quote stands outside straight quotes and is no apostrophe within a word."""
    outside = outside_quotes(code)
    return any(
        char in _QUOTES and outside[i] and not (code[i - 1 : i].isalpha() and code[i + 1 : i + 2].isalpha())
        for i, char in enumerate(code)
    )


def _straight(code: str) -> str:
    outside = outside_quotes(code)
    return "".join(_QUOTES.get(char, char) if outside[i] else char for i, char in enumerate(code))


@rule("invisible", "error", "No-break or zero-width characters: a name that looks right and is not.")
def invisible(context: ScriptContext) -> Iterator[Finding]:
    """In shell code and directives, and in Python that does not parse or begins with one."""
    effect = "An invisible character, or a space of the wrong kind: words run together or no longer match."
    texts = [(job.name, line, n, _code(line)) for job in context.shells for n, line in job.code]
    for name, text in context.pythons.items():
        if context.trees[name] is None:
            texts += [(name, line, n, line.partition("#")[0]) for n, line in enumerate(text.split("\n"), 1)]
    for name, line, number, code in texts:
        if any(char in _INVISIBLE for char in code):
            fixed = "".join(_INVISIBLE.get(char, char) for char in code) + line[len(code) :]
            fix = replace_line(name, number, line, fixed, "use plain spaces, remove invisible characters")
            yield found("invisible", name, number, line, effect, fix=fix)


@rule("crlf", "error", "Windows line endings: `sbatch` refuses the script, bash fails on helper scripts.")
def crlf(context: ScriptContext) -> Iterator[Finding]:
    """In job scripts and shell helpers; Python does not mind."""
    for job in context.shells:
        ends = [(n, line) for n, line in enumerate(job.lines, 1) if line.endswith("\r")]
        if ends:
            effect = "Windows line endings: sbatch refuses them, and bash reads the \\r as part of a word."
            edits = tuple(Edit(n, line, (line.rstrip("\r"),)) for n, line in ends)
            fix = Fix(job.name, "use LF line endings", edits)
            yield found("crlf", job.name, ends[0][0], ends[0][1], effect, fix=fix)


# --------------------------------------------------------------------------- what a document tears apart


@rule("broken-command", "error", "A command split over two lines: its options start a line of their own.")
def broken_command(context: ScriptContext) -> Iterator[Finding]:
    """`python x.py` / `--epochs 1` on the next line, or a line that ends in a lone `--`."""
    effect = "The command ends at the line's end; what follows is read as a command of its own."
    for job in context.shells:
        for number in range(1, len(job.lines)):
            line, following = job.lines[number - 1].rstrip("\r"), job.lines[number].rstrip("\r")
            code = without_comment(line).rstrip()
            if not code or code.endswith("\\") or line.startswith("#"):
                continue
            if re.search(r"\s--$", code) and re.match(r"[A-Za-z_]", following):
                edits = _joined(job, number, code + following)
            elif re.match(r"\s*--[A-Za-z_]", following) and ".py" in code:
                edits = (Edit(number, job.lines[number - 1], (code + " \\",)),)
            elif re.search(r"=\S+-$", code) and re.fullmatch(r"[\w.-]+\.(?:sif|py|simg)", following.strip()):
                edits = _joined(job, number, code + following.strip())
            else:
                continue
            fix = Fix(job.name, "join the two lines", edits)
            yield found("broken-command", job.name, number, line, effect, fix=fix)


def _joined(job: JobScript, number: int, text: str) -> tuple[Edit, ...]:
    return (
        Edit(number, job.lines[number - 1], (text,)),
        Edit(number + 1, job.lines[number], ("",)),
    )


@rule("placeholder", "error", "A placeholder left in: `<account>`, `nct_XXX`, `<path>`.")
def placeholder(context: ScriptContext) -> Iterator[Finding]:
    """In directives, commands and the strings of Python code; once, where all come from the folder's account."""
    written = context.draft is not None and context.draft.form != "own"
    unset = context.account if written and is_no_account(context.account) else None
    noted = False
    for file, number, line, hole in _holes(context):
        if hole != unset:
            yield _hole(context, file, number, line, hole)
        elif not noted:
            effect = f"{hole} stands for your account: set `account` in lab.toml."
            yield found("placeholder", file, number, line, effect)
            noted = True


def is_no_account(account: str) -> bool:
    """Whether an account is one that documents write where the student's own belongs: ``nct_NNN``."""
    return _NUMBERLESS.fullmatch(account) is not None


def _holes(context: ScriptContext) -> Iterator[tuple[str, int, str, str]]:
    """File, line number, line and placeholder."""
    for job in context.shells:
        overridden = {d.line for d in job.directives if d.name in job.given}
        for number, line in job.code:
            code = "" if number in overridden else _code(line)
            pattern = _HOLE if line.startswith("#SBATCH") else _COMMAND_HOLES
            match = pattern.search(code) or _NUMBERLESS.search(code)
            if match is not None:
                yield job.name, number, line, match[0]
    for name, tree in context.trees.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/"):
                match = _COMMAND_HOLES.search(node.value) or _NUMBERLESS.search(node.value)
                lines = context.pythons[name].split("\n")
                if match is not None and node.lineno <= len(lines):
                    yield name, node.lineno, lines[node.lineno - 1], match[0]


def _hole(context: ScriptContext, file: str, number: int, line: str, hole: str) -> Finding:
    effect = f"{hole} stands for something you have to fill in."
    new, title = _filled(context, line, hole)
    fix = replace_line(file, number, line, new, title)
    return found("placeholder", file, number, line, effect, fix=fix)


def _filled(context: ScriptContext, line: str, hole: str) -> tuple[str, str]:
    """The line with the hole filled from what is known, and what that does; the line itself where nothing is."""
    word = hole.strip("<>").casefold()
    if word in {"account", "your account"} or _NUMBERLESS.fullmatch(hole):
        return (
            (line.replace(hole, context.account), f"write {context.account}")
            if context.account
            else (line, "")
        )
    if word.replace(" ", "") == "reservationname" and line.startswith("#SBATCH"):
        return _reservation(context, line, hole)
    path = re.search(rf"[^\s'\"=]*{re.escape(hole)}[^\s'\"]*", line)
    known = _known_path(context, path[0], hole) if path else ""
    return (line.replace(path[0], known), f"write {known}") if path and known else (line, "")


def _reservation(context: ScriptContext, line: str, hole: str) -> tuple[str, str]:
    """The folder's reservation; without one its directive is left out, and the job uses the ordinary queue."""
    name = context.draft.reservation if context.draft else ""
    if name:
        return line.replace(hole, name), f"write {name}"
    option = re.search(rf"\s+--reservation[=\s]\s*{re.escape(hole)}", line)
    if option is None:
        return line, ""
    rest = line[: option.start()] + line[option.end() :]
    alone = re.fullmatch(r"#SBATCH\s*(?:#.*)?", rest)
    return f"#{line}" if alone else rest, "leave the reservation out: the job uses the ordinary queue"


def _known_path(context: ScriptContext, path: str, hole: str) -> str:
    """The one path of the plan, or of the site, that a path with a hole can mean; "" when none or several fit."""
    container, data_dir = context.container, context.data_dir
    if path.endswith(".sif") and container.endswith(".sif"):
        return container
    shape = ".+".join(re.escape(part) for part in path.split(hole))
    places = {container, data_dir, data_dir.rpartition("/")[0]} - {""}
    fitting = [place for place in places if re.fullmatch(shape, place) and context.remote.get(place, True)]
    return fitting[0] if len(fitting) == 1 else ""
