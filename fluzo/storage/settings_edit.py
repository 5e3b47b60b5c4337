"""Changes to a `.fluzo` that exists: only the edited keys move, comments and order stay, also those within a list.

Invariant: what is saved was validated as a whole, and differs from the file on disk in the edited keys alone. This
module owns tomlkit and is loaded only when something is saved.
"""

import tomllib
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, InlineTable, Item, Table

from fluzo.core.errors import ConfigError
from fluzo.core.settings import Settings, check_settings, remove_value, render, set_value
from fluzo.storage import settings_blocks, settings_file
from fluzo.storage.settings_file import LoadedSettings, SettingsText


def save(file: SettingsText, edits: Mapping[str, object], *, rebase: bool = False) -> SettingsText:
    """Save `edits` (concrete key -> plain value) into the file that `file` was read from; return what is there now.

    With `rebase` the edits go on top of whatever is on disk now, so that outside changes survive; without it a file
    that moved is a conflict. Raises ConfigError: `configuration_conflict`, or `configuration_invalid` when the result
    would not be valid or the disk refuses. The file is then as it was.
    """
    current = settings_file.read(file.path)
    if current.version != file.version and not rebase:
        raise settings_file.conflict(file.path)
    return save_checked(current, edits).file


def save_checked(
    current: SettingsText,
    edits: Mapping[str, object],
    flags: Mapping[str, object] | None = None,
    check: Callable[[Settings], object] = lambda settings: None,
) -> LoadedSettings:
    """Save `edits` on top of exactly `current`, None for a key that goes; return what is in force with `flags` over it.

    The file must be valid by itself and together with the flags, and `check` may refuse the settings by raising.
    Raises ConfigError as `save` does; the file is then as it was.
    """
    data = settings_file.parse(current)
    wanted: dict[str, object] = dict(data)
    for key, value in edits.items():
        wanted = remove_value(wanted, key) if value is None else set_value(wanted, key, value)
    text = _edited(current.text, edits)
    candidate = SettingsText(current.path, text, settings_file.version_of(text.encode()), current.mode)
    alone, problems = check_settings(wanted)
    if alone is None:
        raise settings_file.invalid(candidate, problems)
    loaded = settings_file.loaded(candidate, wanted, flags or {})
    check(loaded.settings)
    if _filled(tomllib.loads(text)) != _filled(wanted):
        raise ConfigError(
            "The file is laid out in a way that cannot be edited without touching other keys; nothing was saved.",
            hint="Change the line by hand.",
        )
    settings_file.replace(current.path, text, current.version)
    return loaded


def _filled(value: object) -> object:
    """Without empty tables: one that lost its last key may keep its header or go with it."""
    if not isinstance(value, Mapping):
        return value
    inner = {name: _filled(item) for name, item in value.items()}
    return {name: item for name, item in inner.items() if item != {}}


def _edited(text: str, edits: Mapping[str, object]) -> str:
    windows = text.count("\r\n") == text.count("\n") > 0
    if windows:
        text = text.replace("\r\n", "\n")
    try:
        for key, value in edits.items():
            path = tuple(key.split("."))
            before, block, after = settings_blocks.around(_laid_out(text, path, value), path)
            document = tomlkit.parse(block)
            if value is None:
                _remove(document, path)
            else:
                _put(document, path, value)
            text = before + tomlkit.dumps(document) + after
        return text.replace("\n", "\r\n") if windows else text
    except (TOMLKitError, TypeError, ValueError) as exc:
        raise ConfigError(
            "The change could not be put into the file; nothing was saved.", hint="Change the line by hand."
        ) from exc


def _laid_out(text: str, path: tuple[str, ...], value: object) -> str:
    """With the blocks that an edit adds or takes away."""
    if value is None:
        return settings_blocks.without_table(text, path)
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        return settings_blocks.with_entries(text, path, value)
    return settings_blocks.with_table(text, path[:-1])


def _put(document: Any, path: tuple[str, ...], value: object) -> None:
    *parents, name = path
    table = document
    for parent in parents:
        if parent not in table:
            inline = isinstance(table, InlineTable)
            new = tomlkit.inline_table() if inline else tomlkit.table(is_super_table=parent != parents[-1])
            table.add(parent, new)
        table = table[parent]
    old = table.get(name)
    if isinstance(old, AoT):
        return  # `_laid_out` has made it what it is to be.
    if isinstance(value, list) and value and isinstance(old, Array):
        _put_items(old, value)
    elif isinstance(value, dict) and isinstance(old, Table | InlineTable):
        for key in [key for key in old if key not in value]:
            old.remove(key)
        for key in [key for key in value if old.get(key) != value[key]]:
            old[key] = value[key]
    else:
        table[name] = _item(value)  # A comment behind the old value stays on its line.


def _put_items(old: Any, new: list[Any]) -> None:
    """Change a list item by item, so that what stands beside those that stay is kept."""
    before, after = ([render(item) for item in items] for items in (old, new))
    for tag, start, end, low, high in reversed(SequenceMatcher(None, before, after, False).get_opcodes()):
        if tag == "equal":
            continue
        for number in reversed(range(start + high - low, end)):
            del old[number]
        for number, item in enumerate(new[low:high], start):
            if number < end:
                old[number] = _item(item)
            else:
                old.insert(number, _item(item))


def _remove(document: Any, path: tuple[str, ...]) -> None:
    *parents, name = path
    table = document
    for parent in parents:
        table = table.get(parent)
        if table is None:
            return
    if name in table:
        table.remove(name)


def _item(value: object) -> Item:
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        entries = tomlkit.array()
        for entry in value:
            entries.append(_item(entry))
        return entries
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline
    return tomlkit.item(value)
