"""The conversation of a session in the store: messages in order, each committed before the next turn."""

from collections.abc import Callable, Sequence

from fluzo.core.events import MessageRecorded, Payload
from fluzo.core.records import Message, Record, StoredMessage
from fluzo.runtime.recorder import Recorder


class Conversation:
    """Appends messages of one attempt; `position` continues where the session's last message ended."""

    def __init__(self, recorder: Recorder, position: int, new_id: Callable[[str], str], now: Callable[[], str]) -> None:
        self._recorder = recorder
        self._position = position
        self._new_id = new_id
        self._now = now

    @property
    def position(self) -> int:
        """Of the last message that was recorded."""
        return self._position

    async def record(
        self, turn: int, messages: Sequence[Message], *events: Payload, also: Sequence[Record] = ()
    ) -> None:
        """Commit messages, events and other records together; without any of them nothing is written."""
        if not messages and not events:
            return
        stored = [self._stored(turn, message) for message in messages]
        recorded = tuple(
            MessageRecorded(
                message_id=item.id,
                role=item.message.role,
                turn=turn,
                text_bytes=len(item.message.text.encode("utf-8", "replace")),
                tool_calls=len(item.message.tool_calls),
                incomplete=item.message.incomplete,
            )
            for item in stored
        )
        await self._recorder.commit(*stored, *also, events=(*events, *recorded))

    def _stored(self, turn: int, message: Message) -> StoredMessage:
        self._position += 1
        scope = self._recorder.scope
        return StoredMessage(
            id=self._new_id("m"),
            session_id=scope.session_id,
            task_id=scope.task_id,
            attempt_id=scope.attempt_id,
            turn=turn,
            position=self._position,
            created_at=self._now(),
            message=message,
        )
