import asyncio
import threading
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from support.faulty import FaultyStorage
from support.store import (
    AT,
    LIMITS,
    a_grant,
    a_message,
    a_session,
    a_task,
    an_attempt,
    an_intent,
    an_operation,
    created,
    intended,
    journal_at,
    seed,
)

from fluzo.core.contracts import SessionSummary, Storage
from fluzo.core.errors import PermissionRequired, StorageError
from fluzo.core.events import PAYLOADS, Scope, WarningRaised
from fluzo.core.records import (
    Artifact,
    AttemptState,
    Consumption,
    Message,
    OperationState,
    TaskState,
    ToolCall,
)


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    return tmp_path / ".fluzodrive"


def test_a_commit_writes_records_and_events_with_consecutive_numbers(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            first = await journal.commit(a_session(journal), a_task(), events=[created(), created(text="again")])
            second = await journal.commit(events=[created()])
            assert [event.seq for event in (*first, *second)] == [1, 2, 3]
            assert len({event.id for event in (*first, *second)}) == 3
            assert await journal.events_after(0) == (*first, *second)
            assert await journal.last_seq() == 3
        async with journal_at(drive) as journal:
            (event,) = await journal.commit(events=[created()])
            assert event.seq == 4
            assert await journal.task("t_1") == a_task()

    asyncio.run(scenario())


def test_every_record_comes_back_as_it_was(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            session = a_session(journal, title="Prüfung \U0001f600 \x00", yolo=True)
            task = a_task(
                reason="budget_exhausted",
                verification=(("cargo", "test"), ("ruff",)),
                verification_waived=True,
                consumption=Consumption(turns=3, active_seconds=1.25, cost_microunits=7),
                final_message="done",
                result={"status": "completed", "files": [{"path": "a", "added": 1}]},
                limits=LIMITS._replace(max_cost_microunits=5),
            )
            first = an_attempt(state=AttemptState.INTERRUPTED, ended_at=AT, config={"model": {"name": "x"}})
            second = an_attempt("a_2", number=2, previous_id="a_1", baseline={"head": "abc"})
            artifact = Artifact("art_1", "t_1", "output", 3, "d" * 64, AT, truncated=True)
            grant = a_grant("g_1", kind="task")
            standing = a_grant("g_2", kind="standing", task_id="")
            refused = an_operation("o_1", OperationState.REFUSED, ok=False, code="permission_denied")
            asked = an_operation("o_2", OperationState.AUTHORIZED, grant_id="g_1", artifact_id="art_1", attempt_id="")
            plain = a_message(0, Message("user", "fix it"), task_id="", attempt_id="")
            calls = Message(
                "assistant", "look", "think", (ToolCall("c1", "run", '{"a": 1}'), ToolCall("c2", "x", "{")), "", True
            )
            spoken = a_message(1, calls)
            answer = a_message(2, Message("tool", "ok", tool_call_id="c1"))
            # The order does not matter: references are checked when everything is there.
            await journal.commit(
                spoken, answer, plain, asked, refused, standing, grant, artifact, second, first, task, session
            )
            assert await journal.session("s_1") == session
            assert await journal.task("t_1") == task
            assert await journal.task_by_request("request-t_1") == task
            assert await journal.attempts("t_1") == (first, second)
            assert await journal.operations("t_1") == (asked, refused)
            assert await journal.grants("t_1") == (grant,)
            assert await journal.grants("") == (standing,)
            assert await journal.messages("s_1") == (plain, spoken, answer)
            assert await journal.session("none") is None
            assert await journal.task_by_request("") is None

    asyncio.run(scenario())


def _sample(kind: Any) -> Any:
    if kind is str:
        return "Zeile \u2028 \udce9"
    if kind in (int, float):
        return kind(7)
    if kind is bool:
        return True
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return (_sample(inner), _sample(inner))
    if get_origin(kind) is UnionType:
        return _sample(get_args(kind)[0])
    return {"key": "value", "nested": {"list": [1, 2.5, None, False]}}


@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_every_event_comes_back_as_it_was(drive: Path, name: str) -> None:
    payload_type = PAYLOADS[name]
    hints = get_type_hints(payload_type)
    payload = payload_type(**{field: _sample(kind) for field, kind in hints.items()})

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            operation = an_operation("o_1", OperationState.REQUESTED)
            scope = Scope("s_1", "t_1", "a_1", "o_1", "trace")
            committed = await journal.commit(operation, events=[(scope, payload), (Scope(), payload)])
            assert await journal.events_after(0) == committed
            assert [(event.type, event.payload) for event in committed] == [(name, payload)] * 2
            assert [event.type for event in await journal.events_after(0)] == [name] * 2

    asyncio.run(scenario())


def test_text_that_is_not_unicode_is_stored_with_visible_escapes(drive: Path) -> None:
    broken = "caf\udce9 \ud835"
    visible = "caf\\udce9 \\ud835"

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            message = Message("tool", broken, broken, (ToolCall("c", "run", broken),), broken)
            operation = an_operation(
                "o_1", OperationState.REFUSED, summary=broken, code="x", scope={"paths": [broken]}, result={"t": broken}
            )
            task = a_task(text=broken, final_message=broken, workspace_root=broken, result={"t": broken})
            await journal.commit(
                a_session(journal, title=broken), task, operation, a_message(0, message), events=[created(text=broken)]
            )
            (stored,) = await journal.messages("s_1")
            assert stored.message == Message("tool", visible, visible, (ToolCall("c", "run", visible),), visible)
            (record,) = await journal.operations("t_1")
            assert record.summary == visible
            # A path in a scope must stay exactly what it is: it says what was authorized.
            assert record.scope == {"paths": [broken]}
            found = await journal.task("t_1")
            assert found is not None
            assert (found.final_message, found.workspace_root) == (visible, visible)

    asyncio.run(scenario())


def test_a_failing_commit_leaves_neither_record_nor_event(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            nowhere = (Scope("s_1", "t_1", "a_1", "o_unknown"), WarningRaised("code", "text"))
            with pytest.raises(StorageError) as failed:
                await journal.commit(a_task("t_2"), events=[created(), nowhere])
            assert failed.value.code == "storage_failed"
            assert await journal.task("t_2") is None
            assert await journal.last_seq() == 0
            (event,) = await journal.commit(a_task("t_2"), events=[created("t_2")])
            assert event.seq == 1

    asyncio.run(scenario())


def test_two_messages_cannot_have_one_position_nor_two_tasks_one_request(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(a_message(0, Message("user", "one")))
            with pytest.raises(StorageError):
                await journal.commit(a_message(0, Message("user", "two"), id="m_other"))
            with pytest.raises(StorageError):
                await journal.commit(a_task("t_2", request_id="request-t_1"))
            await journal.commit(a_task("t_3", request_id=""), a_task("t_4", request_id=""))

    asyncio.run(scenario())


def test_a_message_is_completed_in_place(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(a_message(0, Message("assistant", "ha", incomplete=True)))
            await journal.commit(a_message(0, Message("assistant", "half and whole")))
            assert [m.message.text for m in await journal.messages("s_1")] == ["half and whole"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("stored", "following"),
    [
        (None, OperationState.KNOWN_RESULT),
        (None, OperationState.INTENT_COMMITTED),
        (OperationState.REQUESTED, OperationState.KNOWN_RESULT),
        (OperationState.AUTHORIZED, OperationState.INTENT_COMMITTED),
        (OperationState.REFUSED, OperationState.REQUESTED),
    ],
)
def test_an_operation_takes_no_step_that_is_not_allowed(
    drive: Path, stored: OperationState | None, following: OperationState
) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            if stored is not None:
                await journal.commit(an_operation("o_1", stored))
            before = await journal.operations("t_1")
            with pytest.raises(ValueError, match="o_1"):
                await journal.commit(an_operation("o_1", following), events=[created()])
            assert await journal.operations("t_1") == before
            assert await journal.last_seq() == 0

    asyncio.run(scenario())


def test_an_ended_operation_stays_ended(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit_intent(an_intent("o_1"))
            await journal.commit(an_operation("o_1", OperationState.DISPATCHED))
            await journal.commit_outcome(an_operation("o_1", OperationState.UNKNOWN, code="outcome_unknown"))
            with pytest.raises(ValueError, match="unknown"):
                await journal.commit_outcome(an_operation("o_1", OperationState.KNOWN_RESULT, ok=True))
            with pytest.raises(ValueError, match="unknown"):
                await journal.commit_intent(an_intent("o_1"))
            with pytest.raises(ValueError, match="dispatched"):
                await journal.commit_outcome(an_operation("o_1", OperationState.DISPATCHED))
            (record,) = await journal.operations("t_1")
            assert record.state is OperationState.UNKNOWN

    asyncio.run(scenario())


def test_a_task_takes_no_step_that_is_not_allowed(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(a_task(state=TaskState.READY))
            await journal.commit(a_task(state=TaskState.READY, reason="the same state again"))
            with pytest.raises(ValueError, match="t_1"):
                await journal.commit(a_task(state=TaskState.COMPLETED))
            found = await journal.task("t_1")
            assert found is not None
            assert found.reason == "the same state again"

    asyncio.run(scenario())


@pytest.mark.parametrize("stored", [None, OperationState.REQUESTED, OperationState.AUTHORIZED])
def test_an_intent_follows_whatever_came_before_the_authorization(drive: Path, stored: OperationState | None) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            if stored is not None:
                await journal.commit(an_operation("o_1", stored))
            (event,) = await journal.commit_intent(an_intent("o_1"), events=[intended("o_1")])
            assert await journal.operations("t_1") == (an_intent("o_1"),)
            assert await journal.unfinished() == ((an_attempt(),), (an_intent("o_1"),))
            done = an_operation("o_1", OperationState.KNOWN_RESULT, ok=True, ended_at=AT, result={"exit": 0})
            ended = an_attempt(state=AttemptState.COMPLETED)
            (last,) = await journal.commit_outcome(done, ended, events=[intended("o_1")])
            assert last.seq == event.seq + 1
            assert await journal.operations("t_1") == (done,)
            assert await journal.unfinished() == ((), ())

    asyncio.run(scenario())


def test_an_intent_needs_the_state_of_an_intent(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            with pytest.raises(ValueError, match="o_1"):
                await journal.commit_intent(an_operation("o_1", OperationState.DISPATCHED))

    asyncio.run(scenario())


def test_a_once_grant_is_consumed_with_the_intent_it_allows(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            grant = a_grant("g_1")
            await journal.commit(grant)
            await journal.commit_intent(an_intent("o_1", grant_id="g_1"), grant=grant)
            assert await journal.grants("t_1") == (grant._replace(consumed_at=AT),)
            with pytest.raises(PermissionRequired):
                await journal.commit_intent(an_intent("o_2"), grant=grant, events=[created()])
            assert [record.id for record in await journal.operations("t_1")] == ["o_1"]
            assert await journal.last_seq() == 0

    asyncio.run(scenario())


def test_an_intent_that_fails_does_not_consume_its_grant(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            grant = a_grant("g_1")
            await journal.commit(grant)
            with pytest.raises(StorageError):
                await journal.commit_intent(an_intent("o_1", task_id="t_unknown"), grant=grant)
            assert await journal.grants("t_1") == (grant,)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["task", "standing"])
def test_a_lasting_grant_allows_more_than_one_intent_until_it_is_revoked(drive: Path, kind: str) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            grant = a_grant("g_1", kind=kind)
            await journal.commit(grant)
            await journal.commit_intent(an_intent("o_1"), grant=grant)
            await journal.commit_intent(an_intent("o_2"), grant=grant)
            await journal.commit(grant._replace(revoked_at=AT))
            with pytest.raises(PermissionRequired):
                await journal.commit_intent(an_intent("o_3"), grant=grant)
            with pytest.raises(ValueError, match="g_1"):
                await journal.commit(grant)

    asyncio.run(scenario())


def test_a_grant_that_was_never_recorded_allows_nothing(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            with pytest.raises(PermissionRequired):
                await journal.commit_intent(an_intent("o_1"), grant=a_grant("g_1"))
            assert await journal.operations("t_1") == ()

    asyncio.run(scenario())


def test_a_cancelled_commit_ends_as_a_whole_before_the_cancellation_goes_on(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            reached, release = threading.Event(), threading.Event()

            def hold() -> None:
                reached.set()
                release.wait()

            held = asyncio.create_task(journal._writer.run(hold))
            commit = asyncio.create_task(journal.commit(events=[created()]))
            await asyncio.to_thread(reached.wait)
            commit.cancel()
            await asyncio.sleep(0)
            waits = not commit.done()
            release.set()
            with pytest.raises(asyncio.CancelledError):
                await commit
            await held
            assert waits
            assert await journal.last_seq() == 1

    asyncio.run(scenario())


def test_concurrent_commits_give_consecutive_numbers(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)

            async def reader() -> None:
                for _ in range(20):
                    seen = [event.seq for event in await journal.events_after(0)]
                    assert seen == list(range(1, len(seen) + 1))

            commits = [journal.commit(events=[created(), created()]) for _ in range(50)]
            await asyncio.gather(*commits, reader(), reader(), reader())
            assert await journal.last_seq() == 100

    asyncio.run(scenario())


def test_events_are_paged_by_number_and_task(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(a_task("t_2"), events=[created(name) for name in ("t_1", "t_2", "t_1", "t_1", "t_2")])
            assert [event.seq for event in await journal.events_after(1, limit=2)] == [2, 3]
            assert [event.seq for event in await journal.events_after(1, task_id="t_1")] == [3, 4]
            assert [event.seq for event in await journal.events_after(4, task_id="t_1")] == []

    asyncio.run(scenario())


def test_pages_go_from_the_newest_back_whatever_the_clock_said(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await journal.commit(
                a_session(journal), a_session(journal, "s_2", created_at="2020-01-01T00:00:00.000000Z")
            )
            for number in range(1, 6):
                await journal.commit(a_task(f"t_{number}", session_id="s_1" if number % 2 else "s_2"))
            await journal.commit(a_task("t_1", state=TaskState.READY))
            assert [s.id for s in await journal.page_sessions(limit=5)] == ["s_2", "s_1"]
            assert [s.id for s in await journal.page_sessions(limit=5, before="s_2")] == ["s_1"]
            assert [t.id for t in await journal.page_tasks(limit=2)] == ["t_5", "t_4"]
            assert [t.id for t in await journal.page_tasks(limit=9, before="t_4")] == ["t_3", "t_2", "t_1"]
            assert [t.id for t in await journal.page_tasks(limit=9, before="t_4", session_id="s_1")] == ["t_3", "t_1"]
            assert await journal.page_tasks(limit=9, before="t_unknown") == ()

    asyncio.run(scenario())


def test_ids_are_found_by_their_beginning(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await journal.commit(a_session(journal), a_session(journal, "s_12"), a_task("t_a1"), a_task("t_a2"))
            await journal.commit(a_task("t_b"))
            assert [t.id for t in await journal.task_by_prefix("t_a")] == ["t_a2", "t_a1"]
            assert [t.id for t in await journal.task_by_prefix("t_a1")] == ["t_a1"]
            assert await journal.task_by_prefix("t_*") == ()
            assert [s.id for s in await journal.session_by_prefix("s_1")] == ["s_12", "s_1"]

    asyncio.run(scenario())


def test_messages_are_paged_from_the_end(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(*(a_message(number, Message("user", str(number))) for number in range(1, 6)))
            assert [m.position for m in await journal.message_page("s_1", limit=2)] == [4, 5]
            assert [m.position for m in await journal.message_page("s_1", limit=2, before_position=3)] == [1, 2]
            assert [m.position for m in await journal.message_page("s_1", limit=9, before_position=1)] == []

    asyncio.run(scenario())


def test_usage_counts_files_and_records(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(events=[created()])
            await journal.store_artifact("t_1", "output", b"x" * 1234)
            usage = dict(await journal.usage_bytes())
            assert usage["database_bytes"] == (drive / "state.sqlite3").stat().st_size
            assert usage["wal_bytes"] == (drive / "state.sqlite3-wal").stat().st_size
            assert usage["artifact_bytes"] == 1234
            assert usage["total_bytes"] == usage["database_bytes"] + usage["wal_bytes"] + 1234
            assert (usage["sessions"], usage["tasks"], usage["events"]) == (1, 1, 1)
            assert await journal.problems() == ()

    asyncio.run(scenario())


def test_a_project_keeps_its_id(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            project = journal.project()
            assert project.id.startswith("p_")
        async with journal_at(drive) as journal:
            assert journal.project() == project
        async with journal_at(drive, read_only=True) as journal:
            assert journal.project() == project

    asyncio.run(scenario())


def test_looking_into_a_store_that_is_not_there_finds_nothing_and_creates_nothing(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive, read_only=True) as journal:
            assert journal.project().id == ""
            assert await journal.page_tasks(limit=5) == ()
            assert await journal.page_sessions(limit=5) == ()
            assert await journal.events_after(0) == ()
            assert await journal.unfinished() == ((), ())
            assert (await journal.usage_bytes())["total_bytes"] == 0
            with pytest.raises(StorageError):
                await journal.commit(events=[created()])

    asyncio.run(scenario())
    assert list(drive.parent.iterdir()) == []


def test_a_reading_journal_writes_nothing_and_leaves_nothing(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
        before = {path.name: path.read_bytes() for path in drive.rglob("*") if path.is_file()}
        async with journal_at(drive, read_only=True) as journal:
            assert await journal.task("t_1") == a_task()
            for refused in (
                journal.commit(a_task("t_2")),
                journal.commit_intent(an_intent("o_1")),
                journal.store_artifact("t_1", "output", b"x"),
                journal.sweep(),
            ):
                with pytest.raises(StorageError, match="reading only"):
                    await refused
        assert {path.name: path.read_bytes() for path in drive.rglob("*") if path.is_file()} == before

    asyncio.run(scenario())


def test_a_store_that_lost_its_name_acknowledges_nothing(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            (drive / "state.sqlite3").rename(drive / "elsewhere")
            with pytest.raises(StorageError, match="moved, replaced or deleted"):
                await journal.commit(events=[created()])
            (drive / "state.sqlite3").write_bytes(b"")
            with pytest.raises(StorageError, match="moved, replaced or deleted"):
                await journal.commit(events=[created()])
            (drive / "elsewhere").replace(drive / "state.sqlite3")
            assert [event.seq for event in await journal.commit(events=[created()])] == [1]

    asyncio.run(scenario())


def test_the_last_event_cannot_be_deleted(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            await journal.commit(events=[created(), created()])
            with pytest.raises(StorageError):
                await journal._write(lambda connection: connection.execute("DELETE FROM events"))
            await journal._write(lambda connection: connection.execute("DELETE FROM events WHERE seq < 2"))
            assert [event.seq for event in await journal.commit(events=[created()])] == [3]

    asyncio.run(scenario())


def test_closing_twice_is_closing_once(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await journal.close()
            with pytest.raises(RuntimeError):
                await journal.commit(events=[created()])
        assert sorted(path.name for path in drive.iterdir()) == ["artifacts", "state.sqlite3"]

    asyncio.run(scenario())


@pytest.mark.parametrize("persistent", [False, True])
def test_a_faulty_store_fails_at_each_of_its_calls_in_turn(drive: Path, persistent: bool) -> None:
    async def attempt(storage: Storage) -> str:
        try:
            await storage.commit(events=[(Scope(), WarningRaised("a", "b"))])
            await storage.events_after(0)
        except StorageError:
            return "failed"
        return "done"

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            outcomes = []
            for fail_at in (1, 2, 3):
                storage: Any = FaultyStorage(journal, fail_at, persistent=persistent)
                outcomes.append((await attempt(storage), storage.met))
                again = await attempt(storage) if fail_at < 3 else "done"
                assert again == ("failed" if persistent and fail_at < 3 else "done")
            assert outcomes == [("failed", True), ("failed", True), ("done", False)]
            assert storage.project() == journal.project()

    asyncio.run(scenario())


def test_a_session_is_summed_up_over_its_tasks_and_one_without_any_is_empty(drive: Path) -> None:
    changes = [{"path": "a.py", "added": 3, "removed": 1}, {"path": "b.py", "added": 2, "removed": 0}]
    used = Consumption(turns=2, input_tokens=30, output_tokens=12)

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await journal.commit(a_session(journal), a_session(journal, "s_2"))
            first = a_task("t_1", text="the first", consumption=used, result={"changes": changes[:1]})
            await journal.commit(first, a_task("t_2", text="then", consumption=used, result={"changes": changes}))
            for number, words in enumerate(("so", "it is done", ""), 1):
                await journal.commit(a_message(number, Message("assistant", words), task_id="t_2", attempt_id=""))
            one, two = await journal.summaries(["s_1", "s_2"])
            assert two == SessionSummary(None)
            assert one.newest is not None and one.newest.id == "t_2"
            assert (one.tasks, one.turns, one.tokens) == (2, 4, 84)
            assert (one.first, one.last, one.branch) == ("the first", "it is done", "")
            assert (one.paths, one.added, one.removed) == (("a.py", "b.py"), 8, 2)

    asyncio.run(scenario())


def test_a_session_that_was_cut_off_names_the_files_that_its_edits_have_changed(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await journal.commit(
                a_session(journal), a_task("t_1", result={"changes": [{"path": "z.py"}]}), a_task("t_2")
            )
            await journal.commit(an_attempt("a_2", task_id="t_2"))
            for number, (task_id, ok, action) in enumerate(
                [("t_2", True, "edit"), ("t_2", False, "write"), ("t_2", True, "read"), ("t_1", True, "edit")]
            ):
                scope = {"tool": "x", "paths": [f"{task_id}/{action}.py"]}
                fields = {"task_id": task_id, "attempt_id": "a_2", "action": action, "scope": scope}
                await journal.commit_intent(an_intent(f"o_{number}", **fields))
                done = an_operation(f"o_{number}", OperationState.KNOWN_RESULT, ok=ok, **fields)
                await journal.commit_outcome(done)
            (found,) = await journal.summaries(["s_1"])
            assert found.paths == ("t_2/edit.py", "z.py")

    asyncio.run(scenario())


def test_what_other_attempts_left_changed_is_known_unless_one_of_this_head_never_told(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            told = {"head": "h1", "end": {"versions": {"a.py": "d", "dé/b.py": ""}}}
            begun = an_attempt("a_9", number=9, baseline={"head": "h2"})
            await journal.commit(an_attempt("a_1", baseline=told), an_attempt("a_8", number=8), begun)
            assert await journal.left_changed("a_9", "h1") == {"a.py", "dé/b.py"}
            assert await journal.left_changed("a_1", "h1") == frozenset()
            assert await journal.left_changed("a_9", "h2") == {"a.py", "dé/b.py"}
            assert await journal.left_changed("a_1", "h2") is None

    asyncio.run(scenario())
