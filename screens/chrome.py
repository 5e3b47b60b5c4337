"""Header, composer rule, status row and sidebar in words and styles. Pure; R3: the state word, YOLO and UNSANDBOXED
are never dropped, everything else gives way."""

from collections.abc import Mapping, Sequence
from typing import Any

from .keys import Registry
from .render import RAIL
from .rows import clock, thousands
from .state import RUNNING_STATES, State, TaskView
from .text import Line, cells, drawable, shorten, shorten_path
from .theme import Glyphs

WORDS = {"completed": "done"}
SECTION_ROWS = 5
CANCELLING = "Cancelling the task"
FORCING = "Asked to force the stop"
"""Both are said when the end of the task was asked for; they go when it has ended."""
MIN_LEFT = 8
"""Columns below which the left of the status row says nothing any more."""
YOLO_COLUMNS = 7
"""Of the badge in the status row."""


def word(state: State) -> str:
    return WORDS.get(state.word, state.word)


def word_style(state: State) -> str:
    return {"recovered": "class:state.recovered"}.get(state.word) or RAIL.get(state.word, "class:state.idle")


def percent(state: State) -> str:
    if not state.context_window or not state.context_used:
        return ""
    return f"{min(100 * state.context_used // state.context_window, 999)}%"


WARNED_PERCENT = 5
"""Points of the window below the threshold of compaction from which the context figure warns (S9)."""


def context_warns(state: State) -> bool:
    margin = state.context_window * WARNED_PERCENT // 100
    return bool(state.compacts_at and state.context_used >= state.compacts_at - margin)


def context_style(state: State, plain: str) -> str:
    return "class:warn.fg" if context_warns(state) else plain


def title(state: State) -> str:
    return " ".join(drawable(state.title).split()) or "New session"


def elapsed(state: State, now: float) -> str:
    """How long the task has been going on, or how long it took; nothing while there is none."""
    task = state.task
    if task is None or not task.since or state.word in ("idle", "queued", "recovered"):
        return ""
    end = now if state.running else task.state_since
    return clock(end - task.since) if end >= task.since else ""


def header(state: State, width: int, mark: Line, glyphs: Glyphs, now: float) -> Line:
    """One row: mark, title, then state and its time, model and context."""
    badge = " UNSANDBOXED" if state.yolo else ""
    time = elapsed(state, now)
    head = f"{word(state)}{badge}{f'  {time}' if time else ''}"
    right = f"{head}  {shorten(drawable(state.model), 24, glyphs.more)}  {percent(state)}".rstrip()
    if cells(right) > width // 2:
        right = f"{head}  {percent(state)}".rstrip()
    left = shorten(title(state), width - 12 - cells(right), glyphs.more)
    gap = " " * max(width - 10 - cells(left) - cells(right) - 1, 1)
    lead = word(state) + badge
    return [
        ("", " "),
        *mark,
        ("class:text.faint", "  · " if glyphs.rail != "|" else "  - "),
        ("class:text.primary", left),
        ("", gap),
        (word_style(state), lead),
        ("class:text.muted", right[len(lead) :].removesuffix(percent(state))),
        (context_style(state, "class:text.muted"), percent(state)),
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
    task = state.task
    if task is not None and sum(item.state in RUNNING_STATES for item in state.tasks.values()) > 1:
        where = shorten(" ".join(drawable(task.text).split()), max(width // 3, 12), glyphs.more)
        left.append((edge, f"{glyphs.rule * 2} to: {where} "))
    used = sum(cells(part) for _, part in left)
    return [*left, (edge, glyphs.rule * max(width - used - cells(right), 0)), (edge, right)]


def status(
    state: State, width: int, now: float, registry: Registry, focus: str, flash: str, glyphs: Glyphs, card: str = ""
) -> Line:
    """Left where we are or what is going on, right the keys that matter now; `card` has those of a focused card."""
    sentence = _sentence(state, now)
    badge: Line = [("class:yolo.fg class:yolo.bg", " YOLO "), ("", " ")] if state.yolo else []
    taken = sum(cells(part) for _, part in badge) + 1
    hints = f"{shorten(flash, width - taken - 1, glyphs.more) or card or hint_text(state, registry, focus)} "
    room = width - taken - cells(hints) - 2
    if room < MIN_LEFT:
        # A sentence for the person goes before where we are; the state has its word in header or sidebar as well.
        return [*badge, ("", " " * max(width - taken - cells(hints) + 1, 1)), ("class:text.strong", hints)]
    folder = shorten_path(drawable(state.folder), max(room - cells(sentence) - 2, 12), glyphs.more)
    branch = f"{drawable(state.branch)}{f'*{state.own_changes}' if state.own_changes else ''}" if state.branch else ""
    # The header or the sidebar says that it runs, and for how long; here stands what it may do without asking.
    mode = "ask" if state.running and not state.yolo else ""
    parts = [folder, sentence] if sentence else [folder, branch, mode]
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
    if state.retrying is not None and state.running:
        left = max(state.retrying.due - now, 0)
        return f"retry {state.retrying.number} of {state.retrying.of} in {left:.0f} s"
    if state.task is None:
        return "recovered, reading only" if state.read_only else ""
    return _task_sentence(state.task, now)


def _task_sentence(task: TaskView, now: float) -> str:
    if task.state in ("stopping", "pending", "ready"):
        return f"{task.state}  {clock(now - task.since)}"
    if task.state == "blocked":
        reason = "model endpoint" if task.reason == "provider_unavailable" else task.reason.replace("_", " ")
        return f"blocked: {reason}" if reason else "blocked"
    after = f" after {clock(task.state_since - task.since)}" if task.state_since > task.since > 0 else ""
    return f"{task.state}{after}" if task.state in ("failed", "cancelled") else ""


def hint_text(state: State, registry: Registry, focus: str) -> str:
    """The two keys that matter now; the focus is `draft` in a composer with something to send."""
    if focus == "transcript":
        return "Enter open  y copy  / find  Esc back"
    wanted: tuple[tuple[str, str], ...]
    if state.requests:
        asked = any(request.kind == "permission" for request in state.requests)
        wanted = (("focus.next", "answer"), ("deny", "deny") if asked else ("interrupt", "cancel"))
    elif state.phase == "failed":
        wanted = (("retry", "try again"), ("help", "keys"))
    elif state.running and state.yolo:
        wanted = (("yolo.off", "turns off"), ("interrupt", "cancel"))
    elif state.running:
        wanted = (("interrupt", "cancel"), ("toggle.row", "expand"))
    elif state.read_only:
        wanted = (("resume", "(asks)"), ("changes", "changes"))
    else:
        after = _AFTER.get(state.word, ())
        useless = {"history.find" if focus == "draft" else "send", *(() if state.changes else ("changes",))}
        useful = [key for key in after if key[0] not in useless]
        wanted = tuple(dict.fromkeys((*useful, ("palette", "commands"), ("help", "keys"))))[:2]
    return keys_in_words(registry, wanted)


_AFTER: Mapping[str, tuple[tuple[str, str], ...]] = {
    "blocked": (("history.find", "retry"), ("settings.models", "model")),
    "failed": (("history.find", "retry"), ("changes", "changes")),
    "cancelled": (("send", "send"), ("changes", "changes")),
    "completed": (("changes", "changes"),),
}
"""What one does next, by the state of the task. In an empty composer the key of the history search tries again."""


def keys_in_words(registry: Registry, wanted: Sequence[tuple[str, str]]) -> str:
    """Keys of the registry with what they do; what has no such action yet is left out."""
    return "  ".join(f"{registry.key(action)} {text}" for action, text in wanted if action in registry.actions)


def end_hints(registry: Registry) -> dict[tuple[str, bool], str]:
    """What stands under the end of a task, by its state and whether it has changed files."""
    wanted = {
        "blocked": (("history.find", "try again"), ("settings.models", "other model")),
        "failed": (("changes", "changes"), ("tasks", "detail"), ("history.find", "try again")),
        "cancelled": (("changes", "changes"),),
    }
    return {
        (state, touched): keys_in_words(registry, [key for key in keys if touched or key[0] != "changes"])
        for state, keys in wanted.items()
        for touched in (True, False)
    }


# --- sidebar --------------------------------------------------------------------------------------------------


def sidebar(state: State, width: int, height: int, now: float, glyphs: Glyphs) -> list[Line]:
    """The rows under the mark; sections without content are not drawn, each shows at most five rows."""
    rows: list[Line] = [[("class:text.strong", shorten(title(state), width, glyphs.more))]]
    badge = " UNSANDBOXED" if state.yolo else ""
    rows.append(_pair(word(state) + badge, elapsed(state, now), width, word_style(state)))
    for section in (_model(state, width, glyphs), _plan(state, width, glyphs), _changed(state, width, glyphs)):
        rows += section
    rows += _limits(state, width, now)
    rows += _checks(state, width, glyphs)
    rows += _health(state, width)
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
    if host and local:
        rows.append([("class:text.muted", shorten(drawable(host), width, glyphs.more))])
    if state.context_window:
        used = f"{thousands(state.context_used)}/{thousands(state.context_window)}" if state.context_used else ""
        name, share = f"context {used or thousands(state.context_window)}", percent(state)
        rows.append(_tone(name, share, width, context_style(state, "class:text.muted")))
        if state.context_used:
            full = min(width * state.context_used // state.context_window, width)
            rows.append(
                [
                    (context_style(state, "class:accent.primary"), glyphs.full * full),
                    ("class:border.idle", glyphs.empty * (width - full)),
                ]
            )
    return _section("model", "local" if local else shorten(drawable(host), width - 6, glyphs.more), rows, width)


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
    rows = [_pair(f"turns {task.turns}", f"of {limits.get('max_turns', '?')}", width)]
    if state.running and (seconds := float(limits.get("max_active_seconds") or 0)):
        rows.append(_pair(f"time {clock(now - task.since)}", f"of {clock(seconds)}", width))
    if tokens := float(limits.get("max_total_tokens") or 0):
        used = f"tokens {'~' if task.estimated else ''}{thousands(task.tokens)}"
        rows.append(_pair(used, f"of {thousands(tokens)}", width))
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


_PROVIDER = ("provider_", "rate_limited", "context_overflow", "redirect_blocked")


def _health(state: State, width: int) -> list[Line]:
    """Whether the model answers, and what else is on, as far as it is known."""
    task, rows = state.task, []
    if state.retrying is not None:
        rows.append(_tone("model", f"retry {state.retrying.number} of {state.retrying.of}", width, "class:warn.fg"))
    elif task is not None and task.state == "blocked" and task.reason.startswith(_PROVIDER):
        word = task.reason.removeprefix("provider_").replace("_", " ")
        rows.append(_tone("model", word, width, "class:state.blocked"))
    elif state.context_used:
        rows.append(_tone("model", "ok", width, "class:ok.fg"))
    rows += [_tone(name, word, width, "class:text.muted") for name, word in state.health]
    return _section("health", "", rows, width)


def _tone(left: str, right: str, width: int, style: str) -> Line:
    """A name at the left and a word in its own style at the right."""
    left, right = drawable(left), shorten(drawable(right), width - cells(left) - 1)
    return [("", left), ("", " " * max(width - cells(left) - cells(right), 0)), (style, right)]
