"""Changes to a `.fluzo` that exists: only the edited keys move, comments and order stay.

Invariant: what is saved was validated as a whole, and differs from the file on disk in the edited keys alone. This
module owns tomlkit and is loaded only when something is saved.
"""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Item

from fluzo.core.errors import ConfigError
from fluzo.core.settings import Settings, check_settings, remove_value, set_value
from fluzo.storage import settings_file
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
    try:
        document = tomlkit.parse(text)
        for key, value in edits.items():
            if value is None:
                _remove(document, key.split("."))
            else:
                _put(document, key.split("."), value)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as exc:
        raise ConfigError(
            "The change could not be put into the file; nothing was saved.", hint="Change the line by hand."
        ) from exc


def _put(document: Any, path: list[str], value: object) -> None:
    *parents, name = path
    table = document
    for parent in parents:
        if parent not in table:
            table.add(parent, tomlkit.table(is_super_table=parent != parents[-1]))
        table = table[parent]
    table[name] = _item(value)  # A comment behind the old value stays on its line.


def _remove(document: Any, path: list[str]) -> None:
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
        tables = tomlkit.aot()
        for entry in value:
            body = tomlkit.table()
            body.update(cast("dict[str, object]", entry))
            tables.append(body)
        return tables
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline
    return tomlkit.item(value)
