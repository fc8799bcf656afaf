"""Which files of a folder a Python file rests on, directly or through others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w., ]+))", re.MULTILINE)


def imported_files(start: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """The files to start with and those of `texts` they import; a module is found in any folder, as on `sys.path`."""
    by_module = {path.rpartition("/")[2].removesuffix(".py"): path for path in texts if path.endswith(".py")}
    found = sorted(start)
    for path in found:
        for name in imported_modules(texts.get(path, "")):
            other = by_module.get(name.partition(".")[0])
            if other is not None and other not in found:
                found.append(other)
    return found


@lru_cache(maxsize=256)  # asked for each run, while a folder has few scripts
def imported_modules(text: str) -> tuple[str, ...]:
    """The modules a Python text imports; read off its lines when it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = _IMPORT.finditer(text)
        return tuple(name for match in found for name in re.split(r"[,\s]+", match[1] or match[2]))
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return tuple(names)
