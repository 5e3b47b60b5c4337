"""Durable events and live updates: two delivery classes that never stand in for each other (ARCH 6.3).

A durable event is committed with the state it describes before anybody sees it. A live update is provisional
presentation: it may be merged or lost, and nothing is decided on it. Both survive a JSON round trip.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_args

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class SessionCreated:
    title: str


@dataclass(frozen=True, slots=True)
class YoloChanged:
    enabled: bool
    by: str


@dataclass(frozen=True, slots=True)
class TaskCreated:
    text: str
    limits: Mapping[str, object]
    verification: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    old: str
    new: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    number: int
    model: str
    previous_attempt_id: str = ""
    yolo: bool = False


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BaselineCaptured:
    head: str
    branch: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    turn: int


@dataclass(frozen=True, slots=True)
class MessageRecorded:
    message_id: str
    role: str
    turn: int
    text_bytes: int
    tool_calls: int = 0
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class ContextAssembled:
    """The ledger of what the model was given: (key, source, version, estimated tokens, truncated) per fragment."""

    fragments: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class OperationRequested:
    tool: str
    action: str
    summary: str
    fingerprint: str
    turn: int
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class OperationDecided:
    """Policy's verdict, or the grant or mode that settled a question: `by` is policy, grant, yolo or user."""

    verdict: str
    reason: str
    by: str
    grant_id: str = ""


@dataclass(frozen=True, slots=True)
class PermissionRequested:
    tool: str
    summary: str
    scope: Mapping[str, object]
    reason: str


@dataclass(frozen=True, slots=True)
class PermissionAnswered:
    answer: str
    by: str
    grant_id: str = ""


@dataclass(frozen=True, slots=True)
class GrantCreated:
    grant_id: str
    kind: str
    issuer: str
    scope: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GrantConsumed:
    grant_id: str


@dataclass(frozen=True, slots=True)
class GrantEnded:
    grant_id: str
    how: str


@dataclass(frozen=True, slots=True)
class OperationIntended:
    """The durable intent: after this, and only after this, the effect may have happened."""

    tool: str
    summary: str
    grant_id: str = ""


@dataclass(frozen=True, slots=True)
class OperationEnded:
    ok: bool
    code: str
    summary: str
    result: Mapping[str, object] = field(default_factory=dict)
    artifact_id: str = ""


@dataclass(frozen=True, slots=True)
class OperationRefused:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class OperationMarkedUnknown:
    summary: str
    why: str


@dataclass(frozen=True, slots=True)
class UsageSettled:
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    estimated: bool
    queue_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BudgetExhausted:
    limit: str
    used: float
    allowed: float


@dataclass(frozen=True, slots=True)
class VerificationStarted:
    commands: tuple[tuple[str, ...], ...]
    revision: str


@dataclass(frozen=True, slots=True)
class VerificationEnded:
    verdict: str
    revision: str
    checks: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class VerificationWaived:
    by: str


@dataclass(frozen=True, slots=True)
class PlanUpdated:
    steps: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    question: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    answer: str


@dataclass(frozen=True, slots=True)
class InterventionQueued:
    intervention_id: str
    text: str


@dataclass(frozen=True, slots=True)
class InterventionConsumed:
    intervention_id: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    by: str


@dataclass(frozen=True, slots=True)
class AttemptInterrupted:
    """Written on reopening: the process that ran this attempt ended without saying how."""

    why: str


@dataclass(frozen=True, slots=True)
class WarningRaised:
    code: str
    message: str


Payload = (
    SessionCreated
    | YoloChanged
    | TaskCreated
    | TaskStateChanged
    | AttemptStarted
    | AttemptEnded
    | BaselineCaptured
    | TurnStarted
    | MessageRecorded
    | ContextAssembled
    | OperationRequested
    | OperationDecided
    | PermissionRequested
    | PermissionAnswered
    | GrantCreated
    | GrantConsumed
    | GrantEnded
    | OperationIntended
    | OperationEnded
    | OperationRefused
    | OperationMarkedUnknown
    | UsageSettled
    | BudgetExhausted
    | VerificationStarted
    | VerificationEnded
    | VerificationWaived
    | PlanUpdated
    | QuestionAsked
    | QuestionAnswered
    | InterventionQueued
    | InterventionConsumed
    | CancelRequested
    | AttemptInterrupted
    | WarningRaised
)

PAYLOADS: Mapping[str, type] = {cls.__name__: cls for cls in get_args(Payload)}


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an event belongs; empty ids mean that the event is about something wider."""

    session_id: str = ""
    task_id: str = ""
    attempt_id: str = ""
    operation_id: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """A committed event. `seq` orders the whole store without gaps; `causation_id` is the event it answers."""

    seq: int
    id: str
    at: str
    scope: Scope
    payload: Payload
    causation_id: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def type(self) -> str:
        return type(self.payload).__name__


# --- live updates ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Provisional answer text. `offset` counts characters of this turn's text, so that merging can be checked."""

    task_id: str
    turn: int
    offset: int
    text: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """A running operation, for people: what it does now; superseded by the next one of the same operation."""

    task_id: str
    operation_id: str
    tool: str
    summary: str
    elapsed_seconds: float = 0.0


LiveUpdate = TextDelta | OperationProgress


# --- JSON -----------------------------------------------------------------------------------------------------


def payload_to_json(payload: Payload | LiveUpdate) -> dict[str, Any]:
    return asdict(payload)


def _freeze(value: object) -> object:
    return tuple(_freeze(item) for item in value) if isinstance(value, list) else value


def payload_from_json(type_name: str, data: Mapping[str, Any]) -> Payload:
    """Rebuild a payload; keys of a newer minor version are ignored. Raises KeyError for an unknown type."""
    cls = PAYLOADS[type_name]
    known = {f.name for f in fields(cls)}
    payload: Payload = cls(**{key: _freeze(value) for key, value in data.items() if key in known})
    return payload


def event_to_json(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "schema_version": event.schema_version,
        "seq": event.seq,
        "id": event.id,
        "at": event.at,
        **{key: value for key, value in asdict(event.scope).items() if value},
        **({"causation_id": event.causation_id} if event.causation_id else {}),
        "data": payload_to_json(event.payload),
    }


def event_from_json(data: Mapping[str, Any]) -> Event:
    return Event(
        seq=data["seq"],
        id=data["id"],
        at=data["at"],
        scope=Scope(**{f.name: data.get(f.name, "") for f in fields(Scope)}),
        payload=payload_from_json(data["type"], data["data"]),
        causation_id=data.get("causation_id", ""),
        schema_version=data["schema_version"],
    )


def dumps(value: object) -> str:
    """One JSON line: ASCII only, so that no terminal control, U+2028 or lone surrogate leaves as itself."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)
