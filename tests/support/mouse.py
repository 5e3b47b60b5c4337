"""The mouse as a terminal reports it, at cells counted from zero."""

from support.screen_inside import ScriptedScreen


def press(shown: ScriptedScreen, x: int, y: int) -> None:
    shown.keys(f"\x1b[<0;{x + 1};{y + 1}M")


def drag(shown: ScriptedScreen, x: int, y: int) -> None:
    shown.keys(f"\x1b[<32;{x + 1};{y + 1}M")


def release(shown: ScriptedScreen, x: int, y: int) -> None:
    shown.keys(f"\x1b[<0;{x + 1};{y + 1}m")


def click(shown: ScriptedScreen, x: int, y: int) -> None:
    press(shown, x, y)
    release(shown, x, y)


def find(rows: list[str], text: str) -> tuple[int, int]:
    """Column and row of a text on the screen."""
    number = next(n for n, row in enumerate(rows) if text in row)
    return rows[number].index(text), number


def wheel(shown: ScriptedScreen, x: int, y: int, *, down: bool) -> None:
    shown.keys(f"\x1b[<{65 if down else 64};{x + 1};{y + 1}M")
