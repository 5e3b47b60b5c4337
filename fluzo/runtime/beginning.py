"""What a task begins with: its session, its record and its first or next attempt. Nothing is stored here."""

from fluzo.core.errors import UsageError
from fluzo.core.events import Payload, SessionCreated, YoloChanged
from fluzo.core.port import StartTask
from fluzo.core.records import Attempt, AttemptState, Session, Task, TaskState
from fluzo.runtime.services import Services

MAX_TITLE_CHARACTERS = 80


async def session_of(services: Services, command: StartTask) -> tuple[Session, tuple[Payload, ...]]:
    """The session that a task begins in, with the events that tell of it. Raises UsageError `not_found`."""
    yolo: tuple[Payload, ...] = (YoloChanged(True, "user"),) if command.yolo else ()
    if command.session_id:
        old = await services.storage.session(command.session_id)
        if old is None:
            raise UsageError(
                f"There is no session {command.session_id}.", code="not_found", hint="See: fluzo sessions list"
            )
        # A mode of an earlier run never comes back by itself.
        return old._replace(updated_at=services.now(), yolo=command.yolo), yolo
    title = title_of(command.text)
    now = services.now()
    session = Session(services.new_id("s"), services.project_id, title, now, now, command.yolo)
    return session, (SessionCreated(title), *yolo)


def task_of(services: Services, command: StartTask, session: Session) -> Task:
    """A new task, pending, with the limits and checks in force now."""
    now = services.now()
    return Task(
        id=services.new_id("t"),
        session_id=session.id,
        request_id=command.request_id,
        text=command.text,
        state=TaskState.PENDING,
        reason="",
        created_at=now,
        updated_at=now,
        workspace_root=services.root,
        workspace_identity=services.workspace_identity,
        limits=services.defaults.limits,
        verification=(*services.defaults.verification, *command.verify),
        verification_waived=command.waive_verification,
    )


def attempt_of(services: Services, task: Task, previous: Attempt | None) -> Attempt:
    """A new attempt at a task, linked to the one before it, if any."""
    return Attempt(
        id=services.new_id("a"),
        task_id=task.id,
        trace_id=services.new_trace_id(),
        number=previous.number + 1 if previous else 1,
        state=AttemptState.RUNNING,
        started_at=services.now(),
        previous_id=previous.id if previous else "",
    )


def title_of(text: str) -> str:
    """A title: one line of a bounded length."""
    return " ".join(text.split())[:MAX_TITLE_CHARACTERS]
