"""Queries: each one to one handler, over the store alone. No provider, no tool, no change (ARCH 6.2)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fluzo.core.contracts import Storage
from fluzo.core.errors import UsageError
from fluzo.core.events import event_to_json
from fluzo.core.port import (
    CapacityStatus,
    ConfigDetail,
    EventPage,
    FileNames,
    FolderFacts,
    HistoryUsage,
    OtherSession,
    OtherSessions,
    PendingRequests,
    Query,
    ResumePlan,
    SessionDetail,
    SessionList,
    Snapshot,
    TaskDetail,
    TaskList,
    WorkingTree,
)
from fluzo.core.records import Session, Task
from fluzo.runtime import views

if TYPE_CHECKING:
    from fluzo.runtime.configuration import Configuration
    from fluzo.runtime.tasks import Tasks

R = TypeVar("R")

MAX_PAGE = 1000

_Host = ResumePlan | FileNames | FolderFacts | WorkingTree | OtherSessions | OtherSession
_Small = SessionList | HistoryUsage | PendingRequests | CapacityStatus | ConfigDetail


class Queries:
    """`live` says whether some process owns the workspace; `tasks` are the ones that this process runs, if it does."""

    def __init__(
        self,
        storage: Storage,
        live: Callable[[], bool],
        tasks: "Tasks | None" = None,
        configuration: "Configuration | None" = None,
    ) -> None:
        self._storage = storage
        self._configuration = configuration
        self._live = live
        self._tasks = tasks

    async def answer(self, query: Query) -> Snapshot:
        """The read model of one query. Raises UsageError `not_found` for an unknown or ambiguous id."""
        # The cursor is taken first: a reader that subscribes after it may see an event twice, never miss one.
        cursor = await self._storage.last_seq()
        return Snapshot(cursor, await self._data(query))

    async def _data(self, query: Query) -> Mapping[str, Any]:
        match query:
            case TaskList():
                return await self._task_list(query)
            case TaskDetail():
                return await self._task_detail(query)
            case SessionDetail():
                return await self._session_detail(query)
            case EventPage():
                return await self._event_page(query)
            case ResumePlan() | FileNames() | FolderFacts() | WorkingTree() | OtherSessions() | OtherSession():
                return await self._workspace(query)
            case SessionList() | HistoryUsage() | PendingRequests() | CapacityStatus() | ConfigDetail():
                return await self._small(query)

    async def _small(self, query: _Small) -> Mapping[str, Any]:
        if isinstance(query, ConfigDetail):
            return await self._config_detail()
        if isinstance(query, PendingRequests):
            pending = self._tasks.pending(query.task_id) if self._tasks else ()
            return {"pending": [views.pending_json(item) for item in pending]}
        if isinstance(query, CapacityStatus):
            return {"slots": list(self._tasks.capacity()) if self._tasks else []}
        if isinstance(query, HistoryUsage):
            return {"usage": dict(await self._storage.usage_bytes())}
        sessions = await self._storage.page_sessions(limit=min(query.limit, MAX_PAGE), before=query.before)
        summaries = await self._storage.summaries([item.id for item in sessions])
        live = self._live()
        rows = zip(sessions, summaries, strict=True)
        return {"sessions": [views.session_row(item, found, live=live) for item, found in rows]}

    async def _task_list(self, query: TaskList) -> Mapping[str, Any]:
        live = self._live()
        limit = min(query.limit, MAX_PAGE)
        tasks = await self._storage.page_tasks(limit=limit, before=query.before, session_id=query.session_id)
        return {"tasks": [views.task_row(task, live=live) for task in tasks]}

    async def _task_detail(self, query: TaskDetail) -> Mapping[str, Any]:
        # Asked first: whoever is gone by now writes nothing more, so that what is read next is the last word.
        live = self._live()
        task = await self._find_task(query.task_id)
        running = self._tasks
        detail = views.task_detail(
            task,
            await self._storage.attempts(task.id),
            await self._storage.operations(task.id),
            await self._storage.grants(task.id),
            running.pending(task.id) if running else (),
            live=live,
        )
        processes = running.processes(task.id) if running else ()
        failure = running.failure if running else None
        return {
            **detail,
            "interventions": dict(running.interventions(task.id)) if running else {},
            "processes": [{"pid": pid, "command": command} for pid, command in processes],
            "failure": failure.to_json() if failure else None,
        }

    async def _session_detail(self, query: SessionDetail) -> Mapping[str, Any]:
        live = self._live()
        session = await self._find_session(query.session_id)
        messages = await self._storage.message_page(
            session.id, limit=min(query.limit, MAX_PAGE), before_position=query.before_position
        )
        tasks = await self._storage.page_tasks(limit=MAX_PAGE, session_id=session.id)
        return {
            "session": views.session_json(session),
            "tasks": [views.task_row(task, live=live) for task in tasks],
            "messages": [views.message_json(item) for item in messages],
        }

    async def _workspace(self, query: _Host) -> Mapping[str, Any]:
        """What only a host that runs tasks can tell, for it looks at the files."""
        if self._tasks is None:
            raise UsageError("This view is read-only; it does not look at the files.")
        if isinstance(query, FileNames):
            return {"names": list(await self._tasks.file_names(query.limit))}
        if isinstance(query, FolderFacts):
            return await self._tasks.folder_facts()
        if isinstance(query, WorkingTree):
            return await self._tasks.working_tree()
        if isinstance(query, OtherSessions):
            return await self._tasks.elsewhere.sessions(query.limit)
        if isinstance(query, OtherSession):
            return await self._tasks.elsewhere.session(query.folder, query.session_id, query.limit)
        plan, _ = await self._tasks.plan((await self._find_task(query.task_id)).id)
        return plan.to_json()

    async def _config_detail(self) -> Mapping[str, Any]:
        if self._configuration is None:
            raise UsageError("Here no settings are in force.", code="not_permitted", hint="See: fluzo config show")
        return await self._configuration.detail()

    async def _event_page(self, query: EventPage) -> Mapping[str, Any]:
        task_id = (await self._find_task(query.task_id)).id if query.task_id else ""
        limit = min(query.limit, MAX_PAGE)
        events = await self._storage.events_after(query.after, task_id=task_id, limit=limit)
        return {"events": [event_to_json(event) for event in events]}

    async def _find_task(self, wanted: str) -> Task:
        if wanted == "last":
            found = await self._storage.page_tasks(limit=1)
        else:
            found = await self._storage.task_by_prefix(wanted)
        return _single(found, "task", wanted)

    async def _find_session(self, wanted: str) -> Session:
        if wanted == "last":
            found = await self._storage.page_sessions(limit=1)
        else:
            found = await self._storage.session_by_prefix(wanted)
        return _single(found, "session", wanted)


def _single(found: Sequence[R], kind: str, wanted: str) -> R:
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"There is no {kind} {wanted}.", code="not_found", hint=f"See: fluzo {kind}s list")
    raise UsageError(
        f"{wanted} is the beginning of {len(found)} {kind} ids.", code="not_found", hint="Give more characters of it."
    )
