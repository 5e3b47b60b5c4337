"""The one way from the runtime into the store: redact, commit, then publish.

Nothing is published that is not committed, and nothing is committed that has not passed the redactor.
"""

from collections.abc import Callable
from typing import Any

from fluzo.core.contracts import Draft, Storage
from fluzo.core.events import Event, Payload, Scope, payload_from_json, payload_to_json
from fluzo.core.records import (
    Attempt,
    Grant,
    Message,
    OperationRecord,
    Record,
    Session,
    StoredMessage,
    Task,
    ToolCall,
)
from fluzo.core.redact import Redactor, redact_value


class Recorder:
    """Commits on behalf of one attempt; `scope` names it in every event."""

    def __init__(
        self, storage: Storage, publish: Callable[[tuple[Event, ...]], None], scope: Scope, redact: Redactor
    ) -> None:
        self._storage = storage
        self._publish = publish
        self._scope = scope
        self.redact = redact

    @property
    def scope(self) -> Scope:
        return self._scope

    async def commit(self, *records: Record, events: tuple[Payload, ...] = (), operation_id: str = "") -> int:
        """Commit records and events together and publish them; returns the sequence of the first event, or 0."""
        clean = (redact_record(record, self.redact) for record in records)
        committed = await self._storage.commit(*clean, events=self._drafts(events, operation_id))
        self._publish(committed)
        return committed[0].seq if committed else 0

    async def commit_intent(self, operation: OperationRecord, grant: Grant | None, events: tuple[Payload, ...]) -> None:
        clean = redact_operation(operation, self.redact)
        drafts = self._drafts(events, operation.id)
        self._publish(await self._storage.commit_intent(clean, grant=grant, events=drafts))

    async def commit_outcome(self, operation: OperationRecord, *records: Record, events: tuple[Payload, ...]) -> None:
        clean = redact_operation(operation, self.redact)
        drafts = self._drafts(events, operation.id)
        others = (redact_record(record, self.redact) for record in records)
        self._publish(await self._storage.commit_outcome(clean, *others, events=drafts))

    async def keep(self, kind: str, data: bytes, *, truncated: bool) -> str:
        """Retain bytes as a private artifact and return its id. Text in it passes the redactor too."""
        text = self.redact(data.decode("utf-8", "surrogateescape"))
        clean = text.encode("utf-8", "surrogateescape")
        artifact = await self._storage.store_artifact(self._scope.task_id, kind, clean, truncated=truncated)
        return artifact.id

    def _drafts(self, events: tuple[Payload, ...], operation_id: str) -> list[Draft]:
        scope = self._scope._replace(operation_id=operation_id) if operation_id else self._scope
        return [(scope, redact_payload(payload, self.redact)) for payload in events]


def redact_payload(payload: Payload, redact: Redactor) -> Payload:
    data: Any = redact_value(payload_to_json(payload), redact)
    return payload_from_json(type(payload).__name__, data)


def redact_operation(record: OperationRecord, redact: Redactor) -> OperationRecord:
    scope: Any = redact_value(record.scope, redact)
    result: Any = redact_value(record.result, redact)
    # The name of a tool is the model's own word when there is no such tool.
    return record._replace(tool=redact(record.tool), summary=redact(record.summary), scope=scope, result=result)


def redact_message(message: Message, redact: Redactor) -> Message:
    return message._replace(
        text=redact(message.text),
        reasoning=redact(message.reasoning),
        tool_calls=tuple(ToolCall(call.id, redact(call.name), redact(call.arguments)) for call in message.tool_calls),
    )


def redact_record(record: Record, redact: Redactor) -> Record:
    """The record with every free text in it redacted; ids, states and figures are left as they are."""
    if isinstance(record, OperationRecord):
        return redact_operation(record, redact)
    if isinstance(record, StoredMessage):
        return record._replace(message=redact_message(record.message, redact))
    if isinstance(record, Session):
        return record._replace(title=redact(record.title))
    return _redact_mappings(record, redact)


def _redact_mappings(record: Record, redact: Redactor) -> Record:
    if isinstance(record, Task):
        result: Any = redact_value(record.result, redact)
        return record._replace(text=redact(record.text), final_message=redact(record.final_message), result=result)
    if isinstance(record, Grant):
        scope: Any = redact_value(record.scope, redact)
        return record._replace(scope=scope)
    if isinstance(record, Attempt):
        config: Any = redact_value(record.config, redact)
        return record._replace(config=config)
    return record
