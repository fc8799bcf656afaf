"""What every error owes the student."""

from __future__ import annotations

from labtui.domain.errors import LabError


def explains(error: LabError, *words: str) -> None:
    """A sentence and a hint, with these words in one of them."""
    assert error.sentence.endswith((".", ")", "?")) or ":" in error.sentence, error.sentence
    assert error.hint
    for word in words:
        assert word in f"{error.sentence} {error.hint}", (word, error.sentence, error.hint)
