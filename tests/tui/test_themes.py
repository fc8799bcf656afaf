"""Our themes can be read: the contrast of every text on every ground, as WCAG 2.2 computes it."""

from itertools import product

import pytest
from rich.color import Color, ColorSystem
from textual import color, widget
from textual.css.query import NoMatches
from textual.theme import Theme

from labtui.tui import themes

TEXTS = ("foreground", "soft", "quiet", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")
MORE = ("error", "error-ground"), ("soft", "tint"), ("on-accent", "accent")
MIN_TEXT = 4.5


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""

    def luminance(name: str) -> float:
        parts = [part / 255 for part in color.Color.parse(name).rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def colour(theme: Theme, name: str) -> str:
    return theme.variables.get(name) or str(getattr(theme, name))


@pytest.mark.parametrize("theme", themes.OURS, ids=lambda theme: theme.name)
def test_every_text_of_our_themes_has_enough_contrast_on_every_ground(theme):
    pairs = (*product((*TEXTS, *(f"series-{place}" for place in range(2, 6))), GROUNDS), *MORE)
    assert not [(a, b) for a, b in pairs if contrast(colour(theme, a), colour(theme, b)) < MIN_TEXT]


@pytest.mark.parametrize("name", ["panel", "line", "axis", "quiet"])
def test_of_256_colours_the_nearest_to_a_grey_of_the_dark_theme_is_grey(name):
    near = Color.parse(colour(themes.DARK, name)).downgrade(ColorSystem.EIGHT_BIT)
    assert len(set(near.get_truecolor())) == 1 and near.get_truecolor().red >= 0x30


async def test_a_crash_shows_where_it_was_and_no_values(capsys):
    class Crashing(themes.SanitizedApp[None]):
        def on_mount(self) -> None:
            secret = "4" * 8
            raise ValueError("\x1b]0;title\x07 it broke" if secret else "")

    app = Crashing()
    with pytest.raises(ValueError, match="it broke"):
        async with app.run_test():
            pass
    text = "".join(capsys.readouterr())
    assert "it broke" in text and "on_mount" in text and "44444444" not in text and "\x1b" not in text
    assert sorted(app.available_themes) == ["labtui-dark", "labtui-light"]
    assert app.console.get_style("markdown.block_quote").color is None, "an answer's quote is no error"


async def test_leaving_while_a_widget_is_made_is_no_error():
    app = themes.SanitizedApp[None]()
    async with app.run_test():
        app.exit()
        for error in (NoMatches("its parts were not mounted"), widget.MountError("nor was it itself")):
            app._handle_exception(error)
    assert not app.return_code
    with pytest.raises(NoMatches, match="a name is wrong"):
        async with (app := themes.SanitizedApp[None]()).run_test():
            app._handle_exception(NoMatches("a name is wrong"))
