"""Records as rows: which column holds which field, and how a value crosses.

A model lists its columns in the order of the record's fields, so that a row read back is the record's
arguments. The tables themselves are made by the migrations, which never change; these models may. What
SQLite cannot hold never reaches it: lone surrogates in text become visible escapes, and inside JSON they
stay what they were, because JSON is written in ASCII.
"""

import json
import json.encoder
from collections.abc import Callable, Sequence
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import Any

from peewee import AutoField, BooleanField, IntegerField, Model, TextField

from fluzo.core.events import SCHEMA_VERSION, Event, Payload, Scope, payload_from_json, payload_to_json
from fluzo.core.records import (
    Artifact,
    Attempt,
    AttemptState,
    Consumption,
    Grant,
    Limits,
    Message,
    OperationRecord,
    OperationState,
    Record,
    Session,
    StoredMessage,
    Task,
    TaskState,
    ToolCall,
)

# --- fields ---------------------------------------------------------------------------------------------------


def _make_encode() -> Callable[[Any], str]:
    """An encoder in ASCII, so that any Python text survives.

    `json` builds the part in C anew for each value, which takes longer than its work on a row; here it is built once.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode
    pieces = make(None, str, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True)
    return lambda value: "".join(pieces(value, 0))


_encode = _make_encode()


def scrub(text: str) -> str:
    """The same text in valid Unicode: a lone surrogate (an undecodable byte, half a pair) becomes `\\udXXX`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


# Where a value crosses by a plain function, that is the method: one call less for each of twenty columns.


class Words(TextField):
    db_value = staticmethod(scrub)


class Reference(TextField):
    """The id of another record; an empty one is NULL, because a foreign key must name a row or nothing."""

    def db_value(self, value: Any) -> Any:
        return value or None

    def python_value(self, value: Any) -> Any:
        return value or ""


class Choice(TextField):
    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    db_value = staticmethod(attrgetter("value"))

    def python_value(self, value: Any) -> Any:
        return self.kind(value)


class Json(TextField):
    db_value = staticmethod(_encode)

    def python_value(self, value: Any) -> Any:
        return json.loads(value)


class Nested(Json):
    """A record inside a record."""

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.kind = kind

    def db_value(self, value: Any) -> Any:
        return _encode(value._asdict())

    def python_value(self, value: Any) -> Any:
        return self.kind(**json.loads(value))


class Vectors(Json):
    """A tuple of argument vectors."""

    def python_value(self, value: Any) -> Any:
        return tuple(tuple(vector) for vector in json.loads(value))


class Calls(Json):
    def db_value(self, value: Any) -> Any:
        return _encode([{key: scrub(text) for key, text in call._asdict().items()} for call in value])

    def python_value(self, value: Any) -> Any:
        return tuple(ToolCall(**call) for call in json.loads(value))


# --- tables ---------------------------------------------------------------------------------------------------


class SessionRow(Model):
    row = AutoField()
    id = TextField()
    project_id = TextField()
    title = Words()
    created_at = TextField()
    updated_at = TextField()
    yolo = BooleanField()
    context = Json()

    class Meta:
        table_name = "sessions"


class TaskRow(Model):
    row = AutoField()
    id = TextField()
    session_id = TextField()
    request_id = Words()
    text = Words()
    state = Choice(TaskState)
    reason = Words()
    created_at = TextField()
    updated_at = TextField()
    workspace_root = Words()
    workspace_identity = Words()
    limits = Nested(Limits)
    verification = Vectors()
    verification_waived = BooleanField()
    consumption = Nested(Consumption)
    final_message = Words()
    result = Json()

    class Meta:
        table_name = "tasks"


class AttemptRow(Model):
    row = AutoField()
    id = TextField()
    task_id = TextField()
    trace_id = TextField()
    number = IntegerField()
    state = Choice(AttemptState)
    started_at = TextField()
    ended_at = TextField()
    reason = Words()
    previous_id = Reference()
    config = Json()
    baseline = Json()

    class Meta:
        table_name = "attempts"


class OperationRow(Model):
    row = AutoField()
    id = TextField()
    task_id = TextField()
    attempt_id = Reference()
    turn = IntegerField()
    call_id = Words()
    tool = Words()
    action = TextField()
    effect = TextField()
    summary = Words()
    scope = Json()
    fingerprint = TextField()
    state = Choice(OperationState)
    requested_at = TextField()
    ended_at = TextField()
    authorized_by = TextField()
    grant_id = Reference()
    ok = BooleanField(null=True)
    code = TextField()
    result = Json()
    artifact_id = Reference()

    class Meta:
        table_name = "operations"


class GrantRow(Model):
    row = AutoField()
    id = TextField()
    kind = TextField()
    issuer = TextField()
    task_id = Reference()
    fingerprint = TextField()
    scope = Json()
    granted_at = TextField()
    consumed_at = TextField()
    revoked_at = TextField()
    expired_at = TextField()

    class Meta:
        table_name = "permission_grants"


class MessageRow(Model):
    row = AutoField()
    id = TextField()
    session_id = TextField()
    task_id = Reference()
    attempt_id = Reference()
    turn = IntegerField()
    position = IntegerField()
    created_at = TextField()
    role = TextField()
    text = Words()
    reasoning = Words()
    tool_calls = Calls()
    tool_call_id = Words()
    incomplete = BooleanField()

    class Meta:
        table_name = "messages"


class ArtifactRow(Model):
    row = AutoField()
    id = TextField()
    task_id = Reference()
    kind = TextField()
    size_bytes = IntegerField()
    digest = TextField()
    created_at = TextField()
    truncated = BooleanField()

    class Meta:
        table_name = "artifacts"


class EventRow(Model):
    seq = AutoField()
    at = TextField()
    type = TextField()
    schema_version = IntegerField()
    session_id = Reference()
    task_id = Reference()
    attempt_id = Reference()
    operation_id = Reference()
    trace_id = TextField()
    causation_id = TextField()
    data = Json()

    class Meta:
        table_name = "events"


# --- crossing -------------------------------------------------------------------------------------------------

_MESSAGE_FIELDS = Message._fields


_FIXED = frozenset(
    {"id", "project_id", "session_id", "task_id", "attempt_id", "request_id", "number", "position", "previous_id"}
)
"""What says which record this is and where it belongs. It is written once, which also spares most indexes."""


class Table:
    """How one record type and its table meet.

    `upsert` inserts a record or brings its row up to date, all but _FIXED; a row keeps its place in the order. `update`
    does the latter alone, with the `to_update` of a row. `select` reads every row. All are written once: Peewee writes
    a query anew each time, which takes longer than running it.
    """

    def __init__(self, model: type[Model], nested: Sequence[str] = ()) -> None:
        self.model = model
        self.columns: tuple[Any, ...] = tuple(f for f in model._meta.sorted_fields if f.name != "row")
        names = [field.name for field in self.columns]
        self._values = attrgetter(*(f"message.{name}" if name in nested else name for name in names))
        plain = (TextField, IntegerField, BooleanField)
        self._converted = [(n, f.db_value) for n, f in enumerate(self.columns) if type(f) not in plain]
        self._read = tuple(f.python_value for f in self.columns)
        self.name: str = model._meta.table_name
        self.select = f"SELECT {', '.join(names)} FROM {self.name}"
        updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in _FIXED)
        self.upsert = (
            f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            f" ON CONFLICT (id) DO UPDATE SET {updates}"
        )
        changing = [n for n, name in enumerate(names) if name not in _FIXED]
        self.to_update = itemgetter(*changing, names.index("id"))
        self.update = f"UPDATE {self.name} SET {', '.join(f'{names[n]} = ?' for n in changing)} WHERE id = ?"

    def to_row(self, record: Record) -> list[Any]:
        values = list(self._values(record))
        for position, convert in self._converted:
            values[position] = convert(values[position])
        return values

    def from_row(self, row: Sequence[Any]) -> list[Any]:
        """The values of a row that `select` found. Raises ValueError or TypeError for what no record holds."""
        return [convert(value) for convert, value in zip(self._read, row, strict=True)]


TABLES: dict[type[Any], Table] = {
    Session: Table(SessionRow),
    Task: Table(TaskRow),
    Attempt: Table(AttemptRow),
    OperationRecord: Table(OperationRow),
    Grant: Table(GrantRow),
    StoredMessage: Table(MessageRow, _MESSAGE_FIELDS),
    Artifact: Table(ArtifactRow),
}


def from_row(record_type: type[Any], row: Sequence[Any]) -> Any:
    values = TABLES[record_type].from_row(row)
    if record_type is not StoredMessage:
        return record_type(*values)
    own = len(values) - len(_MESSAGE_FIELDS)
    return record_type(*values[:own], Message(*values[own:]))


_EVENT_FIELDS = EventRow._meta.sorted_fields
EVENT_SELECT = f"SELECT {', '.join(f.name for f in _EVENT_FIELDS)} FROM events"
EVENT_SQL = (
    "INSERT INTO events (at, type, schema_version, session_id, task_id, attempt_id, operation_id, trace_id,"
    " causation_id, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', ?)"
)


def event_id(seq: int) -> str:
    """An event's id says its number: unique in its store without a second index."""
    return f"e_{seq}"


def event_row(at: str, scope: Scope, payload: Payload) -> tuple[Any, ...]:
    """Parameters of EVENT_SQL; the number is the table's."""
    kind = type(payload)
    return (
        at,
        kind.__name__,
        SCHEMA_VERSION,
        scope.session_id or None,
        scope.task_id or None,
        scope.attempt_id or None,
        scope.operation_id or None,
        scope.trace_id,
        _encode(payload_to_json(payload)),
    )


def event_from_row(row: Sequence[Any]) -> Event:
    values = [field.python_value(value) for field, value in zip(_EVENT_FIELDS, row, strict=True)]
    seq, at, kind, version, session_id, task_id, attempt_id, operation_id, trace_id, causation_id, data = values
    scope = Scope(session_id, task_id, attempt_id, operation_id, trace_id)
    return Event(seq, event_id(seq), at, scope, payload_from_json(kind, data), causation_id, version)
