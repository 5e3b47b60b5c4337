"""What a setting or a table holds, as rows of its own: items of a list, fields of an entry, and one to add to it.

Invariant: the kinds of entries and what each asks for are told by the runtime; nothing is listed here. An item is no
setting by itself: a change of it is an edit of the whole list, and a named entry is edited by the keys of its settings.
Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .settings_form import Form, Row, check_name, dug, edited, names_in, removal_of, typed, value_of

_ITEM = {
    "list of texts": "text",
    "list of commands": "command",
    "list of grants": "entry",
    "table of texts": "text",
}
"""What kind of control an item of a setting has."""
_ADD = {"models": "a model", "capacity_pools": "a pool", "policy.grants": "a grant", "verification.commands": "a check"}
_PLAIN: Row = {"choices": [], "refers": "", "low": None, "high": None, "unit": "", "limit": "", "default": None}


def opens(row: Row) -> bool:
    """The row has others within it."""
    return row["type"] in _ITEM or row["type"] == "entry"


def expanded(form: Form) -> list[Row]:
    """The rows of a form with those within the opened ones, and behind each table one for each kind to add."""
    rows = [part for row in form.rows for part in (row, *_within(form, row))]
    for kind in form.entries:
        if not kind["listed"]:
            at = max(
                (number for number, row in enumerate(rows) if row["key"].startswith(f"{kind['table']}.")), default=-1
            )
            if at < 0:
                at = max((n for n, row in enumerate(rows) if row["group"] == kind["rows"][0]["group"]), default=-1)
            while at + 1 < len(rows) and rows[at + 1]["type"] == "add":
                at += 1
            rows.insert(at + 1, _add_row(kind["rows"][0], str(kind["table"]), kind=kind))
    return rows


def _within(form: Form, row: Row) -> Iterator[Row]:
    """The rows within a setting, or within an item of one."""
    if row["key"] not in form.opened or not opens(row):
        return
    root, path = str(row.get("root", row["key"])), tuple(row.get("path", ()))
    whole = form.row(root)
    if row["type"] == "entry":
        for field in _fields(form, root):
            name = str(field["key"]).rpartition(".")[2]
            kind = "command" if field["type"] == "list of texts" else field["type"]
            yield _item(whole, {**field, "type": kind}, root, (*path, name), name)
        return
    value = value_of(form, row)
    names: Sequence[Any] = list(value) if isinstance(value, Mapping) else range(len(value or ()))
    for number, name in enumerate(names, 1):
        text = name if isinstance(name, str) else f"{number}"
        item = _item(whole, {**row, **_PLAIN, "type": _ITEM[str(row["type"])]}, root, (*path, name), text)
        yield from (item, *_within(form, item))
    yield _add_row(row, root)


def _item(whole: Row | None, about: Row, root: str, path: tuple[Any, ...], name: str) -> Row:
    key = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    saved = dug(whole["saved"] if whole is not None else None, path)
    source, flag = (whole["source"], whole["flag"]) if whole is not None else ("file", "")
    depth = len(path) + 1
    return {
        **about,
        "key": key,
        "root": root,
        "path": path,
        "label": name,
        "depth": depth,
        "saved": saved,
        "effective": saved,
        "source": source,
        "flag": flag,
    }


def _add_row(about: Row, root: str, kind: Mapping[str, Any] | None = None) -> Row:
    named = next((row["choices"][0] for row in kind["rows"] if _settled(row)), "") if kind is not None else ""
    words = f"+ add {_ADD.get(root, 'one')}" + (f" ({named})" if named else "")
    return {
        **about,
        **_PLAIN,
        "key": f"{root}.<id> {named}".rstrip() if kind is not None else f"{root}[]",
        "root": root,
        "type": "add",
        "label": words,
        "depth": 1 if kind is not None else 2,
        "kind": kind,
        "help": kind["title"].removesuffix(".") if kind is not None else about["help"],
        "saved": None,
        "effective": None,
        "in_file": False,
        "source": "",
        "flag": "",
    }


def _settled(row: Row) -> bool:
    """A setting that an entry must give and that has one value."""
    return row["default"] is None and len(row["choices"]) == 1


def _fields(form: Form, table: str) -> tuple[Row, ...]:
    return next((tuple(kind["rows"]) for kind in form.entries if kind["listed"] and kind["table"] == table), ())


def home(form: Form, row: Row) -> str:
    """The key of the opened row that a row stands in, or nothing."""
    inner = [
        key for key in form.opened if str(row["key"]) != key and str(row["key"]).startswith((f"{key}[", f"{key}."))
    ]
    return max(inner, key=len, default="")


# --- adding -------------------------------------------------------------------------------------------------------


def place_of(form: Form, row: Row) -> Row | None:
    """The row to add, for where a row stands: its own list or table; None where nothing can be added."""
    if row["type"] == "add":
        return row
    root = form.row(str(row.get("root", row["key"])))
    if root is not None and root["type"] in _ITEM:
        return _add_row(root, str(root["key"]))
    entry = entry_of(form, row)
    return next(
        (_add_row(kind["rows"][0], str(kind["table"]), kind) for kind in _kinds(form, entry.rpartition(".")[0])), None
    )


def _kinds(form: Form, table: str) -> list[Mapping[str, Any]]:
    return [kind for kind in form.entries if kind["table"] == table and not kind["listed"]]


def asked(form: Form, place: Row) -> list[Row]:
    """What is asked before one more is there: its name where it has one, and what it must say."""
    root, kind = str(place["root"]), place["kind"]
    name: Row = {**place, "type": "name", "ask": "name", "help": place["help"]}
    if kind is not None:
        must = [row for row in kind["rows"] if row["default"] is None and not _settled(row)]
        return [name, *must]
    whole = form.row(root)
    if whole is None:
        return []
    one: Row = {**place, "type": _ITEM[str(whole["type"])], "path": (0,), "ask": "new"}
    if whole["type"] == "table of texts":
        return [name, {**one, "ask": "value"}]
    if one["type"] == "entry":
        first = _fields(form, root)[0]
        return [{**first, "type": "command", "path": (0,), "ask": str(first["key"]).rpartition(".")[2]}]
    return [one]


def read_answer(form: Form, place: Row, row: Row, text: str) -> Any:
    """The value of an answer. Raises ValueError with a sentence."""
    if row["type"] != "name":
        return typed(row, text)
    root, kind = str(place["root"]), place["kind"]
    whole = form.row(root)
    there = set(value_of(form, whole) or ()) if whole is not None else names_in(form, root)
    if kind is not None:
        check_name(text)
    if not text:
        raise ValueError("It needs a name.")
    if text in there:
        raise ValueError(f"{root} has an entry {text} already.")
    return text


def added(form: Form, place: Row, answers: Sequence[Any]) -> tuple[Form, str]:
    """With one more, as it was asked for, and the key of its row."""
    root, kind = str(place["root"]), place["kind"]
    if kind is not None:
        return _with_entry(form, root, kind, answers)
    whole = form.row(root)
    value = value_of(form, whole) if whole is not None else None
    if whole is None:
        return form, root
    form = form._replace(opened=form.opened | {root})
    if whole["type"] == "table of texts":
        name, text = answers
        return edited(form, whole, {**(value or {}), name: text}), f"{root}.{name}"
    item = answers[0]
    key = f"{root}[{len(value or ())}]"
    if whole["type"] == "list of grants":
        name = str(_fields(form, root)[0]["key"]).rpartition(".")[2]
        item = {name: item} if item else {}
        form = form._replace(opened=form.opened | {key})
    return edited(form, whole, [*(value or ()), item]), key


def _with_entry(form: Form, table: str, kind: Mapping[str, Any], answers: Sequence[Any]) -> tuple[Form, str]:
    name, *values = answers
    edits = dict(form.edits)
    there = [row for row in form.told if str(row["key"]).startswith(f"{table}.")]
    if not any(row["in_file"] for row in there):
        # The default entry is there only as long as the file has no entry of its own.
        edits.update({str(row["key"]): row["default"] for row in there})
    given = iter(values)
    for row in kind["rows"]:
        if row["default"] is None:
            edits[str(row["key"]).replace("<id>", name)] = row["choices"][0] if _settled(row) else next(given)
    if not any(row["default"] is None for row in kind["rows"]):
        first = kind["rows"][0]
        edits[str(first["key"]).replace("<id>", name)] = first["default"]
    form = form._replace(edits=edits)
    return form, next(str(row["key"]) for row in form.rows if str(row["key"]).startswith(f"{table}.{name}."))


# --- removing and moving ------------------------------------------------------------------------------------------


def entry_of(form: Form, row: Row) -> str:
    """The key of the named entry that a setting belongs to, or nothing."""
    parts = str(row["key"]).split(".")
    tables = {str(kind["table"]) for kind in form.entries if not kind["listed"]}
    return ".".join(parts[:2]) if len(parts) > 2 and parts[0] in tables else ""


def is_entry(form: Form, row: Row) -> bool:
    """What `removed` would take away has several settings, and so is asked about."""
    return bool(entry_of(form, row)) or (bool(row.get("path")) and bool(_fields(form, str(row["root"]))))


def removed(form: Form, row: Row) -> tuple[Form, str]:
    """Without the item or the entry that a row stands for or in, and the key of a row beside it.

    Raises ValueError where there is none.
    """
    if row.get("path"):
        whole = form.row(str(row["root"]))
        value = value_of(form, whole) if whole is not None else None
        if whole is None or value is None:
            return form, ""
        at = row["path"][0]
        rest: Any = (
            {name: item for name, item in value.items() if name != at}
            if isinstance(value, Mapping)
            else [item for number, item in enumerate(value) if number != at]
        )
        opened = {key for key in form.opened if not key.startswith(f"{row['root']}[")}
        beside = f"{row['root']}[{min(at, len(rest) - 1)}]" if isinstance(rest, list) else ""
        return edited(form._replace(opened=frozenset(opened)), whole, rest), beside
    entry = entry_of(form, row)
    if not entry:
        raise ValueError(f"{row['key']} can be set back with its default, not removed.")
    if removal_of(form, str(row["key"])):
        return form, ""
    edits = {key: value for key, value in form.edits.items() if not key.startswith(f"{entry}.")}
    told = [other for other in form.told if str(other["key"]).startswith(f"{entry}.")]
    if told and not any(other["in_file"] for other in told):
        raise ValueError(f"{entry} is there by default and cannot be removed.")
    if told:
        return form._replace(edits={**edits, entry: None}), ""
    place = place_of(form, row)
    return form._replace(edits=edits), str(place["key"]) if place is not None else ""


def moved(form: Form, row: Row, step: int) -> tuple[Form, str]:
    """With an item one place earlier or later, and its key there. Raises ValueError where it cannot go."""
    path = row.get("path")
    whole = form.row(str(row["root"])) if path else None
    value = value_of(form, whole) if whole is not None else None
    if not path or whole is None or not isinstance(value, list | tuple):
        raise ValueError("Only the items of a list have an order.")
    at = path[0]
    to = at + step
    if not 0 <= to < len(value):
        raise ValueError("It cannot go further.")
    items = list(value)
    items[at], items[to] = items[to], items[at]
    keys = {f"{row['root']}[{at}]": f"{row['root']}[{to}]", f"{row['root']}[{to}]": f"{row['root']}[{at}]"}
    opened = frozenset(keys.get(key, key) for key in form.opened)
    return edited(form._replace(opened=opened), whole, items), f"{row['root']}[{to}]"


def undone(form: Form, row: Row) -> Form:
    """Without the edit of a setting, or of the list that an item is in; an entry that is not saved yet goes with it."""
    key = str(row.get("root", row["key"]))
    gone = {removal_of(form, key) or key}
    entry = entry_of(form, row)
    if entry and row["default"] is None and not any(str(told["key"]).startswith(f"{entry}.") for told in form.told):
        gone = {name for name in form.edits if name.startswith(f"{entry}.")}
    return form._replace(edits={name: value for name, value in form.edits.items() if name not in gone})
