"""Header, composer rule, status row and sidebar in words and styles. Pure; R3: the state word, YOLO and UNSANDBOXED
are never dropped, everything else gives way."""

from collections.abc import Mapping
from typing import Any

from .keys import Registry
from .render import RAIL
from .rows import clock, thousands
from .state import State, TaskView
from .text import Line, cells, drawable, shorten, shorten_path
from .theme import Glyphs

WORDS = {"completed": "done"}
SECTION_ROWS = 5


def word(state: State) -> str:
    return WORDS.get(state.word, state.word)


def word_style(state: State) -> str:
    return {"recovered": "class:state.recovered"}.get(state.word) or RAIL.get(state.word, "class:state.idle")


def percent(state: State) -> str:
    if not state.context_window or not state.context_used:
        return ""
    return f"{min(100 * state.context_used // state.context_window, 999)}%"


def title(state: State) -> str:
    return " ".join(drawable(state.title).split()) or "New session"


def header(state: State, width: int, mark: Line, glyphs: Glyphs) -> Line:
    """One row: mark, title, then state, model and context."""
    badge = " UNSANDBOXED" if state.yolo else ""
    right = f"{word(state)}{badge}  {shorten(drawable(state.model), 24, glyphs.more)}  {percent(state)}".rstrip()
    if cells(right) > width // 2:
        right = f"{word(state)}{badge}  {percent(state)}".rstrip()
    left = shorten(title(state), width - 12 - cells(right), glyphs.more)
    gap = " " * max(width - 10 - cells(left) - cells(right) - 1, 1)
    head = word(state) + badge
    return [
        ("", " "),
        *mark,
        ("class:text.faint", "  · " if glyphs.rail != "|" else "  - "),
        ("class:text.primary", left),
        ("", gap),
        (word_style(state), head),
        ("class:text.muted", right[len(head) :]),
    ]


def rule(state: State, width: int, glyphs: Glyphs, *, focused: bool) -> Line:
    """The rule over the composer: the permission mode, where a message goes, and what is queued."""
    edge = "class:border.focus" if focused else "class:border.idle"
    queued = len(state.queued)
    right = f" {queued} queued {glyphs.rule * 2}" if queued else ""
    if state.yolo:
        left: Line = [(edge, glyphs.rule), ("class:yolo.fg class:yolo.bg", " YOLO: nothing asks ")]
    else:
        left = [(edge, f"{glyphs.rule} ask ")]
    used = sum(cells(part) for _, part in left)
    return [*left, (edge, glyphs.rule * max(width - used - cells(right), 0)), (edge, right)]


def status(state: State, width: int, now: float, registry: Registry, focus: str, flash: str, glyphs: Glyphs) -> Line:
    """Left where we are or what is going on, right the keys that matter now."""
    hints = f"{flash or hint_text(state, registry, focus)} "
    sentence = _sentence(state, now)
    badge: Line = [("class:yolo.fg class:yolo.bg", " YOLO "), ("", " ")] if state.yolo else []
    taken = sum(cells(part) for _, part in badge) + 1
    room = max(width - taken - cells(hints) - 2, 8)
    folder = shorten_path(drawable(state.folder), max(room - cells(sentence) - 2, 12), glyphs.more)
    branch = f"{drawable(state.branch)}{f'*{state.own_changes}' if state.own_changes else ''}" if state.branch else ""
    parts = [folder, sentence] if sentence else [folder, branch]
    left = "  ".join(part for part in parts if part)
    if cells(left) > room:
        left = sentence or folder
    left = shorten(left, room, glyphs.more)
    gap = " " * max(width - taken - cells(left) - cells(hints), 0)
    style = word_style(state) if sentence else "class:text.muted"
    tone = "class:text.strong" if flash else "class:text.muted"
    return [*badge, ("", " "), (style, left), ("", gap), (tone, hints)]


def _sentence(state: State, now: float) -> str:
    if state.phase == "opening":
        return "opening" if state.waiting_submit is None else "opening; your message goes out when it is done"
    if state.phase == "failed" and state.failure is not None:
        return f"blocked: {state.failure.code.replace('_', ' ')}"
    if state.requests:
        return f"waiting for you  {clock(now - state.requests[0].since)}"
    if state.task is None:
        return "recovered, reading only" if state.read_only else ""
    return _task_sentence(state.task, now)


def _task_sentence(task: TaskView, now: float) -> str:
    if task.state in ("running", "stopping", "pending", "ready"):
        return f"{task.state}  {clock(now - task.since)}"
    reason = task.reason.replace("_", " ")
    if task.state in ("failed", "blocked"):
        return f"{task.state}: {reason}" if reason else task.state
    return "cancelled" if task.state == "cancelled" else ""


def hint_text(state: State, registry: Registry, focus: str) -> str:
    """The two keys that matter now."""
    if focus == "card":
        return "Enter confirms a choice  Esc back"
    if focus == "transcript":
        return "Enter open  y copy  / find  Esc back"
    if state.requests:
        wanted = (("focus.next", "answer"), ("deny", "deny"))
    elif state.phase == "failed":
        wanted = (("retry", "try again"), ("help", "keys"))
    elif state.running:
        wanted = (("interrupt", "cancel"), ("toggle.row", "expand"))
    else:
        wanted = (("palette", "commands"), ("help", "keys"))
    return "  ".join(f"{registry.key(action)} {text}" for action, text in wanted)


# --- sidebar --------------------------------------------------------------------------------------------------


def sidebar(state: State, width: int, height: int, now: float, glyphs: Glyphs) -> list[Line]:
    """The rows under the mark; sections without content are not drawn, each shows at most five rows."""
    rows: list[Line] = [[("class:text.strong", shorten(title(state), width, glyphs.more))]]
    task = state.task
    since = clock(now - task.since) if task and state.running else ""
    badge = " UNSANDBOXED" if state.yolo else ""
    rows.append(_pair(word(state) + badge, since, width, word_style(state)))
    for section in (_model(state, width, glyphs), _plan(state, width, glyphs), _changed(state, width, glyphs)):
        rows += section
    rows += _limits(state, width, now)
    rows += _checks(state, width, glyphs)
    if len(rows) > height:
        rows = [*rows[: height - 1], [("class:text.faint", glyphs.more)]]
    return rows


def _pair(left: str, right: str, width: int, style: str = "class:text.primary") -> Line:
    left = shorten(left, width - cells(right) - 1)
    gap = " " * max(width - cells(left) - cells(right), 0)
    return [(style, left), ("", gap), ("class:text.muted", right)] if right else [(style, left)]


def _section(name: str, right: str, rows: list[Line], width: int) -> list[Line]:
    if not rows:
        return []
    shown = rows[:SECTION_ROWS]
    if len(rows) > SECTION_ROWS:
        shown[-1] = [("class:text.faint", f"+{len(rows) - SECTION_ROWS + 1}")]
    return [[], _pair(name, right, width, "class:accent.primary"), *shown]


def _model(state: State, width: int, glyphs: Glyphs) -> list[Line]:
    if not state.model:
        return []
    local = any(part in state.endpoint for part in ("//127.", "//localhost", "//[::1]"))
    host = state.endpoint.partition("://")[2].partition("/")[0]
    rows: list[Line] = [[("", shorten(drawable(state.model), width, glyphs.more))]]
    if host:
        rows.append([("class:text.muted", shorten(drawable(host), width, glyphs.more))])
    if state.context_window:
        used = f"{thousands(state.context_used)}/{thousands(state.context_window)}" if state.context_used else ""
        rows.append(_pair(f"context {used or thousands(state.context_window)}", percent(state), width))
        if state.context_used:
            full = min(width * state.context_used // state.context_window, width)
            rows.append(
                [("class:accent.primary", glyphs.full * full), ("class:border.idle", glyphs.empty * (width - full))]
            )
    return _section("model", "local" if local else "remote", rows, width)


def _plan(state: State, width: int, glyphs: Glyphs) -> list[Line]:
    marks = {"completed": glyphs.done, "in_progress": glyphs.closed}
    rows: list[Line] = []
    for step in state.plan:
        status = str(step.get("status"))
        style = "class:text.muted" if status == "completed" else "class:text.primary"
        text = " ".join(drawable(str(step.get("step", ""))).split())
        rows.append([(style, shorten(f"{marks.get(status, ' ')} {text}", width, glyphs.more))])
    done = sum(step.get("status") == "completed" for step in state.plan)
    return _section("plan", f"{done}/{len(state.plan)}", rows, width)


def _changed(state: State, width: int, glyphs: Glyphs) -> list[Line]:
    rows = [
        _pair(
            shorten_path(drawable(str(change.get("path"))), width - 10, glyphs.more),
            f"+{change.get('added') or 0} -{change.get('removed') or 0}",
            width,
        )
        for change in state.changes
    ]
    return _section("changed", f"{len(rows)} files" if len(rows) != 1 else "1 file", rows, width)


def _limits(state: State, width: int, now: float) -> list[Line]:
    task = state.task
    if task is None or not task.limits:
        return []
    limits: Mapping[str, Any] = task.limits
    rows = [
        _pair(f"turns {task.turns}", f"of {limits.get('max_turns', '?')}", width),
        _pair(
            f"tokens {'~' if task.estimated else ''}{thousands(task.tokens)}",
            f"of {thousands(float(limits.get('max_total_tokens') or 0))}",
            width,
        ),
    ]
    if state.running:
        allowed = clock(float(limits.get("max_active_seconds") or 0))
        rows.insert(1, _pair(f"time {clock(now - task.since)}", f"of {allowed}", width))
    return _section("limits", "", rows, width)


def _checks(state: State, width: int, glyphs: Glyphs) -> list[Line]:
    styles = {"passed": "class:ok.fg", "failed": "class:state.failed", "stale": "class:warn.fg"}
    rows: list[Line] = []
    for name, verdict in state.checks:
        left = shorten(drawable(name), width - len(verdict) - 1, glyphs.more)
        gap = " " * (width - cells(left) - len(verdict))
        rows.append([("", left), ("", gap), (styles.get(verdict, "class:text.muted"), verdict)])
    stale = sum(verdict == "stale" for _, verdict in state.checks)
    return _section("checks", f"{stale} stale" if stale else "", rows, width)


def welcome(state: State, registry: Registry, earlier: str) -> list[Line]:
    """What stands in an empty conversation: facts of the folder and where to begin."""
    rows: list[Line] = [[]]
    facts = [state.folder]
    if state.checks:
        facts.append(f"checks: {', '.join(name for name, _ in state.checks)[:60]}")
    rows.append([("class:text.muted", "  ".join(facts))])
    rows += [[], [("class:text.strong", "Try")]]
    tries = (
        ("explain @README.md", "mention a file"),
        (registry.key("palette"), "every command"),
        ("/commands", "the same, typed"),
        (registry.key("help"), "all keys"),
    )
    rows += [[("class:accent.primary", f"  {left:<24}"), ("class:text.muted", right)] for left, right in tries]
    if earlier:
        rows += [[], [("class:text.muted", earlier)]]
    return rows
