"""What only the demo shows: notices that nothing caused, the mark in states that no task has, the card of widths.

Invariant: nothing here touches the state of a task or of the session; a page that shows made-up states says so.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.layout import AnyContainer, HSplit, Window

from .chrome import WORDS
from .demo import PickList, moving, page
from .layout import Rect
from .logo import COLUMNS, ROWS
from .motion import pixel_place
from .notice import Level
from .pager import Pager
from .render import RAIL
from .text import Line, cells, drawable
from .theme import ASCII
from .views import Specimen, View

if TYPE_CHECKING:
    from .app import Screen

STATES: Mapping[str, str] = {
    "idle": "nothing runs, nothing is asked",
    "running": "the model or a tool works: pulses run inward",
    "waiting": "you must answer: amber, a slow pulse",
    "blocked": "cannot go on for an outer cause: amber, still",
    "completed": "ended well: lights up once for a second, then rests",
    "failed": "ended with an error: red, still",
    "queued": "another task writes, or there is no slot: dim, still",
    "stopping": "a cancel was asked for: amber, still",
    "cancelled": "you stopped it: grey, still",
    "recovered": "was cut off and is only read: dim, still",
}
RATES = (60, 30, 15, 0)
"""Key to frames per second."""

SAMPLES = (
    ("plain", "The quick brown fox"),
    ("CJK", "\u4e2d\u6587\u5b57\u7b26\u5bbd\u5ea6"),
    ("kana", "\u304b\u306a \u30ab\u30bf\u30ab\u30ca"),
    ("half-width kana", "\uff76\uff80\uff76\uff85"),
    ("full-width", "\uff21\uff22\uff23\uff11\uff12\uff13"),
    ("Hangul", "\ud55c\uad6d\uc5b4"),
    ("Hangul, parts", "\u1112\u1161\u11ab"),
    ("combining", "e\u0301 a\u0308 n\u0303 s\u0323\u0307"),
    ("stacked", "Z\u0351\u0310\u030c\u0300"),
    ("Thai", "\u0e01\u0e49\u0e33 \u0e19\u0e49\u0e33"),
    ("Devanagari", "\u0928\u092e\u0938\u094d\u0924\u0947"),
    ("Arabic", "\u0645\u0631\u062d\u0628\u0627"),
    ("Hebrew", "\u05e9\u05dc\u05d5\u05dd"),
    ("emoji", "\U0001f600 \U0001f389 \U0001f680"),
    ("emoji, joined", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308"),
    ("emoji, skin", "\U0001f44d\U0001f3fd \U0001f44b\U0001f3ff"),
    ("flags", "\U0001f1e9\U0001f1ea \U0001f1ef\U0001f1f5"),
    ("text or emoji", "\u26a0\ufe0f \u2764\ufe0f \u2600"),
    ("keycap", "1\ufe0f\u20e3 #\ufe0f\u20e3"),
    ("ambiguous", "\u00b1 \u00a7 \u00b0 \u2192 \u25a0 \u2026"),
    ("boxes, blocks", "\u250c\u2500\u2510 \u2588\u2580\u2584 \u25b8 \u2713 \u2717"),
    ("zero width", "a\u200bb\u2060c\u00add"),
)
"""Written as escapes, so that no editor changes them."""

_NAME, _SAMPLE = 18, 24


def post_notices(screen: "Screen") -> None:
    """One notice of each level, and one that is too long."""
    texts: dict[Level, str] = {
        "info": "for your information, nothing to do",
        "done": "something would have ended well",
        "warn": "something would want your attention",
        "error": "something would have gone wrong; F4 would tell more",
    }
    for level, text in texts.items():
        screen.board.post(f"made-up:{level}:{screen.now()}", level, f"Made up: {level}", text)
    long = "a text that is longer than its frame, with \u4e2d\u6587 and \U0001f600 in it, is cut at a whole character"
    screen.board.post(f"made-up:long:{screen.now()}", "info", "Made up: a long one", long)


def width_card() -> str:
    """The samples as the screen draws them, each padded to the same column, with a ruler above and below."""
    ruler = (
        " " * _NAME + "".join(str(column // 10 % 10) if column % 10 == 0 else "." for column in range(_SAMPLE)) + "|"
    )
    rows = [ruler]
    for name, sample in SAMPLES:
        shown = drawable(sample)
        pad = " " * (_SAMPLE - cells(shown))
        rows.append(f"{name:<{_NAME}}{shown}{pad}| {cells(shown)} cells")
    return "\n".join([*rows, ruler])


class States:
    """A page view; the mark at its top is in the state that is lit."""

    kind: Literal["page", "float"] = "page"

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._lit = 0
        self._words = tuple(STATES)
        more: dict[str, Callable[[], None]] = {f"demo.fps_{rate}": self._rate_key(rate) for rate in RATES}
        keys = moving(screen, self._move, len(STATES), {**more, "demo.motion": self._reduce})
        self.focus = Window(PickList(self._rows, lambda: self._lit, self._move, keys), always_hide_cursor=True)
        self._mark = Window(height=ROWS, always_hide_cursor=True)
        self.container: AnyContainer = HSplit([self._mark, page(screen, self._head, self.focus, self._about, 2)])

    @property
    def specimen(self) -> Specimen:
        place = pixel_place(Rect(0, 0, COLUMNS + 1, ROWS), blocks=self._screen.glyphs is not ASCII)
        return Specimen(self._mark, place, self._words[self._lit])

    def hints(self) -> str:
        key = self._screen.registry.key
        rates = " ".join(key(f"demo.fps_{rate}") for rate in RATES)
        return f"{rates} rate  {key('demo.motion')} reduced  {key('demo.up')}/{key('demo.down')} state  Esc back"

    def refresh(self) -> None:
        """What is shown here is nobody's state."""

    def _head(self) -> Line:
        motion = self._screen.motion
        how = "reduced motion" if motion.reduced else f"{motion.rate} frames per second"
        return [("", " "), ("class:warn.fg", "MADE UP"), ("class:text.muted", f"  no task is in these states  {how}")]

    def _rows(self, width: int) -> list[Line]:
        rows: list[Line] = []
        for word, text in STATES.items():
            lit = word == self._words[self._lit]
            style = "class:state.recovered" if word == "recovered" else RAIL.get(word, "class:state.idle")
            rows.append(
                [
                    ("class:text.strong", " > " if lit else "   "),
                    (style, f"{WORDS.get(word, word):<11}"),
                    ("class:text.primary" if lit else "class:text.muted", text),
                ]
            )
        return rows

    def _about(self) -> list[Line]:
        return [
            [("class:text.muted", " 6, 3, 1 and 0 are 60, 30, 15 and 0 frames per second; r is reduced motion.")],
            [("class:text.muted", " What you choose here counts until you leave the demo.")],
        ]

    def _move(self, rows: int) -> None:
        self._lit = max(0, min(self._lit + rows, len(STATES) - 1))

    def _rate_key(self, rate: int) -> Callable[[], None]:
        screen = self._screen
        return lambda: screen.prefer(screen.preferences._replace(animation_fps=rate, reduced_motion=False))

    def _reduce(self) -> None:
        screen = self._screen
        screen.prefer(screen.preferences._replace(reduced_motion=not screen.preferences.reduced_motion))


PAGES: Mapping[str, "Callable[[Screen], View]"] = {
    "states": States,
    "widths": lambda screen: Pager(screen, "Width card: every row ends at the same bar", width_card()),
}
