"""The form of the first run at 80x24: every question, both buttons and the keys in view; the keys can be clicked."""

from textual.widgets import Input, Select

from labtui.session.folder import LabFolder
from labtui.tui.screens.wizard import FIELDS, WizardApp
from tests.tui.waiting import press, text_of, until


async def test_the_whole_form_its_buttons_and_its_keys_fit_80_by_24_and_make_a_folder(tmp_path):
    app = WizardApp(tmp_path / "new")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "Folder to make" in text_of(app) and "esc Leave" in text_of(app))
        shown = text_of(app)
        said = ("Lab", "Cluster", *(title for _, title, _ in FIELDS), "Test the connection")
        assert [words for words in said if words not in shown] == []
        assert all(key in shown.splitlines()[23] for key in ("p Practice", "tab Next field", "esc Leave"))
        app.screen.query_one("#lab", Select).value = "hpc4ai-ch10"
        app.screen.query_one("#user", Input).value = "nct01001"
        app.screen.query_one("#port").focus()
        await press(pilot, *"port2222", "ctrl+n", then=lambda: "✘" in text_of(app))
        app.screen.query_one("#account", Input).value = "nct_345"
        await press(pilot, "ctrl+n", then=lambda: app.return_value)
    assert app.return_value == tmp_path / "new"
    made = LabFolder.open(tmp_path / "new").settings()
    assert (made.edition, made.account, made.user, made.port) == ("hpc4ai-ch10", "nct_345", "nct01001", 2222)


async def test_the_wizard_asks_for_what_is_missing_and_its_test_says_what_is_wrong(tmp_path):
    app = WizardApp(tmp_path / "new")
    async with app.run_test(size=(80, 50), notifications=True) as pilot:
        app.screen.query_one("#cluster", Select).value = "mn5"
        await pilot.click("#make")
        answer = app.screen.query_one("#wizard-answer")
        await until(pilot, lambda: all(x in str(answer.render()) for x in ("account", "Fill it in above.")))
        for name, value in (("host", "127.0.0.1"), ("port", "99999"), ("user", "nobody")):
            app.screen.query_one(f"#{name}", Input).value = value
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "port must be a whole number <= 65535" in str(answer.render()))
        await until(pilot, lambda: app.focused and app.focused.id == "make", "no text field has it")
        app.screen.query_one("#port", Input).value = "1"
        await pilot.click("#test")
        await until(pilot, lambda: "✘" in text_of(app) and "Fill it in above." not in str(answer.render()))
        await press(pilot, "p", then=lambda: "What you typed here is not kept." in text_of(app))
        await pilot.press("n", "escape")
    assert app.return_value is None and not (tmp_path / "new").exists()


async def test_on_a_smaller_screen_the_form_scrolls_the_buttons_stay_and_practice_is_offered(tmp_path):
    app = WizardApp(tmp_path / "new")
    async with app.run_test(size=(50, 13), notifications=True) as pilot:
        await until(pilot, lambda: "No account yet?" in text_of(app))
        app.screen.query_one("#dir").focus()
        shown = ("Folder to make", "Make the folder", "esc Leave")
        await until(pilot, lambda: all(words in text_of(app) for words in shown))
        app.screen.query_one("#practice").scroll_visible(animate=False)
        await until(pilot, lambda: "No account yet?" in text_of(app))
        await pilot.click("#practice")
        await until(pilot, lambda: app._exit)
    assert app.return_value == "practice" and not (tmp_path / "new").exists()
