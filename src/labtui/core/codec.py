"""Events to one JSON line and back, unchanged: the form in which the store keeps them.

JSON has no word for "not a number", yet a training may print ``loss: nan``; such values travel as the words
``nan``, ``inf`` and ``-inf`` and come back as numbers.
"""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec

from labtui.core.events import AnyEvent

_decoder = msgspec.json.Decoder(AnyEvent, strict=False)


def encode_event(event: AnyEvent) -> bytes:
    """One event as JSON without line breaks."""
    return msgspec.json.encode(_words_for_non_finite(msgspec.to_builtins(event)))


def decode_event(line: bytes | str) -> AnyEvent:
    """The event of one stored line.

    Raises:
        ValueError: when the line is not an event of ours (`msgspec.DecodeError` is one).
    """
    return cast("AnyEvent", _decoder.decode(line))


def _words_for_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _words_for_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_words_for_non_finite(item) for item in value]
    return value
