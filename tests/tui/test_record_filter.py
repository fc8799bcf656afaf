"""Records are folded away, found by a search, shown by a key; the file is never touched."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from labtui.tui.widgets.log_file import RECORD, Folding, LogFile
from tests.tui.fed_session import FedSession, write_log
from tests.tui.waiting import text_of, until

LINES = st.lists(st.sampled_from([f"{RECORD} {{}}", "Epoch 1/5", "", f" {RECORD}", ":::ML"]), max_size=40)


@given(LINES, st.integers(1, 30), st.booleans())
def test_rows_are_the_lines_that_are_no_records(
    tmp_path_factory, lines: list[str], cut: int, on: bool
) -> None:
    path: Path = tmp_path_factory.mktemp("fold") / "x.out"
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(b"")
    file, folding = LogFile(path), Folding(on=on)
    for start in range(0, len(data), cut):  # as it grows, in any pieces
        with path.open("ab") as out:
            out.write(data[start : start + cut])
        file.refresh()
        folding.grow(file)
    wanted = [number for number, line in enumerate(lines) if not on or not line.startswith(RECORD)]
    shown = [folding.line_of(row) for row in range(folding.rows(file.lines))]
    assert shown == wanted
    assert [folding.row_of(line) for line in wanted] == list(range(len(wanted)))
    assert [line for line in range(len(lines)) if folding.hides(line)] == [
        line for line in range(len(lines)) if line not in wanted
    ]
    file.close()


def log_with_records() -> str:
    return "".join(
        f'Epoch {number}/5\n{RECORD} {{"key": "epoch_start", "n": {number}}}\n{RECORD} {{"key": "stop"}}\n'
        for number in range(1, 6)
    )


async def test_the_log_pane_folds_them_and_a_key_and_a_search_show_them(
    filled_session: FedSession, app_of
) -> None:
    path = write_log(filled_session, "lt000000000000000ddd", log_with_records())
    before = path.read_bytes()
    app = app_of(filled_session, "log")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "10 folded (z)" in text_of(app), "folded")
        assert RECORD not in text_of(app) and "Epoch 5/5" in text_of(app)
        await pilot.press("z")
        await until(pilot, lambda: text_of(app).count(RECORD) == 10, "shown")
        await pilot.press("z")
        await until(pilot, lambda: RECORD not in text_of(app), "folded again")
        await pilot.press("slash", *"epoch_start", "enter")
        await until(
            pilot, lambda: "epoch_start" in text_of(app) and RECORD in text_of(app), "found in a record"
        )
    assert path.read_bytes() == before


async def test_a_search_finds_what_is_shown_before_what_is_folded(filled_session: FedSession, app_of) -> None:
    """A record that holds the text, too, lies between the lines that are shown and stays folded."""
    write_log(filled_session, "lt000000000000000ddd", log_with_records() + f"{RECORD} {' ' * 200}Epoch zz\n")
    app = app_of(filled_session, "log")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "11 folded (z)" in text_of(app), "folded")
        await pilot.press("slash", *"Epoch", "enter")
        await until(pilot, lambda: "/Epoch line 23" in text_of(app), "the last line that is shown")
        assert "Epoch 5/5" in text_of(app) and RECORD not in text_of(app)
        await pilot.press("n")
        await until(pilot, lambda: "none below" in text_of(app), "no record below it")
        await pilot.press("slash", *"zz", "enter")
        await until(
            pilot, lambda: "/zz line 26" in text_of(app) and "Epoch 5/5" not in text_of(app), "a record"
        )
        await pilot.press("z")
        await until(pilot, lambda: "Epoch 5/5" in text_of(app), "the left of what stays")
