"""The views of the mock-ups: what the port would answer on the invented repository, and the keys that open it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from support import scenes
from support.records import detail_of, message, picture, session_row, task_row, until
from support.screen_inside import ScriptedScreen, ask, begin_task, request

from fluzo.core.port import ConfigDetail, OtherSessions, ResumePlan, SessionDetail, SessionList, TaskDetail, TaskList
from fluzo.core.settings import parse_settings, set_value
from fluzo.core.settings_rows import InForce, config_rows, entry_rows
from fluzo.workspace.diff import compare

F2, F4, F5, F6, F12 = "\x1bOQ", "\x1bOS", "\x1b[15~", "\x1b[17~", "\x1b[24~"
DOWN, RIGHT, LEFT, ENTER = "\x1b[B", "\x1b[C", "\x1b[D", "\r"
REST = 0.5
"""Seconds without a key after which a question listens."""

Scene = tuple[Callable[[ScriptedScreen], Awaitable[None]], Mapping[type, Any]]

# --- tasks --------------------------------------------------------------------------------------------------------

CSV = "Check that the CSV export of the bank rows keeps the sign of refunds"
WAITING = task_row(id="t_1", session_id="s_1", text=CSV, state="waiting", turns=3, active_seconds=31.0, tokens=4000)
ROWS = [
    task_row(id="t_9", text="Invoice rounding", state="running", turns=9, active_seconds=134.0, tokens=18_200),
    WAITING,
    task_row(id="t_7", text="Rename tax module", state="ready", turns=0, active_seconds=0.0, tokens=0),
    task_row(
        id="t_6",
        text="Fetch decimal docs",
        state="blocked",
        reason="budget_exhausted",
        active_seconds=720.0,
        tokens=61_300,
    ),
    task_row(id="t_5", text="npm run watch", state="stopping", active_seconds=662.0, tokens=2200),
    task_row(id="t_4", text="Map callers of q()", verdict="passed", active_seconds=48.0, tokens=6100),
    task_row(
        id="t_3",
        text="Invoice PDF layout",
        state="failed",
        reason="provider_protocol",
        active_seconds=12.0,
        tokens=900,
    ),
    task_row(
        id="t_2",
        text="Upgrade the date library",
        state="cancelled",
        reason="cancelled",
        active_seconds=95.0,
        tokens=12_700,
    ),
]
HEADERS = {
    **request(1, summary="xsv headers bank.csv"),
    "scope": {"tool": "run", "action": "execute", "argv": ["xsv", "headers", "bank.csv"], "cwd": ".", "env": {}},
}
SEARCH = {
    "id": "o_8",
    "turn": 2,
    "tool": "search",
    "action": "search",
    "summary": '"csv" in ledger/',
    "state": "known_result",
    "ok": True,
    "code": "",
    "authorized_by": "policy",
    "result": {"hits": 3},
}
ATTEMPT = {
    "id": "a_1",
    "number": 1,
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "state": "running",
    "reason": "",
    "started_at": "2026-01-01T14:03:10Z",
    "ended_at": "",
    "model": "qwen3-coder:30b",
    "baseline": {},
}
WAITING_DETAIL = detail_of(
    WAITING,
    attempts=[ATTEMPT],
    operations=[SEARCH],
    pending=[HEADERS],
    interventions={"i_1": "also the docs", "i_2": "and the changelog"},
    processes=[{"pid": 4242, "command": "pytest -q"}, {"pid": 4250, "command": "node node_modules/.bin/vite --watch"}],
)
TASKS = {TaskList: {"tasks": ROWS}, TaskDetail: WAITING_DETAIL}


async def tasks(shown: ScriptedScreen) -> None:
    begin_task(shown, CSV)
    ask(shown, HEADERS)
    shown.clock.time += 31
    shown.keys(F4)
    await until(lambda: "npm run watch" in picture(shown))
    shown.keys(DOWN)
    await until(lambda: "4bf92f35" in picture(shown))


async def task(shown: ScriptedScreen) -> None:
    await tasks(shown)
    shown.keys(ENTER)
    await until(lambda: "attempts" in picture(shown))


async def force_stop(shown: ScriptedScreen) -> None:
    await tasks(shown)
    shown.keys("K")
    await until(lambda: "Reading" not in picture(shown))
    shown.clock.time += REST
    shown.keys("2")


# --- sessions -----------------------------------------------------------------------------------------------------

IMPORT = session_row(
    title="Invoice import",
    created_at="2025-11-09T09:12:00Z",
    updated_at="2026-01-01T18:20:00Z",
    tasks=4,
    turns=62,
    tokens=214_000,
    first="Import the bank CSV and match its rows with the open invoices by amount and reference",
    last="All 214 rows match; tests pass.",
    paths=["ledger/bank.py", "ledger/match.py", "ledger/csv.py", "tests/test_bank.py", "tests/test_match.py", "README"],
    added=212,
    removed=48,
)
CUT_OFF = task_row(state="blocked", reason="task_interrupted", text="Move the inventory API to the new schema")
SESSION_ROWS = [
    IMPORT,
    session_row(
        id="s_6",
        title="Invoice PDF layout",
        updated_at="2025-12-29T11:05:00Z",
        turns=18,
        branch="pdf-fix",
        state="failed",
        reason="provider_protocol",
        verdict="",
    ),
    session_row(
        id="s_5",
        title="Inventory API",
        updated_at="2025-11-02T14:31:00Z",
        turns=140,
        state="blocked",
        reason="task_interrupted",
        verdict="",
    ),
    session_row(
        id="s_4",
        title="Replace the decimal rounding of every report by the rules of the new ledger module",
        updated_at="2025-10-30T08:00:00Z",
        turns=7,
        branch="rounding/every-report",
        state="cancelled",
        reason="cancelled",
        verdict="",
    ),
]
CALL = [{"id": "c_1", "name": "run", "arguments": '{"argv": ["uv", "run", "alembic", "upgrade", "head"]}'}]
WRITTEN = [
    message(1, "user", "Move the inventory API to the new schema"),
    message(2, "assistant", "The models are moved; I migrate the database now.", tool_calls=CALL),
]
UNKNOWN = {
    "operation_id": "o_9",
    "tool": "run",
    "summary": "uv run alembic upgrade head",
    "observed": "what the command did can not be told from here",
    "risk": "doing it again may do it twice",
    "text": "run uv run alembic upgrade head: what the command did can not be told from here",
}
PLAN = {
    "task_id": "t_7",
    "attempt_id": "a_1",
    "attempt_number": 1,
    "differences": [{"what": "branch", "text": "the branch was main and is schema-2"}],
    "unknown": [UNKNOWN],
    "limit": None,
    "reconciled": "digest",
    "resumable": True,
}
SESSIONS = {
    SessionList: {"sessions": SESSION_ROWS},
    SessionDetail: {"session": SESSION_ROWS[2], "tasks": [CUT_OFF], "messages": WRITTEN},
    TaskList: {"tasks": [CUT_OFF]},
    TaskDetail: detail_of(CUT_OFF),
    ResumePlan: PLAN,
}


async def sessions(shown: ScriptedScreen) -> None:
    shown.keys(F2)
    await until(lambda: "Inventory API" in picture(shown))


ELSEWHERE = {
    "sessions": [
        session_row(
            id="s_x",
            title="Tax tables of 2026",
            updated_at="2025-12-30T16:40:00Z",
            turns=31,
            branch="tax-2026",
            folder="/home/me/src/tax-tables",
        )
    ],
    "folders": [
        {
            "folder": "/home/me/src/old-site",
            "code": "schema_too_new",
            "problem": ".fluzodrive/state.sqlite3 has schema 9, written by a newer Fluzo; this one knows 5. "
            "Nothing was changed.",
            "hint": "Update Fluzo, then repeat.",
        }
    ],
    "left_out": 0,
}


async def sessions_all(shown: ScriptedScreen) -> None:
    await sessions(shown)
    shown.keys("\t")
    await until(lambda: "Tax tables" in picture(shown))
    shown.keys(DOWN)


async def sessions_found(shown: ScriptedScreen) -> None:
    await sessions(shown)
    shown.keys("/")
    shown.keys("inv")
    await until(lambda: "rounding/every" not in picture(shown))


async def recovered(shown: ScriptedScreen) -> None:
    await sessions(shown)
    shown.keys(DOWN + DOWN)
    shown.keys(ENTER)
    await until(lambda: "stopped here" in picture(shown))
    shown.screen.say("")


async def resume(shown: ScriptedScreen) -> None:
    await sessions(shown)
    shown.keys(DOWN + DOWN)
    shown.keys("R")
    await until(lambda: "alembic" in picture(shown) and "1  Keep reading" in picture(shown))
    shown.clock.time += REST


# --- changes ------------------------------------------------------------------------------------------------------

LINES = [f"    # step {number} of the split" for number in range(1, 12)]
BEFORE = [
    *LINES,
    "def split_amount(total, parts):",
    '    """Shares of a total that add up to it."""',
    "    share = total / parts",
    "    out = []",
    "    for _ in range(parts):",
    "        out.append(q(share))",
    "    return out",
    *LINES,
    *LINES,
    "def q(amount):",
    "    return amount.quantize(CENT, rounding=ROUND_HALF_UP)",
    *LINES,
]
AFTER = [
    *BEFORE[:14],
    "    acc = Decimal(0)",
    "    for i in range(parts):",
    "        nxt = q(share * (i + 1))",
    "        out.append(nxt - acc); acc = nxt",
    *BEFORE[17:41],
    "    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)",
    *BEFORE[42:],
]
ROUND = compare("ledger/round.py", "\n".join(BEFORE).encode(), "\n".join(AFTER).encode()).text
TEST = compare("tests/test_round.py", None, "".join(f"assert shares({n})\n" for n in range(18)).encode()).text
RESULT = {
    "status": "completed",
    "changes": [
        {
            "path": "ledger/round.py",
            "status": "modified",
            "added": 5,
            "removed": 4,
            "preexisting": True,
            "own_lines": [[13, 13], [17, 17]],
        },
        {"path": "tests/test_round.py", "status": "added", "added": 18, "removed": 0, "preexisting": False},
    ],
    "diff": ROUND + TEST,
    "verification": {
        "verdict": "passed",
        "current": True,
        "commands": [{"argv": ["pytest", "-q"], "ok": True}, {"argv": ["ruff", "check"], "ok": True}],
    },
}
DONE = task_row(text=scenes.PROMPT, verdict="passed")
DONE_DETAIL = detail_of(DONE, interventions={}, processes=[])
DONE_DETAIL["task"]["result"] = RESULT
DONE_DETAIL["attempts"][0]["baseline"] = {"versions": {"notes.txt": "d"}}
CHANGED = {
    SessionDetail: {"session": IMPORT, "tasks": [DONE], "messages": WRITTEN[:1]},
    TaskList: {"tasks": [DONE]},
    TaskDetail: DONE_DETAIL,
}


async def changes(shown: ScriptedScreen) -> None:
    assert shown.screen.link is not None
    shown.screen.link.read_page("s_7")
    await until(lambda: shown.screen.state.session_id == "s_7")
    shown.keys(F5)
    await until(lambda: "ledger/round.py  1/2" in picture(shown))


async def changed_files(shown: ScriptedScreen) -> None:
    await changes(shown)
    shown.keys("f")


async def checks(shown: ScriptedScreen) -> None:
    await changes(shown)
    shown.keys("c")


# --- settings and the developer menu ------------------------------------------------------------------------------

FILE: Mapping[str, Any] = {
    "schema_version": 1,
    "agent": {"model": "main"},
    "models": {
        "main": {
            "provider": "openai_compatible",
            "base_url": "http://127.0.0.1:11434/v1",
            "model": "qwen3-coder:30b",
            "context_window": 32_768,
        }
    },
    "harness": {"max_turns": 30},
    "verification": {"commands": [["pytest", "-q"], ["ruff", "check"]]},
}


def _told() -> dict[str, Any]:
    settings = parse_settings(FILE)
    flagged = parse_settings(set_value(FILE, "harness.max_turns", 80))
    return {
        "path": "/w/.fluzo",
        "fingerprint": "f",
        "in_force": "f",
        "problem": "",
        "hint": "",
        "consent": [],
        "rows": config_rows(InForce(flagged, FILE, {"harness.max_turns": 80}, flagged), FILE, settings),
        "entries": entry_rows(),
    }


SETTINGS: Mapping[type, Any] = {ConfigDetail: _told()}


async def settings(shown: ScriptedScreen) -> None:
    shown.keys(F6)
    await until(lambda: "qwen3-coder" in picture(shown) and "endpoint" in picture(shown))


async def limits(shown: ScriptedScreen) -> None:
    await settings(shown)
    shown.keys("/")
    shown.keys("shell_timeout")
    shown.keys(ENTER)
    shown.keys(RIGHT)
    shown.keys("\x1b")
    shown.keys("\t" * 11)
    await until(lambda: "turns per task" in picture(shown))


async def developer(shown: ScriptedScreen) -> None:
    shown.keys(F12)
    await until(lambda: "animation_fps" in picture(shown))
    shown.keys(LEFT)


async def themes(shown: ScriptedScreen) -> None:
    scenes.start(shown)
    shown.keys("/theme")
    shown.keys(ENTER)
    await until(lambda: "Moving shows it" in picture(shown))


# --- cards --------------------------------------------------------------------------------------------------------


async def question(shown: ScriptedScreen) -> None:
    scenes.start(shown)
    asked = "Two rounding rules fit the tests.\nWhich one does the ledger use?"
    ask(shown, request(1, "question", question=asked, choices=["half up, as invoices print", "half even, as banks do"]))


async def several(shown: ScriptedScreen) -> None:
    scenes.start(shown)
    choices = ["ledger/round.py", "ledger/report.py, where the same sum is made", "tests/test_round.py"]
    ask(shown, request(1, "question", question="Which files may I change?", choices=choices, several=True))
    shown.draw()
    shown.keys("\t")
    for key in "31":
        shown.clock.time += REST
        shown.keys(key)


VIEWS: Mapping[str, Scene] = {
    "changes": (changes, CHANGED),
    "changes-files": (changed_files, CHANGED),
    "changes-checks": (checks, CHANGED),
    "tasks": (tasks, TASKS),
    "task": (task, TASKS),
    "force-stop": (force_stop, TASKS),
    "sessions": (sessions, SESSIONS),
    "sessions-found": (sessions_found, SESSIONS),
    "sessions-all": (sessions_all, {**SESSIONS, OtherSessions: ELSEWHERE}),
    "recovered": (recovered, SESSIONS),
    "resume": (resume, SESSIONS),
    "settings": (settings, SETTINGS),
    "limits": (limits, SETTINGS),
    "developer-menu": (developer, SETTINGS),
    "themes": (themes, SETTINGS),
    "question": (question, {}),
    "question-several": (several, {}),
}
