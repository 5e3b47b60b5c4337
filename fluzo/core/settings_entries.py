"""The kinds of entries that a table of the settings can be given: models, pools, standing grants.

Invariant: they are derived from `settings_model`, so that whatever a table may hold can be added, field by field.
"""

from fluzo.core.named import NamedTuple
from fluzo.core.settings_model import Settings
from fluzo.core.settings_registry import ID, SettingDescriptor, settings_of, tables_of


class EntryKind(NamedTuple):
    """One kind of what can be added to `table`; the entries of a table that is `listed` have no name.

    The keys of `settings` are whole, with `<id>` or `[]` where the entry stands.
    """

    table: str
    listed: bool
    title: str
    settings: tuple[SettingDescriptor, ...]


def entry_kinds() -> tuple[EntryKind, ...]:
    """Every kind of entry, in the order of the document."""
    found = []
    for key, kind in tables_of(Settings, ""):
        if key.endswith((".<id>", "[]")):
            table, listed = key.removesuffix(".<id>").removesuffix("[]"), key.endswith("[]")
            found.append(EntryKind(table, listed, kind.title, tuple(settings_of(kind, f"{key}."))))
    return tuple(found)


def names_entry(key: str) -> bool:
    """True for the key of a whole named entry, such as `models.coder`."""
    table, _, name = key.rpartition(".")
    return bool(ID.fullmatch(name)) and any(kind.table == table and not kind.listed for kind in entry_kinds())
