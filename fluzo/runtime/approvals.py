"""Approvals: what settles a question that policy asks.

In this order: a grant whose scope is equal, the session's YOLO mode, the user. The first answer wins, an answer
to anything but the operation being asked is refused, and without somebody to ask the question is an error at
once, never a wait (PRD 12.1, 12.2).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, cast

from fluzo.core.errors import Cancelled, FluzoError, InputRequired, PermissionDenied, PermissionRequired
from fluzo.core.events import (
    GrantCreated,
    GrantEnded,
    OperationRequested,
    PermissionAnswered,
    PermissionRequested,
    QuestionAnswered,
    QuestionAsked,
)
from fluzo.core.named import NamedTuple
from fluzo.core.outcome import count
from fluzo.core.port import MAX_REASON_CHARACTERS
from fluzo.core.records import Decision, Grant, Operation, OperationRecord
from fluzo.core.redact import redact_value
from fluzo.core.text import one_line
from fluzo.policy.scope import exact_scope_of, fingerprint, scope_of
from fluzo.runtime.recorder import Recorder

Answer = Literal["once", "task", "deny"]

NOT_ASKED = "That question is not being asked any more."


class Authorization(NamedTuple):
    """Who allowed an operation: policy, a grant, the YOLO mode or the user just now."""

    by: str
    grant: Grant | None = None


@dataclass(slots=True)
class Pending:
    """One question that waits for the user; `fingerprint` binds the answer to exactly this operation."""

    operation_id: str
    kind: Literal["permission", "question"]
    fingerprint: str
    data: dict[str, object]
    unanswered: FluzoError
    """What ends the attempt when nobody can answer (any more)."""
    future: "asyncio.Future[str]"
    reason: str = ""
    """What the user said with a denial."""
    chosen: tuple[str, ...] = ()
    """The choices that the user picked of a question."""


class Approvals:
    """Grants and pending questions of one task attempt."""

    def __init__(
        self,
        *,
        recorder: Recorder,
        workspace: str,
        grants: list[Grant],
        yolo: bool,
        interactive: bool,
        waiting: Callable[[str], AbstractAsyncContextManager[None]],
        new_id: Callable[[str], str],
        now: Callable[[], str],
    ) -> None:
        self._recorder = recorder
        self._workspace = workspace
        self._grants = {grant.id: grant for grant in grants}
        self._interactive = interactive
        self._waiting = waiting
        self._new_id = new_id
        self._now = now
        self._pending: dict[str, Pending] = {}
        self._announced: set[str] = set()
        self.yolo = yolo

    @property
    def pending(self) -> tuple[Pending, ...]:
        return tuple(self._pending.values())

    async def settle(
        self, operation: Operation, record: OperationRecord, decision: Decision, *, explicit: bool = False
    ) -> Authorization:
        """Turn policy's answer into an authorization; `explicit` leaves only grants for exactly this operation.

        Raises PermissionDenied (policy or user), PermissionRequired (nobody to ask) or Cancelled.
        """
        if decision.verdict == "deny":
            raise PermissionDenied(
                f"{operation.tool} {operation.summary}: {decision.text}", detail={"reason": decision.reason}
            )
        if decision.verdict == "allow":
            return Authorization("policy")
        if grant := self._matching_grant(operation, exact_only=explicit):
            return Authorization("grant", grant)
        if self.yolo and not explicit:
            return Authorization("yolo")
        return await self._ask(operation, record, decision)

    async def ask_user(
        self, record: OperationRecord, question: str, choices: tuple[str, ...], *, several: bool
    ) -> QuestionAnswered:
        """Put the agent's question to the user: their words, and the choices they picked.

        Raises InputRequired when nobody is there, or Cancelled.
        """
        self._announced.add(record.id)
        asked = (requested(record), QuestionAsked(question, choices, several))
        await self._recorder.commit(record, events=asked, operation_id=record.id)
        data: dict[str, object] = {"question": question, "choices": list(choices), "several": several}
        unanswered = InputRequired(
            f"The agent asks: {question}",
            hint='Answer it in a new run in the same session: fluzo run --session last "..."',
            detail={"operation_id": record.id, **data},
        )
        if not self._interactive:
            raise unanswered
        asking = Pending(record.id, "question", record.fingerprint, data, unanswered, _future())
        async with self._open(asking):
            answer = await asking.future
            said = QuestionAnswered(answer, asking.chosen)
            await self._recorder.commit(events=(said,), operation_id=record.id)
            return said

    def announced(self, record: OperationRecord) -> bool:
        """Whether a question has put this operation's request on record already."""
        return record.id in self._announced

    def answer(self, operation_id: str, asked: str, answer: str, reason: str = "") -> bool:
        """Deliver the user's answer; False when that question is not (or no longer) being asked. The reason is told of
        a denial only."""
        pending = self._pending.get(operation_id)
        if pending is None or pending.future.done() or pending.fingerprint != asked:
            return False
        pending.reason = one_line(" ".join(reason.split()), MAX_REASON_CHARACTERS)
        pending.future.set_result(answer)
        return True

    def answer_question(self, operation_id: str, words: str, chosen: Sequence[int]) -> str:
        """Deliver the user's answer to a question; otherwise nothing happens and it says why."""
        pending = self._pending.get(operation_id)
        if pending is None or pending.kind != "question" or pending.future.done():
            return NOT_ASKED
        choices = cast("Sequence[str]", pending.data["choices"])
        known = len(set(chosen)) == len(chosen) and all(0 < number <= len(choices) for number in chosen)
        if not known or (len(chosen) > 1 and not pending.data["several"]):
            return f"The question has no such answer; it has {count(len(choices), 'choice', 'choices')}."
        pending.chosen = tuple(choices[number - 1] for number in sorted(chosen))
        pending.future.set_result(words)
        return ""

    def set_yolo(self, enabled: bool) -> None:
        """Switch the mode; open permission questions are settled by it at once (PRD 12.2)."""
        self.yolo = enabled
        if enabled:
            for pending in self._pending.values():
                settled_by_mode = pending.kind == "permission" and pending.data["reason"] != "may_repeat_unknown"
                if settled_by_mode and not pending.future.done():
                    pending.future.set_result("yolo")

    def cancel(self) -> None:
        """Invalidate every open question: the task is being stopped."""
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(Cancelled("the task was cancelled while it waited for an answer"))

    def give_up(self) -> bool:
        """Nobody can answer any more: open questions end as they do without a terminal; False when none is open."""
        waiting = [pending for pending in self._pending.values() if not pending.future.done()]
        for pending in waiting:
            pending.future.set_exception(pending.unanswered)
        return bool(waiting)

    async def revoke(self, grant_id: str) -> bool:
        """Revoke a grant for everything not yet dispatched; False when there is no usable one of that id."""
        grant = self._grants.get(grant_id)
        if grant is None or not grant.usable:
            return False
        revoked = grant._replace(revoked_at=self._now())
        self._grants[grant_id] = revoked
        await self._recorder.commit(revoked, events=(GrantEnded(grant_id, "revoked"),))
        return True

    async def expire(self) -> None:
        """End every task and once grant: no end of an attempt leaves one usable (PRD 12.1)."""
        ended = [grant._replace(expired_at=self._now()) for grant in self._grants.values() if grant.usable]
        self._grants.clear()
        if ended:
            await self._recorder.commit(*ended, events=tuple(GrantEnded(grant.id, "expired") for grant in ended))

    def consumed(self, grant: Grant) -> None:
        if grant.kind == "once":
            self._grants.pop(grant.id, None)

    def _matching_grant(self, operation: Operation, *, exact_only: bool) -> Grant | None:
        exact = fingerprint(exact_scope_of(operation, self._workspace))
        wide = fingerprint(scope_of(operation, self._workspace))
        for grant in self._grants.values():
            if exact_only and grant.kind != "once":
                continue
            if grant.usable and grant.fingerprint == (exact if grant.kind == "once" else wide):
                return grant
        return None

    async def _ask(self, operation: Operation, record: OperationRecord, decision: Decision) -> Authorization:
        scope = scope_of(operation, self._workspace)
        asked = PermissionRequested(operation.tool, operation.summary, scope, decision.reason)
        self._announced.add(record.id)
        await self._recorder.commit(record, events=(requested(record), asked), operation_id=record.id)
        unanswered = PermissionRequired(
            f"{operation.tool} {operation.summary} needs your permission and nobody can be asked.",
            hint=_how_to_permit(operation),
            detail={"operation_id": record.id, "reason": decision.reason, "scope": scope},
        )
        if not self._interactive:
            raise unanswered
        data: dict[str, object] = {
            "tool": operation.tool,
            "action": operation.action,
            "effect": operation.effect,
            "summary": operation.summary,
            "scope": scope,
            "preview": operation.preview,
            "env": dict(operation.env),
            "reason": decision.reason,
            "text": decision.text,
        }
        shown = {key: redact_value(value, self._recorder.redact) for key, value in data.items()}
        question = Pending(record.id, "permission", record.fingerprint, shown, unanswered, _future())
        async with self._open(question):
            answer = await question.future
            return await self._act_on(answer, question.reason, operation, record)

    async def _act_on(self, answer: str, reason: str, operation: Operation, record: OperationRecord) -> Authorization:
        if answer == "yolo":
            await self._recorder.commit(events=(PermissionAnswered("yolo", "yolo"),), operation_id=record.id)
            return Authorization("yolo")
        if answer not in ("once", "task"):
            denied = PermissionAnswered("deny", "user", reason=reason)
            await self._recorder.commit(events=(denied,), operation_id=record.id)
            said = f"; the user says: {reason}" if reason else ""
            raise PermissionDenied(
                f"the user denied {operation.tool} {operation.summary}{said}", detail={"reason": "user_denied"}
            )
        kind: Literal["once", "task"] = "once" if answer == "once" else "task"
        scoped = exact_scope_of if kind == "once" else scope_of
        scope = scoped(operation, self._workspace)
        grant = Grant(
            id=self._new_id("g"),
            kind=kind,
            issuer="user",
            task_id=record.task_id,
            fingerprint=fingerprint(scope),
            scope=scope,
            granted_at=self._now(),
        )
        self._grants[grant.id] = grant
        await self._recorder.commit(
            grant,
            events=(PermissionAnswered(kind, "user", grant.id), GrantCreated(grant.id, kind, "user", scope)),
            operation_id=record.id,
        )
        return Authorization("user", grant)

    @asynccontextmanager
    async def _open(self, pending: Pending) -> AsyncIterator[None]:
        """The question is open inside; the task waits, and its answer is recorded before the task runs again."""
        self._pending[pending.operation_id] = pending
        try:
            async with self._waiting("permission" if pending.kind == "permission" else "user_input"):
                yield
        finally:
            del self._pending[pending.operation_id]


def _future() -> "asyncio.Future[str]":
    return asyncio.get_running_loop().create_future()


def requested(record: OperationRecord) -> OperationRequested:
    """The event that opens the story of an operation."""
    return OperationRequested(
        record.tool, record.action, record.summary, record.fingerprint, record.turn, record.call_id
    )


def _how_to_permit(operation: Operation) -> str:
    if operation.action == "execute" and operation.argv:
        return "Name it exactly: fluzo run --allow 'COMMAND', or run it on a terminal and answer there."
    return "Run it on a terminal and answer there."
