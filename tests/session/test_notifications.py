"""A notification is in our own words and cannot act on a terminal; `tests.tui.test_notifications` has when it comes."""

from labtui.session.notifications import Notice, terminal_sequence


def test_a_name_from_outside_cannot_act_on_the_terminal():
    sequence = terminal_sequence(Notice("x\x1b]0;owned\x07", "a;b\\\nc"))
    assert sequence.count("\x1b") == sequence.count(";") == 4 and sequence.count("\a") == 1
    assert sequence.startswith("\a\x1b]9;") and "owned\x07" not in sequence
