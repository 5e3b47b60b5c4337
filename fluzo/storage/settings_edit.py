"""Changes to a `.fluzo` that exists: only the edited keys move, comments and order stay.

Invariant: what is saved was validated as a whole, and differs from the file on disk in the edited keys alone. This
module owns tomlkit and is loaded only when something is saved.
"""

import tomllib
from collections.abc import Mapping
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Item

from fluzo.core.errors import ConfigError
from fluzo.core.settings import check_settings, set_value
from fluzo.storage import settings_file
from fluzo.storage.settings_file import SettingsText


def save(file: SettingsText, edits: Mapping[str, object], *, rebase: bool = False) -> SettingsText:
    """Save `edits` (concrete key -> plain value) into the file that `file` was read from; return what is there now.

    With `rebase` the edits go on top of whatever is on disk now, so that outside changes survive; without it a file
    that moved is a conflict. Raises ConfigError: `configuration_conflict`, or `configuration_invalid` when the result
    would not be valid or the disk refuses. The file is then as it was.
    """
    current = settings_file.read(file.path)
    if current.version != file.version and not rebase:
        raise settings_file.conflict(file.path)
    data = settings_file.parse(current)
    wanted: dict[str, object] = dict(data)
    for key, value in edits.items():
        wanted = set_value(wanted, key, value)
    text = _edited(current.text, edits)
    candidate = SettingsText(current.path, text, settings_file.version_of(text.encode()), current.mode)
    settings, problems = check_settings(wanted)
    if settings is None:
        raise settings_file.invalid(candidate, problems)
    if tomllib.loads(text) != wanted:
        raise ConfigError(
            "The file is laid out in a way that cannot be edited without touching other keys; nothing was saved.",
            hint="Change the line by hand.",
        )
    settings_file.replace(current.path, text, current.version)
    return candidate


def _edited(text: str, edits: Mapping[str, object]) -> str:
    try:
        document = tomlkit.parse(text)
        for key, value in edits.items():
            *parents, name = key.split(".")
            table: Any = document
            for parent in parents:
                if parent not in table:
                    table.add(parent, tomlkit.table(is_super_table=parent != parents[-1]))
                table = table[parent]
            table[name] = _item(value)  # A comment behind the old value stays on its line.
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as exc:
        raise ConfigError(
            "The change could not be put into the file; nothing was saved.", hint="Change the line by hand."
        ) from exc


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
