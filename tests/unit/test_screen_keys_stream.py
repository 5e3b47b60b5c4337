from collections.abc import Callable, Iterator

import pytest
from prompt_toolkit.keys import Keys
from support.screen_inside import FakeClock

from fluzo.screens.key_stream import FOCUS_IN, FOCUS_OUT, TAIL_SECONDS, KeyStream, register_keys
from fluzo.screens.key_table import NEWLINE_KEY, canonical, key_table

ENTER, ESC = Keys.ControlM, Keys.Escape
ALT_ENTER = [ESC, ENTER]


@pytest.fixture(autouse=True)
def known_keys() -> None:
    register_keys()


def stream(reports: list[str] | None = None, clock: Callable[[], float] = lambda: 0.0) -> KeyStream:
    def on_report(report: str) -> bool:
        if reports is not None:
            reports.append(report)
        return reports is not None

    return KeyStream(on_report, clock)


def pressed(*pieces: str) -> list[Keys | str]:
    """The keys that come of a terminal's bytes, read in these pieces, when then nothing more comes."""
    keys = stream()
    found = [press for piece in pieces for press in keys.feed(piece)]
    return [press.key for press in (*found, *keys.flush())]


def typed(*pieces: str) -> str:
    """The text that would reach a buffer."""
    keys = stream()
    found = [press for piece in pieces for press in keys.feed(piece)]
    return "".join(press.data for press in (*found, *keys.flush()))


# What each terminal sends for Shift+Enter, Alt+Enter, Ctrl+J, Esc, F1, F5, F12, focus in and focus out. Where a
# terminal cannot tell Shift+Enter from Enter, that is what is expected.
XTERM = ("\x1b[27;2;13~", "\x1b\r", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
KITTY = ("\x1b[13;2u", "\x1b[13;3u", "\x1b[106;5u", "\x1b[27u", "\x1b[P", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
KITTY_NUM_LOCK = (
    "\x1b[13;130u",
    "\x1b[13;131u",
    "\x1b[106;133u",
    "\x1b[27;129u",
    "\x1b[1;129P",
    "\x1b[15;129~",
    "\x1b[24;129~",
    "\x1b[I",
    "\x1b[O",
)
GHOSTTY = ("\x1b[13;2u", "\x1b[13;3u", "\x1b[106;5u", "\x1b[27u", "\x1b[P", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
GHOSTTY_LEGACY = ("\x1b[27;2;13~", "\x1b\r", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
WEZTERM = ("\x1b[27;2;13~", "\x1b\r", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
ITERM2 = ("\x1b[27;2;13~", "\x1b[27;3;13~", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
WINDOWS_TERMINAL = ("\r", "\x1b\r", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
TMUX = ("\x1b[27;2;13~", "\x1b[27;3;13~", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
TMUX_CSI_U = ("\x1b[13;2u", "\x1b[13;3u", "\n", "\x1b", "\x1bOP", "\x1b[15~", "\x1b[24~", "\x1b[I", "\x1b[O")
RECORDED = {
    "xterm": XTERM,
    "kitty": KITTY,
    "kitty with num lock": KITTY_NUM_LOCK,
    "ghostty": GHOSTTY,
    "ghostty without the protocol": GHOSTTY_LEGACY,
    "wezterm": WEZTERM,
    "iterm2": ITERM2,
    "windows terminal": WINDOWS_TERMINAL,
    "tmux": TMUX,
    "tmux with csi-u": TMUX_CSI_U,
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("split", ["whole", "by bytes"])
def test_what_each_terminal_sends_is_the_key_that_was_pressed(name: str, split: str) -> None:
    shift_enter = ENTER if name == "windows terminal" else NEWLINE_KEY
    meant = (
        [shift_enter],
        ALT_ENTER,
        [Keys.ControlJ],
        [ESC],
        [Keys.F1],
        [Keys.F5],
        [Keys.F12],
        [FOCUS_IN],
        [FOCUS_OUT],
    )
    for sent, expected in zip(RECORDED[name], meant, strict=True):
        assert pressed(*(sent if split == "by bytes" else (sent,))) == expected, repr(sent)
        assert typed(sent) == ""


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("\x1b[99;5u", Keys.ControlC),
        ("\x1b[99;133u", Keys.ControlC),
        ("\x1b[99;69u", Keys.ControlC),
        ("\x1b[1089::99;5u", Keys.ControlC),
        ("\x1b[122;5u", Keys.ControlZ),
        ("\x1b[32;5u", Keys.ControlAt),
        ("\x1b[47;5u", Keys.ControlUnderscore),
        ("\x1b[9;2u", Keys.BackTab),
        ("\x1b[127;5u", Keys.ControlH),
        ("\x1b[57414u", ENTER),
        ("\x1b[57417u", Keys.Left),
        ("\x1b[57417;5u", Keys.ControlLeft),
        ("\x1b[57421u", Keys.PageUp),
        ("\x1b[1;129A", Keys.Up),
        ("\x1b[1;133D", Keys.ControlLeft),
        ("\x1b[3;129~", Keys.Delete),
        ("\x1b[27;5;99~", Keys.ControlC),
        ("\x1b[[A", Keys.F1),
    ],
)
def test_a_numbered_key_is_the_key_it_stands_for(sent: str, key: Keys) -> None:
    assert pressed(sent) == [key]
    assert typed(sent) == ""


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b[110;3u", [ESC, "n"]),
        ("\x1b[97;4u", [ESC, "A"]),
        ("\x1b[97:65;4u", [ESC, "A"]),
        ("\x1b[49:33;4u", [ESC, "!"]),
        ("\x1b[102;7u", [ESC, Keys.ControlF]),
        ("\x1b[27;3;110~", [ESC, "n"]),
    ],
)
def test_an_alt_key_is_escape_and_the_key_and_types_nothing(sent: str, keys: list[Keys | str]) -> None:
    assert pressed(sent) == keys
    assert typed(sent) == ""


@pytest.mark.parametrize(("sent", "text"), [("\x1b[32;2u", " "), ("\x1b[97;2u", "A"), ("\x1b[57404u", "5")])
def test_a_numbered_key_that_types_text_types_it(sent: str, text: str) -> None:
    assert typed(sent) == text


def test_every_key_that_is_asked_for_has_a_meaning() -> None:
    table = key_table()
    for code in (27, 9, 13, 127, *range(33, 127)):
        for held in range(1, 9):
            for sent in (f"\x1b[{code};{held}u", f"\x1b[27;{held};{code}~"):
                plain = canonical(sent)
                assert plain in table or (len(plain) == 1 and plain.isprintable()), repr(sent)
    for key in range(ord("a"), ord("z") + 1):
        assert table[f"\x1b[{key};5u"] is Keys(f"c-{chr(key)}")


def test_the_spare_keys_are_sent_by_nothing_else() -> None:
    for shifted_function_key in ("\x1b[21;2~", "\x1b[23;2~", "\x1b[24;2~"):
        assert pressed(shifted_function_key) == [Keys.Ignore]


# --- what nobody knows ----------------------------------------------------------------------------------------

UNKNOWN = [
    "\x1b[99;9u",
    "\x1b[57358u",
    "\x1b[233;5u",
    "\x1b[1;2R",
    "\x1b[?62;4c",
    "\x1b[>1;10;0c",
    "\x1b[200;7~",
    "\x1b[=3u",
    "\x1b[12;34;56;78z",
    "\x1bOM",
    "\x1b]11;rgb:0000/1111/2222\x07",
    "\x1b]11;rgb:0000/1111/2222\x1b\\",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Gi=1;OK\x1b\\",
    "\x1b[" + "1;" * 200 + "z",
]


@pytest.mark.parametrize("sent", UNKNOWN)
def test_an_unknown_sequence_reaches_no_buffer(sent: str) -> None:
    assert typed(f"a{sent}b") == "ab"
    assert pressed(sent) == []


def splits(sent: str) -> Iterator[tuple[str, str]]:
    return ((sent[:at], sent[at:]) for at in range(1, len(sent)))


@pytest.mark.parametrize("sent", [*UNKNOWN[:10], *UNKNOWN[-1:]])
def test_an_unknown_sequence_in_pieces_reaches_no_buffer(sent: str) -> None:
    for head, tail in splits(sent):
        assert typed(head, f"{tail}b") == "b", (head, tail)


@pytest.mark.parametrize("sent", ["\x1b[13;2u", "\x1b[99;9u", "\x1b[24~", "\x1b[1;129A"])
def test_a_tail_that_comes_right_after_its_head_was_given_up_is_no_text(sent: str) -> None:
    for head, tail in splits(sent):
        clock = FakeClock()
        keys = stream(clock=clock)
        keys.feed(head)
        first = keys.flush()
        assert [press.key for press in first] in ([], [ESC])
        clock.time += TAIL_SECONDS / 2
        assert "".join(press.data for press in (*keys.feed(tail), *keys.flush())) == "", (head, tail)


def test_what_a_person_types_after_an_escape_is_text() -> None:
    clock = FakeClock()
    keys = stream(clock=clock)
    keys.feed("\x1b")
    assert [press.key for press in keys.flush()] == [ESC]
    clock.time += TAIL_SECONDS * 2
    assert "".join(press.data for press in keys.feed("[1;2u")) == "[1;2u"


def test_a_lone_escape_waits_for_the_flush_and_only_for_it() -> None:
    keys = stream()
    assert keys.feed("\x1b") == []
    assert [press.key for press in keys.flush()] == [ESC]
    assert keys.flush() == []


# --- answers and pastes ---------------------------------------------------------------------------------------


def test_answers_of_the_terminal_go_to_who_asked_and_type_nothing() -> None:
    reports: list[str] = []
    keys = stream(reports)
    found = [*keys.feed("a\x1b[?0"), *keys.feed("u\x1b[1;3Rb")]
    assert [press.data for press in found] == ["a", "b"]
    assert reports == ["\x1b[?0u", "\x1b[1;3R"]


def test_a_paste_passes_whole_and_ends_at_its_mark_however_it_comes() -> None:
    text = "x\x1b[13;2u\x1b]52;c;eA==\x07y"
    sent = f"\x1b[200~{text}\x1b[201~\x1b[99;9uz"
    for head, tail in splits(sent):
        keys = stream()
        found = [*keys.feed(head), *keys.feed(tail), *keys.flush()]
        assert [press.data for press in found if press.key == Keys.BracketedPaste] == [text], head
        assert [press.key for press in found if press.key != Keys.BracketedPaste] == ["z"], head
