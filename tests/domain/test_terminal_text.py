"""Every sign as one of ASCII, as wide as before, so that frames and tables keep their columns."""

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from labtui.domain.model import RunPhase
from labtui.domain.terminal_text import ascii_text, ascii_wanted
from labtui.tui.format import PHASE_GLYPHS


def test_states_and_frames_have_signs_of_their_own() -> None:
    assert ascii_text("✔ done ▶ epoch 3 of 5") == "v done > epoch 3 of 5"
    assert {phase: ascii_text(glyph) for phase, glyph in PHASE_GLYPHS.items()} == {
        RunPhase.DONE: "v",
        RunPhase.RUNNING: ">",
        RunPhase.STARTING: "/",
        RunPhase.QUEUED: "q",
        RunPhase.WAITING: ".",
        RunPhase.FAILED: "x",
        RunPhase.CANCELLED: "-",
        RunPhase.UNKNOWN: "?",
    }
    assert ascii_text("○ ◐ ● ! ▸ ▾ ▌ ↓") == "o % * ! + - | v"
    assert ascii_text("4× ┼┈┈●⠂⠤⠶◆▲◉") == "4x +--*..:#^@"
    assert ascii_text("│ └──┬──") == "| +--+--"
    assert ascii_text("━━━───") == "===---"
    assert ascii_text("╭─ Tasks ─╮") == " - Tasks - "
    assert ascii_text("━━━──") == "===--"
    assert len({ascii_text(glyph) for glyph in "✔◐○↻✘"}) == 5


LETTERS = st.characters(max_codepoint=0x33FF, categories=("L", "N", "P", "S", "Zs"))


@given(st.text(LETTERS))
@example("\u1160 \u3164 \u268c")  # fillers without a width, and a sign that newer tables call wide
def test_any_text_becomes_ascii_of_the_same_width(text: str) -> None:
    shown = ascii_text(text)
    assert shown.isascii()
    assert cell_len(shown) == cell_len(text)


def test_the_environment_asks_for_it() -> None:
    assert ascii_wanted({"LABTUI_ASCII": "1"})
    assert not ascii_wanted({"LABTUI_ASCII": "0"}) and not ascii_wanted({})
