"""The settings page as a value: rows as the runtime told them, and edits that are not saved yet. Pure.

Invariant: an edit is of the setting's type and in its range, or it is refused; it is never changed into another value.
Nothing counts as saved before the runtime has said so. What must hold between settings is checked with the very rules
that the runtime saves by, over the file as it would be.
"""

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from fluzo.core.settings import (
    check_settings,
    describe,
    entry_name,
    looks_secret,
    parse_value,
    remove_value,
    render,
    set_value,
    takes,
)

Row = Mapping[str, Any]

_FIRST = ("model", "base_url", "context_window", "max_in_flight", "auth", "api_key_env", "credential_ref")
"""Of a model, what a person looks for first."""


class Form(NamedTuple):
    """`file`, `base` and `in_force` are fingerprints: of the file as last read, of the one that the edits stand on, and
    of the one that the next task's settings come from. An edit to None goes back to the default, and one of a whole
    named entry removes it. `told` are the runtime's rows and `entries` its kinds of entries; `opened` are the keys of
    what shows its items.
    """

    path: str = ""
    file: str = ""
    base: str = ""
    in_force: str = ""
    problem: str = ""
    hint: str = ""
    consent: tuple[str, ...] = ()
    told: tuple[Row, ...] = ()
    entries: tuple[Mapping[str, Any], ...] = ()
    edits: Mapping[str, Any] = {}
    opened: frozenset[str] = frozenset()

    @property
    def moved(self) -> bool:
        """The file is not the one that is in force or that was looked at, and can be read."""
        return bool(self.told) and not self.problem and self.file != self.base

    @property
    def rows(self) -> list[Row]:
        """Every setting, also of the entries that are not saved yet, which stand behind those of their table."""
        rows = list(self.told)
        for kind, name in _new_entries(self):
            start = f"{kind['table']}."
            at = max((number for number, row in enumerate(rows) if str(row["key"]).startswith(start)), default=-1)
            if at < 0:
                group = kind["rows"][0]["group"]
                at = max((number for number, row in enumerate(rows) if row["group"] == group), default=-1)
            made = [{**row, "key": str(row["key"]).replace("<id>", name)} for row in kind["rows"]]
            rows[at + 1 : at + 1] = _ordered(made)
        return rows

    def row(self, key: str) -> Row | None:
        return next((row for row in self.rows if row["key"] == key), None)


def _new_entries(form: Form) -> list[tuple[Mapping[str, Any], str]]:
    """Kind and name of each entry that only the edits know."""
    told = {tuple(str(row["key"]).split(".")[:2]) for row in form.told}
    found: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for key in form.edits:
        table, _, rest = key.partition(".")
        name, _, field = rest.partition(".")
        kinds = [kind for kind in form.entries if kind["table"] == table and not kind["listed"]]
        if not field or not kinds or (table, name) in told or (table, name) in found:
            continue
        found[table, name] = next((kind for kind in kinds if _is_of(form, kind, name)), kinds[0])
    return [(kind, name) for (_, name), kind in found.items()]


def _is_of(form: Form, kind: Mapping[str, Any], name: str) -> bool:
    fixed = [row for row in kind["rows"] if row["default"] is None and len(row["choices"]) == 1]
    return all(form.edits.get(str(row["key"]).replace("<id>", name)) == row["choices"][0] for row in fixed)


def read(form: Form, data: Mapping[str, Any]) -> Form:
    """With what the runtime told. A file that is in force is looked at; another one is until the person decides."""
    file, in_force = str(data["fingerprint"]), str(data["in_force"])
    return Form(
        path=str(data["path"]),
        file=file,
        base=in_force if file == in_force else form.base or in_force,
        in_force=in_force,
        problem=str(data["problem"]),
        hint=str(data["hint"]),
        consent=tuple(map(str, data["consent"])),
        told=tuple(_ordered(data["rows"])),
        entries=tuple(data["entries"]),
        edits=form.edits,
        opened=form.opened,
    )


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """As told, but of each model first what a person looks for first."""

    def entry(row: Row) -> str:
        parts = str(row["key"]).split(".")
        return ".".join(parts[:2]) if parts[0] == "models" else parts[0] if parts[0] == "agent" else ""

    def rank(row: Row) -> int:
        name = str(row["key"]).rpartition(".")[2]
        return _FIRST.index(name) if entry(row) and name in _FIRST else len(_FIRST)

    return [row for _, group in groupby(rows, entry) for row in sorted(group, key=rank)]


def kept(form: Form) -> Form:
    """The edits stand on top of the file as it is now."""
    return form._replace(base=form.file)


# --- edits --------------------------------------------------------------------------------------------------------


def value_of(form: Form, row: Row) -> Any:
    """What the setting, or an item of one, would be: as edited, else as saved; None when its entry is to go."""
    if row.get("path"):
        whole = form.row(str(row["root"]))
        value = dug(value_of(form, whole), row["path"]) if whole is not None else None
        return row["default"] if value is None else value
    if removal_of(form, str(row["key"])):
        return None
    if row["key"] not in form.edits:
        return row["saved"]
    edit = form.edits[row["key"]]
    return row["default"] if edit is None else edit


def removal_of(form: Form, key: str) -> str:
    """The named entry that is to go with this key in it, or nothing."""
    return next((name for name, value in form.edits.items() if value is None and key.startswith(f"{name}.")), "")


def is_edited(form: Form, row: Row) -> bool:
    """Its value, or that of the item it stands for, would be another one."""
    if row.get("path"):
        return bool(value_of(form, row) != (row["default"] if row["saved"] is None else row["saved"]))
    return row["key"] in form.edits or bool(removal_of(form, str(row["key"])))


def dug(value: Any, path: Sequence[Any]) -> Any:
    """What stands at a place in a value; None where there is nothing."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _put(value: Any, path: Sequence[Any], item: Any) -> Any:
    """A copy of a value with another item at a place, or without it for None."""
    if not path:
        return item
    part, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        left = {name: inner for name, inner in value.items() if name != part or rest or item is not None}
        return {**left, part: _put(value.get(part), rest, item)} if rest or item is not None else left
    return [_put(inner, rest, item) if number == part else inner for number, inner in enumerate(value)]


def edited(form: Form, row: Row, value: Any) -> Form:
    """With one edit, or without it when it says what the file says. An item is edited in the list that it is of."""
    if row.get("path"):
        whole = form.row(str(row["root"]))
        return edited(form, whole, _put(value_of(form, whole), row["path"], value)) if whole is not None else form
    key = str(row["key"])
    edits = {name: item for name, item in form.edits.items() if name != key}
    same = value == row["saved"] and type(value) is type(row["saved"])
    unchanged = not row["in_file"] if value is None else same and (row["in_file"] or value == row["default"])
    return form._replace(edits=edits if unchanged else {**edits, key: value})


def typed(row: Row, text: str) -> Any:
    """The value that a text means for a setting. Raises ValueError with a sentence that names key and range."""
    try:
        value = _item_typed(row, text) if row.get("path") else parse_value(str(row["key"]), text)
    except Exception as error:  # UsageError, whose module a screen does not know.
        raise ValueError(str(getattr(error, "message", error))) from error
    refusal = refused(row, value)
    if refusal:
        raise ValueError(refusal)
    return value


def _item_typed(row: Row, text: str) -> Any:
    """The value of an item of a list: a text, or a program and its arguments, quoted as in a shell."""
    if row["type"] == "command":
        try:
            return shlex.split(text)
        except ValueError as error:
            raise ValueError(f"{row['key']} is a command line, and a quote or \\ in it is open.") from error
    if not text and row["default"] is None:
        raise ValueError("An item cannot be empty. Esc leaves it as it was.")
    return text


def takes_lines(row: Row) -> bool:
    """Its text is what is run, so that a line break in it means something."""
    return row["type"] == "command" or str(row["key"]).endswith("].script")


def written(row: Row, value: Any) -> str:
    """A value as it is typed."""
    if row["type"] == "command":
        return shlex.join(value or ())
    return value if isinstance(value, str) else "" if value is None else render(value)


def check_name(text: str) -> None:
    """Raises ValueError with a sentence when a model or a pool cannot be called so."""
    try:
        entry_name(text)
    except Exception as error:  # ConfigError, whose module a screen does not know.
        raise ValueError(str(getattr(error, "message", error))) from error


def refused(row: Row, value: Any) -> str:
    """Why the setting cannot have a value, by its own type and range; empty when it can."""
    low, high = row["low"], row["high"]
    wrong = bool(row["choices"]) and not any(value == word and type(value) is type(word) for word in row["choices"])
    if isinstance(value, int | float) and not isinstance(value, bool):
        wrong = wrong or not (low is None or low <= value) or not (high is None or value <= high)
    if wrong:
        return f"{row['key']} must be {takes(describe(str(row['key'])))}."
    if looks_secret(render(value)):
        return f"{row['key']} looks like a literal secret, which does not belong here; name where it is kept instead."
    return ""


def names_in(form: Form, table: str) -> list[str]:
    """The names of a table's entries, also of one that is to be removed."""
    start = f"{table}."
    keys = (str(row["key"]) for row in form.rows)
    return list(dict.fromkeys(key.removeprefix(start).partition(".")[0] for key in keys if key.startswith(start)))


def choices(form: Form, row: Row) -> list[Any]:
    """What can be chosen: the accepted values, or the entries that a setting can name; empty where one types."""
    if not row["refers"]:
        return list(row["choices"])
    return [*([""] if row["default"] == "" else []), *names_in(form, str(row["refers"]))]


def stepped(form: Form, row: Row, step: int) -> Form:
    """The next choice, or a number one step higher or lower. Raises ValueError where there is none."""
    value, offered = value_of(form, row), choices(form, row)
    if len(offered) == 1:
        # The kind of an entry decides which settings it has, so that another kind is another entry.
        other = "; a adds an entry of another kind" if row["default"] is None else ""
        raise ValueError(f"{row['key']} has this one value{other}.")
    if offered:
        at = offered.index(value) if value in offered else -step
        return edited(form, row, offered[(at + step) % len(offered)])
    if row["type"] not in ("integer", "number") or not isinstance(value, int | float):
        return form
    wanted = round(value + step * step_size(row, value), 6)
    if row["type"] == "integer":
        wanted = int(wanted)
    refusal = refused(row, wanted)
    if refusal:
        raise ValueError(refusal)
    return edited(form, row, wanted)


def step_size(row: Row, value: float) -> float:
    """One in the last place but one of what is there: 1 below 20, 10 below 200, and so on; shares go by 0.05."""
    if row["unit"] == "fraction":
        return 0.05
    size = 1
    while abs(value) >= size * 20:
        size *= 10
    return size


def problems(form: Form) -> tuple[str, ...]:
    """What would be wrong with the file with all edits in it: each a sentence that names its key."""
    data: dict[str, object] = {}
    for row in form.told:
        if row["in_file"]:
            data = set_value(data, str(row["key"]), row["saved"])
    for key, value in form.edits.items():
        data = remove_value(data, key) if value is None else set_value(data, key, value)
    return tuple(problem.sentence for problem in check_settings(data)[1])


def limits_to_apply(form: Form, held: Mapping[str, Any]) -> dict[str, float]:
    """The limits of the running task that would differ: name -> value as edited, or as in force for the next task."""
    found: dict[str, float] = {}
    for row in form.rows:
        name = row["limit"]
        if not name or row["flag"] or name not in held:
            continue
        value = value_of(form, row) if row["key"] in form.edits else row["effective"]
        if isinstance(value, int | float) and value != held[name]:
            found[str(name)] = value
    return found
