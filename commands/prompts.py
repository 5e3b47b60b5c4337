"""Questions on a terminal: the questionary prompts, in one style, and one form for any setting of the registry.

Invariant: Ctrl+C and Ctrl+D leave at once by KeyboardInterrupt or EOFError, which the caller lets pass; nothing is
written here. Loaded only when a person is to be asked.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

import questionary

from fluzo.core.errors import UsageError
from fluzo.core.redact import printable
from fluzo.core.settings import SettingDescriptor, describe, parse_value, render

T = TypeVar("T")
Check = Callable[[str], str]
"""What is wrong with a typed answer, or an empty text."""

_STYLE = questionary.Style(
    [
        ("qmark", "fg:ansicyan"),
        ("question", "bold"),
        ("answer", "fg:ansicyan"),
        ("pointer", "fg:ansicyan bold"),
        ("highlighted", "fg:ansicyan"),
        ("selected", "fg:ansicyan"),
        ("instruction", "fg:ansibrightblack"),
    ]
)


def _pointer() -> str:
    """A pointer that the terminal's encoding has."""
    try:
        "▸".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ">"
    return "▸"


def say(text: str = "") -> None:
    """A line for the person; control characters are made visible."""
    print(printable(text), flush=True)


def ask_text(prompt: str, *, default: str = "", check: Check = lambda text: "") -> str:
    """One line of text that passes `check`."""

    def validate(text: str) -> bool | str:
        return check(text) or True

    return cast(
        "str", questionary.text(f"{prompt}:", default=default, validate=validate, style=_STYLE).unsafe_ask()
    ).strip()


def ask_yes(prompt: str, *, default: bool) -> bool:
    return bool(questionary.confirm(prompt, default=default, style=_STYLE).unsafe_ask())


def choose(prompt: str, options: Sequence[tuple[str, T]], *, default: T | None = None) -> T:
    """One of `options` (shown text, value); many of them can be narrowed by typing."""
    choices = [
        questionary.Choice(printable(title, keep_newlines=False), value=index)
        for index, (title, _) in enumerate(options)
    ]
    wanted = [index for index, (_, value) in enumerate(options) if default is not None and value == default]
    start = wanted[0] if wanted else 0
    many = len(options) > 12
    picked = questionary.select(
        prompt,
        choices=choices,
        default=choices[start],
        pointer=_pointer(),
        style=_STYLE,
        use_search_filter=many,
        use_jk_keys=not many,
        instruction="(type to narrow, Enter to choose)" if many else "(arrows, then Enter)",
    ).unsafe_ask()
    return options[cast("int", picked)][1]


def choose_several(prompt: str, options: Sequence[tuple[str, T]], *, checked: int = 1) -> list[T]:
    """Any of `options`; the first `checked` are chosen at the start."""
    choices = [
        questionary.Choice(printable(title, keep_newlines=False), value=index, checked=index < checked)
        for index, (title, _) in enumerate(options)
    ]
    picked = questionary.checkbox(
        prompt, choices=choices, pointer=_pointer(), style=_STYLE, instruction="(Space marks, Enter goes on)"
    ).unsafe_ask()
    return [options[index][1] for index in cast("list[int]", picked)]


def ask_setting(key: str, current: object) -> object:
    """A new value for one setting, typed and within its range; Enter keeps the current one."""
    setting = describe(key)
    say(f"  {setting.description}." + (f" Unit: {setting.unit}." if setting.unit else ""))
    if setting.kind == "boolean" and not setting.options:
        return ask_yes(f"{key}?", default=bool(current))
    if setting.options:
        values: list[tuple[str, object]] = [(word, parse_value(key, word)) for word in setting.options]
        return choose(f"{key}:", values, default=current)
    shown = current if isinstance(current, str) else render(current)
    return parse_value(key, ask_text(key, default=shown, check=lambda text: _problem(setting, key, text)))


def _problem(setting: SettingDescriptor, key: str, text: str) -> str:
    try:
        value = parse_value(key, text.strip())
    except UsageError as exc:
        return exc.message
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = setting.minimum, setting.maximum
        if low is not None and high is not None and not low <= value <= high:
            return f"Give a value from {low} to {high} ({setting.unit})."
    return ""


def edit_settings(
    values: Mapping[str, object], keys: Sequence[str], edits: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Let the person change any of `keys` until they are done; return all that differs from `values`."""
    changed = dict(edits or {})
    while True:
        options: list[tuple[str, str]] = [
            (_row(key, changed.get(key, values[key]), key in changed), key) for key in keys
        ]
        picked = choose("Setting:", [("Done", ""), *options])
        if not picked:
            return {key: value for key, value in changed.items() if value != values[key]}
        changed[picked] = ask_setting(picked, changed.get(picked, values[picked]))


def _row(key: str, value: object, edited: bool) -> str:
    return f"{key} = {render(value)}{'  (changed)' if edited else ''}"
