from pathlib import Path

import pytest
from prompt_toolkit.output import ColorDepth

from fluzo.screens.keys import ACTIONS, DEMO, Registry, parse_key
from fluzo.screens.layout import Rect, arrange, size_class
from fluzo.screens.logo import Tint, color_at, shades, shape, strength
from fluzo.screens.mark import letters_text
from fluzo.screens.pager import keys_document
from fluzo.screens.theme import ASCII, UNICODE, color_depth, glyphs_for, ground_color, palette, style_for
from fluzo.screens.theme_tokens import TOKENS, Token


@pytest.mark.parametrize(
    ("columns", "rows", "size"),
    [
        (59, 24, "too small"),
        (80, 15, "too small"),
        (60, 16, "compact"),
        (80, 24, "compact"),
        (111, 40, "compact"),
        (112, 28, "standard"),
        (120, 40, "standard"),
        (149, 50, "standard"),
        (160, 50, "wide"),
    ],
)
def test_breakpoints(columns: int, rows: int, size: str) -> None:
    assert size_class(columns, rows) == size


def test_rectangles_never_overlap_nor_leave_the_screen() -> None:
    for columns in (60, 80, 112, 120, 160, 200):
        for rows in (16, 24, 28, 40, 50):
            for card in (0, 6, 14, 40):
                for composer in (1, 5, 20):
                    plan = arrange(columns, rows, card, composer)
                    areas = [
                        plan.header,
                        plan.sidebar,
                        plan.transcript,
                        plan.card,
                        plan.rule,
                        plan.composer,
                        plan.status,
                    ]
                    shown = [area for area in areas if area.width and area.height]
                    assert all(area.x + area.width <= columns and area.y + area.height <= rows for area in shown)
                    assert not any(a.overlaps(b) for a in shown for b in shown if a is not b)
                    assert sum(area.width * area.height for area in shown) == columns * rows
                    assert plan.composer.height >= 1


def test_the_transcript_beside_the_sidebar_is_never_narrower_than_without() -> None:
    assert arrange(112, 28, 0, 1).transcript.width == 79
    assert arrange(120, 40, 0, 1).transcript.width == 87
    assert arrange(160, 50, 0, 1).transcript.width == 119
    assert arrange(120, 40, 0, 1, sidebar_hidden=True).transcript.width == 120


# --- keys -----------------------------------------------------------------------------------------------------


def test_no_two_actions_share_a_key_in_one_context() -> None:
    seen: dict[tuple[str, tuple[str, ...]], str] = {}
    for action in ACTIONS:
        for key in action.keys:
            place = (action.context, parse_key(key))
            assert place not in seen, f"{action.id} and {seen.get(place)} share {key}"
            seen[place] = action.id


def test_every_action_has_a_title_and_one_of_key_and_command() -> None:
    names = [action.slash for action in ACTIONS if action.slash]
    assert len(names) == len(set(names))
    for action in ACTIONS:
        assert action.title
        assert action.keys or action.slash, action.id


def test_the_document_of_the_keys_is_the_registry() -> None:
    assert (Path(__file__).parents[2] / "docs" / "keys.md").read_text() == keys_document(Registry((*ACTIONS, *DEMO)))


def test_nothing_that_can_be_called_by_name_approves() -> None:
    for action in Registry().commands():
        assert "allow" not in action.title.lower()
        assert "approve" not in action.title.lower()
        assert action.id.split(".")[0] not in ("allow", "approve")


def test_readline_keys_stay_free_for_editing() -> None:
    taken = {key for action in ACTIONS if action.context in ("global", "composer") for key in action.keys}
    assert taken.isdisjoint({"Ctrl+A", "Ctrl+E", "Ctrl+B", "Ctrl+F", "Ctrl+K", "Ctrl+U", "Ctrl+W", "Ctrl+Y", "Alt+B"})


@pytest.mark.parametrize(
    ("shown", "keys"),
    [
        ("Ctrl+P", ("c-p",)),
        ("Alt+N", ("escape", "n")),
        ("Alt+Up", ("escape", "up")),
        ("PgUp", ("pageup",)),
        ("F8", ("f8",)),
        ("Ctrl+End", ("c-end",)),
        ("Shift+Enter", ("f24",)),
        ("G", ("G",)),
    ],
)
def test_keys_are_read_as_people_write_them(shown: str, keys: tuple[str, ...]) -> None:
    assert parse_key(shown) == keys


# --- colours --------------------------------------------------------------------------------------------------


def luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(fore: str, back: str) -> float:
    light, dark = sorted((luminance(fore), luminance(back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


BY_NAME = {token.name: token for token in TOKENS}
TEXT = [t for t in TOKENS if not t.background and not t.name.startswith(("border", "scrollbar"))]
SURFACES = ("bg.base", "bg.raised", "bg.overlay", "bg.code")
OWN_GROUND = {"text.on_select": "bg.select", "yolo.fg": "yolo.bg", "danger.fg": "danger.bg"}


@pytest.mark.parametrize("token", TEXT, ids=lambda token: token.name)
def test_text_can_be_read_on_every_surface_it_uses(token: Token) -> None:
    grounds = [OWN_GROUND[token.name]] if token.name in OWN_GROUND else SURFACES
    for ground in grounds:
        assert contrast(token.default, BY_NAME[ground].default) >= 4.5
        assert contrast(token.contrast, BY_NAME[ground].contrast) >= 7


@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("text.on_select", "search.match"),
        ("text.primary", "diff.add.bg"),
        ("text.primary", "diff.del.bg"),
        ("diff.add.fg", "diff.add.bg"),
        ("diff.add.fg", "diff.add.word"),
        ("diff.del.fg", "diff.del.bg"),
        ("diff.del.fg", "diff.del.word"),
        ("diff.gutter", "diff.add.bg"),
        ("diff.gutter", "diff.del.bg"),
    ],
)
def test_text_can_be_read_on_the_grounds_that_mark_it(text: str, ground: str) -> None:
    assert contrast(BY_NAME[text].default, BY_NAME[ground].default) >= 4.5
    assert contrast(BY_NAME[text].contrast, BY_NAME[ground].contrast) >= 7


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"NO_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color"}, ColorDepth.DEPTH_1_BIT),
        ({"COLORTERM": "truecolor", "TERM": "xterm-256color"}, ColorDepth.TRUE_COLOR),
        ({"TERM": "xterm-direct"}, ColorDepth.TRUE_COLOR),
        ({"TERM": "screen-256color"}, ColorDepth.DEPTH_8_BIT),
        ({"TERM": "linux"}, ColorDepth.DEPTH_4_BIT),
        ({"TERM": "dumb"}, ColorDepth.DEPTH_1_BIT),
    ],
)
def test_the_terminal_says_how_many_colours_it_has(environ: dict[str, str], depth: ColorDepth) -> None:
    assert color_depth(environ) is depth


def test_every_theme_and_depth_has_a_style() -> None:
    for theme in ("default", "high-contrast"):
        for depth in ColorDepth:
            assert style_for(theme, depth).style_rules


def test_with_sixteen_colours_every_ground_is_painted_so_that_a_light_terminal_changes_nothing() -> None:
    for theme in ("default", "high-contrast"):
        rules = dict(style_for(theme, ColorDepth.DEPTH_4_BIT).style_rules)
        assert rules["bg.base"] == "bg:ansiblack"
        assert not any("default" in rule for rule in rules.values())
        ground = ground_color(theme, ColorDepth.DEPTH_4_BIT)
        tint = Tint("running", 0.3, theme, ColorDepth.DEPTH_4_BIT, True)
        assert "\x1b[40m" in letters_text(Rect(1, 0, 5, 1), tint, ground)


def test_without_colour_no_style_has_any() -> None:
    rules = style_for("default", ColorDepth.DEPTH_1_BIT).style_rules
    assert not any("#" in rule or "ansi" in rule for _, rule in rules)


def test_palette_indices_are_their_own_colours() -> None:
    assert (palette(16), palette(231), palette(233), palette(69)) == ("#000000", "#ffffff", "#121212", "#5f87ff")


def test_glyphs_follow_the_encoding() -> None:
    assert glyphs_for("utf-8", {"TERM": "xterm"}) is UNICODE
    assert glyphs_for("ANSI_X3.4-1968", {"TERM": "xterm"}) is ASCII
    assert glyphs_for("utf-8", {"TERM": "xterm", "LC_ALL": "C"}) is ASCII
    assert glyphs_for("utf-8", {"TERM": "xterm", "LC_ALL": "C.UTF-8"}) is UNICODE
    assert all(glyph.isascii() for glyph in ASCII)


# --- the mark -------------------------------------------------------------------------------------------------


def test_the_mark_is_thirty_by_three_and_its_letters_are_lit() -> None:
    rows = shape()
    assert [len(row) for row in rows] == [30, 30, 30]
    assert "".join(cell.text for cell in rows[0]).startswith("█▀▀▀▀")
    plain = shape(shadows=False)
    assert ["".join(cell.text for cell in row).rstrip() for row in plain] == [
        "█▀▀▀▀ █     █   █ ▀▀▀█▀ ▄▀▀▀▄",
        "█▀▀▀  █     █   █  ▄▀   █   █",
        "▀     ▀▀▀▀▀  ▀▀▀  ▀▀▀▀▀  ▀▀▀",
    ]
    assert shades(Tint("idle", 0.0, "default", ColorDepth.DEPTH_1_BIT, True), 0) == (None, None)
    assert shades(Tint("failed", 0.0, "default", ColorDepth.TRUE_COLOR, True), 0)[1] == (82, 29, 29)


@pytest.mark.parametrize(
    ("state", "seconds", "expected"),
    [
        ("idle", 5.0, 0.55),
        ("waiting", 0.0, 0.9),
        ("waiting", 1.5, 0.6),
        ("completed", 0.0, 1.0),
        ("completed", 1.0, 0.65),
        ("completed", 9.0, 0.65),
        ("failed", 3.0, 1.0),
    ],
)
def test_brightness_follows_the_state_and_its_time(state: str, seconds: float, expected: float) -> None:
    assert strength(state, 0.5, seconds, moving=True) == pytest.approx(expected)


def test_running_pulses_move_inward_with_their_period() -> None:
    at_ends = [strength("running", 0.0, t / 10, moving=True) for t in range(16)]
    assert max(at_ends) == pytest.approx(1.0)
    assert min(at_ends) == pytest.approx(0.5)
    assert strength("running", 0.2, 0.7, moving=True) == pytest.approx(strength("running", 0.8, 0.7, moving=True))
    assert strength("running", 0.3, 0.4, moving=True) == pytest.approx(strength("running", 0.3, 2.0, moving=True))
    assert strength("running", 0.3, 0.4, moving=False) == 1.0


def test_tints_are_those_of_the_artwork() -> None:
    assert color_at("failed", 3, 0.0, "default", moving=True) == (255, 90, 90)
    assert color_at("cancelled", 3, 0.0, "default", moving=True) == (133, 131, 146)
    assert color_at("idle", 0, 0.0, "default", moving=True) == (26, 123, 123)
