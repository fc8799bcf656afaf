"""Job script templates: text with ``@{name}`` where a value belongs.

A value comes from outside (a job name, a path, an account), so what it may contain depends on where it
stands:

- in an ``#SBATCH`` line: letters, digits and ``. _ + : = / @ , % -`` only;
- in another comment: one line of printable text;
- in shell code: `render` quotes it, so it is one word whatever it holds; the placeholder stands bare, never
  in quotes;
- a name that ends in ``_lines``: whole lines of code that the caller has made and quoted. It stands alone on
  its line, and an empty value removes that line.

A shell's own ``$name`` is left alone. What may not enter: where values come from (`jobscript`).
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping

from labtui.errors import TemplateError

LINES = "_lines"
_DIRECTIVE_VALUE = re.compile(r"[A-Za-z0-9._+:=/@,%-]+")


class JobTemplate(string.Template):
    """`string.Template` with ``@{name}`` and nothing else: ``$x``, ``"$@"``, ``${x[@]}`` are the shell's."""

    delimiter = "@"
    pattern = r"""
    @(?:
        (?P<escaped>(?!))            |  # nothing needs escaping
        (?P<named>(?!))              |  # no short form
        \{(?P<braced>[a-z][a-z0-9_]*)\} |
        (?P<invalid>(?=\{))
    )
    """  # type: ignore[assignment]  # compiled by string.Template
    flags = re.VERBOSE


def placeholders(template: str) -> tuple[str, ...]:
    """The names a template asks for, in order of appearance, each once.

    Raises:
        TemplateError: at a ``@{`` that begins no placeholder.
    """
    return tuple(dict.fromkeys(name for _, _, name, _ in _places(template)))


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with its values put in.

    Raises:
        TemplateError: for a placeholder without a value, a value without a placeholder, a placeholder in
            quotes, and a value that may not stand where its placeholder stands.
    """
    asked = set(placeholders(template))
    if unknown := sorted(asked - values.keys()):
        raise TemplateError(
            f"The job script template asks for {_listed(unknown)}, which labtui does not have.",
            f"It has {_listed(sorted(values))}.",
        )
    if missing := sorted(values.keys() - asked):
        raise TemplateError(
            f"The job script template has no place for {_listed(missing)}.",
            "Put the placeholder back, or take the template that came with labtui.",
        )
    rendered = []
    for number, line in enumerate(template.split("\n"), start=1):
        filled = _fill(line, number, values)
        if filled is not None:
            rendered.append(filled)
    return "\n".join(rendered)


def safe_word(text: str) -> bool:
    """Whether a text may stand in an ``#SBATCH`` line and in a file name pattern."""
    return _DIRECTIVE_VALUE.fullmatch(text) is not None


def _listed(names: list[str]) -> str:
    return ", ".join(f"@{{{name}}}" for name in names)


def _places(template: str) -> Iterator[tuple[int, str, str, int]]:
    """(line number, line, name, offset in the line) of each placeholder."""
    for number, line in enumerate(template.split("\n"), start=1):
        for match in JobTemplate.pattern.finditer(line):  # type: ignore[attr-defined]  # compiled by string.Template
            name = match["braced"]
            if name is None:
                raise TemplateError(
                    f"Line {number} of the template has a '@{{' that is no placeholder: {line.strip()!r}.",
                    "A placeholder is @{name}, in small letters.",
                )
            yield number, line, name, match.start()


def _fill(line: str, number: int, values: Mapping[str, str]) -> str | None:
    """One line with its values; None when it vanishes."""
    found = list(_places(line))
    if not found:
        return line
    filled = {}
    for _, _, name, offset in found:
        if name.endswith(LINES):
            return _block(line, number, name, values[name])
        filled[name] = _value(line, number, name, offset, values[name])
    return JobTemplate(line).substitute(filled)


def _block(line: str, number: int, name: str, value: str) -> str | None:
    if line.strip() != f"@{{{name}}}":
        raise TemplateError(
            f"@{{{name}}} stands for whole lines; in line {number} something stands beside it."
        )
    if "\0" in value or "\r" in value:
        raise TemplateError(f"The value of @{{{name}}} contains a character that no job script may contain.")
    return value.rstrip("\n") or None


def _value(line: str, number: int, name: str, offset: int, value: str) -> str:
    if any(not char.isprintable() for char in value):
        raise TemplateError(
            f"The value of @{{{name}}} contains a line break or a control character: {value!r}.",
            "Type it again by hand: such characters come with copied text.",
        )
    text = line.lstrip()
    if text.startswith("#SBATCH"):
        if not safe_word(value):
            raise TemplateError(
                f"{value!r} cannot stand in the job script as {name.replace('_', ' ')}.",
                "Use letters, digits, dots, dashes and underscores, without blanks.",
            )
        return value
    if text.startswith("#"):
        return value
    if _in_quotes(line[:offset]):
        raise TemplateError(
            f"In line {number} of the job script template @{{{name}}} stands inside quotes.",
            "Write it without quotes: labtui quotes the value itself.",
        )
    return shlex.quote(value)


def _in_quotes(before: str) -> bool:
    """Whether a shell that has read this much of a line is inside a quoted string."""
    quote = ""
    escaped = False
    for char in before:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            if char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
    return bool(quote)
