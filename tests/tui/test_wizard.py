"""The form of the first run at 80x24: every question, both buttons and the keys in view; the keys can be clicked."""

import pytest
from textual.widgets import Input

from labtui.tui.screens.wizard import FIELDS, WizardApp
from tests.tui.waiting import text_of, until


async def test_the_whole_form_its_buttons_and_its_keys_fit_80_by_24(tmp_path):
    app = WizardApp(tmp_path / "new")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "Folder to make" in text_of(app))
        shown = text_of(app)
        for words in ("Lab", "Cluster", *(title for _, title, _ in FIELDS), "Test the connection"):
            assert words in shown, words
        await until(pilot, lambda: "esc Leave" in text_of(app))
        keys = text_of(app).splitlines()[23]
        assert all(key in keys for key in ("p Practice", "tab Next field", "esc Leave")), keys
        app.screen.query_one("#account", Input).value = "nct_345"
        await pilot.click("#make")
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value == tmp_path / "new"


@pytest.mark.parametrize("size", [(60, 15), (50, 13)])
async def test_on_a_smaller_screen_the_form_scrolls_and_the_buttons_stay(tmp_path, size):
    app = WizardApp(tmp_path / "new")
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: "Make the folder" in text_of(app))
        app.screen.query_one("#dir").focus()
        await until(pilot, lambda: "Folder to make" in text_of(app))
        assert "Make the folder" in text_of(app)
        assert "esc Leave" in text_of(app)


async def test_practice_is_offered_before_everything(tmp_path):
    app = WizardApp(tmp_path / "new")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "No account yet?" in text_of(app))
        await pilot.click("#practice")
        await until(pilot, lambda: app._exit)
    assert app.return_value == "practice"
    assert not (tmp_path / "new").exists()
