"""Durable events and live updates: two delivery classes that never stand in for each other (ARCH 6.3).

A durable event is committed with the state it describes before anybody sees it. A live update is provisional
presentation: it may be merged or lost, and nothing is decided on it. Both survive a JSON round trip.

Payloads are named tuples, for a dataclass each would cost every start of the program some 15 ms in all.
"""

import json
from collections.abc import Mapping
from typing import Any, get_args

from fluzo.core.named import NamedTuple

SCHEMA_VERSION = 1


class SessionCreated(NamedTuple):
    title: str


class SessionRenamed(NamedTuple):
    """By an act of the user, who saw the old title."""

    title: str
    old: str


class YoloChanged(NamedTuple):
    enabled: bool
    by: str


class TaskCreated(NamedTuple):
    text: str
    limits: Mapping[str, object]
    verification: tuple[tuple[str, ...], ...] = ()


class TaskStateChanged(NamedTuple):
    old: str
    new: str
    reason: str = ""


class AttemptStarted(NamedTuple):
    number: int
    model: str
    previous_attempt_id: str = ""
    yolo: bool = False


class AttemptEnded(NamedTuple):
    state: str
    reason: str = ""


class BaselineCaptured(NamedTuple):
    head: str
    branch: str
    changed: tuple[str, ...]


class TurnStarted(NamedTuple):
    turn: int


class MessageRecorded(NamedTuple):
    message_id: str
    role: str
    turn: int
    text_bytes: int
    tool_calls: int = 0
    incomplete: bool = False


class ContextAssembled(NamedTuple):
    """The ledger of what the model was given: (key, source, version, estimated tokens, truncated) per fragment."""

    fragments: tuple[Mapping[str, object], ...]


class ContextCompacted(NamedTuple):
    """Older conversation was summarized; token figures are estimates, the originals stay in the store."""

    artifact_id: str
    why: str
    tokens_before: int
    tokens_after: int
    requests: int
    messages: int
    through_position: int
    window: int


class LoopNoticed(NamedTuple):
    """The agent was told once that it repeats itself without getting on."""

    kind: str
    summary: str
    times: int


class OperationRequested(NamedTuple):
    tool: str
    action: str
    summary: str
    fingerprint: str
    turn: int
    call_id: str = ""


class OperationDecided(NamedTuple):
    """Policy's verdict, or the grant or mode that settled a question: `by` is policy, grant, yolo or user."""

    verdict: str
    reason: str
    by: str
    grant_id: str = ""


class PermissionRequested(NamedTuple):
    tool: str
    summary: str
    scope: Mapping[str, object]
    reason: str


class PermissionAnswered(NamedTuple):
    """`reason` is what the user said with a denial; empty for every other answer."""

    answer: str
    by: str
    grant_id: str = ""
    reason: str = ""


class GrantCreated(NamedTuple):
    grant_id: str
    kind: str
    issuer: str
    scope: Mapping[str, object]


class GrantConsumed(NamedTuple):
    grant_id: str


class GrantEnded(NamedTuple):
    grant_id: str
    how: str


class OperationIntended(NamedTuple):
    """The durable intent: after this, and only after this, the effect may have happened."""

    tool: str
    summary: str
    grant_id: str = ""


class OperationEnded(NamedTuple):
    ok: bool
    code: str
    summary: str
    result: Mapping[str, object] = {}
    artifact_id: str = ""


class OperationRefused(NamedTuple):
    code: str
    message: str


class OperationMarkedUnknown(NamedTuple):
    summary: str
    why: str


class UsageSettled(NamedTuple):
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    estimated: bool
    queue_seconds: float = 0.0


class BudgetExhausted(NamedTuple):
    limit: str
    used: float
    allowed: float


class VerificationStarted(NamedTuple):
    commands: tuple[tuple[str, ...], ...]
    revision: str


class VerificationEnded(NamedTuple):
    verdict: str
    revision: str
    checks: tuple[Mapping[str, object], ...]


class VerificationWaived(NamedTuple):
    by: str


class PlanUpdated(NamedTuple):
    steps: tuple[Mapping[str, object], ...]


class QuestionAsked(NamedTuple):
    question: str
    choices: tuple[str, ...] = ()
    several: bool = False


class QuestionAnswered(NamedTuple):
    answer: str
    chosen: tuple[str, ...] = ()


class InterventionQueued(NamedTuple):
    intervention_id: str
    text: str


class InterventionConsumed(NamedTuple):
    intervention_id: str


class InterventionWithdrawn(NamedTuple):
    intervention_id: str


class CancelRequested(NamedTuple):
    by: str


class AttemptInterrupted(NamedTuple):
    """Written on reopening: the process that ran this attempt ended without saying how."""

    why: str


class CapacityReset(NamedTuple):
    """Slots of uncertain requests were freed by an act of the user (PRD 43.3)."""

    pool: str
    slots: int
    by: str


class ConfigurationChanged(NamedTuple):
    """The settings of future tasks were changed by an act of the user (PRD 26.2).

    `version` names the bytes of the file. `changes` (key, old, new) and `effective`, the whole configuration in force,
    hold public values only; of a private one it is only said that it changed.
    """

    version: str
    by: str
    changes: tuple[Mapping[str, object], ...]
    effective: Mapping[str, object]


class LimitsExtended(NamedTuple):
    """By an explicit act of the user; what was used up stays used up (PRD 43.1). `new` may be lower than `old`."""

    limit: str
    old: float
    new: float
    by: str


class ResumeReconciled(NamedTuple):
    """What the user was shown before a task went on, and which unknown operations may be done again."""

    previous_attempt_id: str
    differences: tuple[Mapping[str, object], ...]
    unknown: tuple[Mapping[str, object], ...]
    retry: tuple[str, ...] = ()


class WarningRaised(NamedTuple):
    code: str
    message: str


Payload = (
    SessionCreated
    | SessionRenamed
    | YoloChanged
    | TaskCreated
    | TaskStateChanged
    | AttemptStarted
    | AttemptEnded
    | BaselineCaptured
    | TurnStarted
    | MessageRecorded
    | ContextAssembled
    | ContextCompacted
    | LoopNoticed
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
    | InterventionWithdrawn
    | CancelRequested
    | AttemptInterrupted
    | CapacityReset
    | ConfigurationChanged
    | LimitsExtended
    | ResumeReconciled
    | WarningRaised
)

PAYLOADS: Mapping[str, Any] = {cls.__name__: cls for cls in get_args(Payload)}


class Scope(NamedTuple):
    """Where an event belongs; empty ids mean that the event is about something wider."""

    session_id: str = ""
    task_id: str = ""
    attempt_id: str = ""
    operation_id: str = ""
    trace_id: str = ""


class Event(NamedTuple):
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


class TextDelta(NamedTuple):
    """Provisional answer text. `offset` counts characters of this turn's text, so that merging can be checked."""

    task_id: str
    turn: int
    offset: int
    text: str
    reasoning: bool = False


class OperationProgress(NamedTuple):
    """A running operation, for people: what it does now; superseded by the next one of the same operation."""

    task_id: str
    operation_id: str
    tool: str
    summary: str
    elapsed_seconds: float = 0.0


class OutputProgress(NamedTuple):
    """The end of what a running command has printed, redacted, with its terminal codes; superseded by the next one of
    the same operation. `total_bytes` counts everything printed so far."""

    task_id: str
    operation_id: str
    tail: str
    total_bytes: int = 0


class RetryProgress(NamedTuple):
    """A model request that failed in passing is sent again after a pause: retry `retry` of at most `retries`."""

    task_id: str
    turn: int
    retry: int
    retries: int
    delay_seconds: float
    reason: str


LiveUpdate = TextDelta | OperationProgress | OutputProgress | RetryProgress


# --- JSON -----------------------------------------------------------------------------------------------------


def payload_to_json(payload: Payload | LiveUpdate) -> dict[str, Any]:
    return payload._asdict()


def _freeze(value: object) -> object:
    return tuple(_freeze(item) for item in value) if isinstance(value, list) else value


def payload_from_json(type_name: str, data: Mapping[str, Any]) -> Payload:
    """Rebuild a payload; keys of a newer minor version are ignored. Raises KeyError for an unknown type."""
    cls = PAYLOADS[type_name]
    payload: Payload = cls(**{key: _freeze(value) for key, value in data.items() if key in cls._fields})
    return payload


def event_to_json(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "schema_version": event.schema_version,
        "seq": event.seq,
        "id": event.id,
        "at": event.at,
        **{key: value for key, value in event.scope._asdict().items() if value},
        **({"causation_id": event.causation_id} if event.causation_id else {}),
        "data": payload_to_json(event.payload),
    }


def event_from_json(data: Mapping[str, Any]) -> Event:
    return Event(
        seq=data["seq"],
        id=data["id"],
        at=data["at"],
        scope=Scope(*(data.get(name, "") for name in Scope._fields)),
        payload=payload_from_json(data["type"], data["data"]),
        causation_id=data.get("causation_id", ""),
        schema_version=data["schema_version"],
    )


def dumps(value: object) -> str:
    """One JSON line: ASCII only, so that no terminal control, U+2028 or lone surrogate leaves as itself."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)
