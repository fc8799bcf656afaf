"""Raw log lines as a terminal would leave them, harmless; every sign as one of ASCII, as wide as before."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from labtui.domain.terminal_text import ascii_text, ascii_wanted, display_text, file_name
from labtui.tui.format import PHASE_GLYPHS


def test_states_and_frames_have_signs_of_their_own():
    assert ascii_text("✔ done ▶ epoch 3 of 5") == "v done > epoch 3 of 5"
    signs = " ".join(f"{phase.name}:{ascii_text(glyph)}" for phase, glyph in sorted(PHASE_GLYPHS.items()))
    assert signs == "CANCELLED:- DONE:v FAILED:x QUEUED:q RUNNING:> STARTING:/ UNKNOWN:? WAITING:."
    assert ascii_text("○ ◐ ● ! ▸ ▾ ▌ ↓") == "o % * ! + - | v"
    assert ascii_text("4× ┼┈┈●⠂⠤⠶◆▲◉■▼…") == "4x +--*..:x^@#v~"
    assert len({ascii_text(glyph) for glyph in "✔◐○↻✘"}) == 5


LETTERS = st.characters(max_codepoint=0x33FF, categories=("L", "N", "P", "S", "Zs"))


@given(st.text(LETTERS))
@example("\u1160 \u3164 \u268c")  # fillers without a width, and a sign that newer tables call wide
def test_any_text_becomes_ascii_of_the_same_width(text):
    shown = ascii_text(text)
    assert shown.isascii() and cell_len(shown) == cell_len(text)


def test_the_environment_asks_for_it_and_no_file_name_ends_in_a_dot():
    assert [*map(ascii_wanted, ({"LABTUI_ASCII": "1"}, {"LABTUI_ASCII": "0"}, {}))] == [True, False, False]
    assert file_name("a" * 119 + ".b") == "a" * 119


@pytest.mark.parametrize(("raw", "shown"), [
    *((b"plain", "plain"), (b"windows\r", "windows"), (b"3\x1b[D47 s", "47 s"), (b"99\x1b[2D4", "49")),
    (b"1/25 [>....]\r2/25 [=>...]\r25/25 [=====] - 14s", "25/25 [=====] - 14s"),
    *((b"long first text\rshort", "shortfirst text"), (b"12/25\x08\x08\x08\x08\x0825/25", "25/25")),
    (b"\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m", "red and green"),
    *((b"\x1b]0;new title\x07after", "after"), (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link")),
    *((b"\x1b]52;c;cm0gLXJm\x07", ""), (b"\x1bP1;2|secret\x1b\\seen", "seen")),
    *((b"\x1b]never closed", ""), (b"a\tb", "a       b"), ("ünïcödé 日本".encode(), "ünïcödé 日本")),
    *((b"bell\x07null\x00", "bell\ufffdnull\ufffd"), ("right\u202eleft".encode(), "right\ufffdleft")),
    (b"[bold]not markup[/nothing]", "[bold]not markup[/nothing]"),
    (b"\xff\xfe broken", "\ufffd\ufffd broken"),
])  # fmt: skip
def test_what_is_left_of_a_line(raw, shown):
    assert display_text(raw) == shown


@given(st.binary(max_size=300))
def test_no_byte_can_act_on_the_terminal(raw):
    shown = display_text(raw)
    assert all(character.isprintable() or character == "\u3000" or character.isspace() for character in shown)
    assert not any(character in shown for character in "\x1b\x07\x08\r\n\x9b\x00\u202e")
