"""UTF-16 logs as UTF-8: what PowerShell's redirection writes on Windows. Everything else passes unchanged.

Told by the byte order mark, or by a first pair of plain letters with a zero byte each. What may not enter: lines.
"""

from __future__ import annotations

import codecs

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LOOK = 4


class Utf8:
    """Bytes in any chunks in, UTF-8 out; the same for any chunking. The first bytes wait until they can be told."""

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        """The next bytes as UTF-8."""
        if self._head is not None:
            self._head += data
            if len(self._head) < _LOOK:
                return b""
            data, self._head = self._begin(self._head), None
        return data if self._decoder is None else self._decoder.decode(data).encode("utf-8", "replace")

    def finish(self) -> bytes:
        """What still waits at the end."""
        if self._head is not None:
            data, self._head = self._begin(self._head), None
            return data
        return b"" if self._decoder is None else self._decoder.decode(b"", True).encode("utf-8", "replace")

    def _begin(self, head: bytes) -> bytes:
        name = _MARKS.get(head[:2]) or _by_zeros(head)
        if name is None or len(head) < _LOOK:
            return head
        self._decoder = codecs.getincrementaldecoder(name)(errors="replace")
        return head.removeprefix(codecs.BOM_UTF16_LE).removeprefix(codecs.BOM_UTF16_BE)


def _by_zeros(head: bytes) -> str | None:
    if len(head) < _LOOK:
        return None
    if head[1] == head[3] == 0 and _plain(head[0]) and _plain(head[2]):
        return "utf-16-le"
    return "utf-16-be" if head[0] == head[2] == 0 and _plain(head[1]) and _plain(head[3]) else None


def _plain(byte: int) -> bool:
    return 32 <= byte < 127 or byte in b"\t\r\n\b"
