"""A task in words: its row in the list, what it does now, and everything recorded of it. Pure.

Invariant: an outcome that nobody recorded is called unknown, and no figure is shown without the record it comes from.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fluzo.core.outcome import count, verb_of

from .changes import verdicts
from .render import wrapped
from .rows import clock, facts_of, subject_of, thousands
from .sanitize import clean
from .sheet import column, safe
from .text import Line, shorten
from .theme import Glyphs

STYLES = {
    "running": "class:state.running",
    "stopping": "class:state.waiting",
    "waiting": "class:state.waiting",
    "blocked": "class:state.blocked",
    "completed": "class:state.completed",
    "failed": "class:state.failed",
    "cancelled": "class:state.cancelled",
    "passed": "class:ok.fg",
    "stale": "class:warn.fg",
    "unknown": "class:warn.fg",
}
_MUTED, _PLAIN, _STRONG = "class:text.muted", "class:text.primary", "class:text.strong"
_OUTPUT_ROWS = 12
_TITLE = 120
_TRACE = 8
"""Characters of a trace id beside the list; the task in full has all of them."""


WORDS = {"completed": "done", "pending": "queued", "ready": "queued"}
VERDICTS = {"passed": "checked", "stale": "stale", "waived": "waived", "unverified": "unverified", "not_run": ""}
REASONS = {
    "budget_exhausted": "limit",
    "permission_required": "permission",
    "permission_denied": "denied",
    "input_required": "answer",
    "verification_failed": "checks",
    "provider_auth": "key",
    "rate_limited": "rate limit",
    "context_overflow": "context",
    "capacity_full": "slots",
    "capacity_timeout": "slots",
    "task_interrupted": "cut off",
    "task_failed": "agent",
    "outcome_unknown": "unknown",
    "cancelled": "by you",
}
"""The machine's reasons in a word or two; those of a family by their beginning, below."""
_FAMILIES = {"provider": "model", "redirect": "model", "storage": "disk", "store": "disk", "workspace": "workspace"}


def state_word(task: Mapping[str, Any]) -> str:
    """The state in the word of the design; a task that nobody ended is interrupted."""
    state = safe(task["state"])
    if state == "blocked" and task.get("reason") == "task_interrupted":
        return "interrupted"
    return WORDS.get(state, state)


def reason_word(task: Mapping[str, Any], grace_left: float) -> str:
    """Why a task is where it is. `grace_left` are the seconds that a cancelled one has until it is forced."""
    state, reason = str(task["state"]), str(task.get("reason") or "")
    if state in ("running", "waiting", "pending", "ready"):
        return {"running": f"turn {task['turns']}", "waiting": "you"}.get(state, "writer")
    if state == "stopping":
        return f"{grace_left:.0f} s" if grace_left >= 1 else "ending"
    if state == "completed":
        return VERDICTS.get(str(task.get("verdict") or ""), "")
    family = _FAMILIES.get(reason.partition("_")[0], "")
    return REASONS.get(reason) or family or safe(reason).replace("_", " ")


def style_of(task: Mapping[str, Any]) -> str:
    return STYLES.get(str(task["state"]), _MUTED)


def glyph_of(state: str, glyphs: Glyphs) -> str:
    known = {"running": glyphs.closed, "completed": glyphs.done, "failed": glyphs.failed, "blocked": "!"}
    known |= {"cancelled": glyphs.cancelled, "stopping": glyphs.cancelled}
    return known.get(state, glyphs.waiting)


def task_columns(width: int) -> Line:
    """The names over the rows of the list."""
    return [(_MUTED, f"  {'state':<12}{column('task', task_room(width))} {'reason':<11}{'time':>8}{'tok':>8}")]


def task_room(width: int) -> int:
    return max(width - 43, 12)


def task_row(task: Mapping[str, Any], width: int, elapsed: float, grace_left: float, glyphs: Glyphs) -> Line:
    """One row of the list: state, text, reason, active time and tokens."""
    glyph = glyph_of(str(task["state"]), glyphs)
    tokens = thousands(float(task["tokens"])) if task["tokens"] else "-"
    return [
        (style_of(task), f"{glyph} {column(state_word(task), 12)}"),
        (_PLAIN, column(safe(task["text"]), task_room(width))),
        (_MUTED, f" {column(reason_word(task, grace_left), 11)}{clock(elapsed):>8}{tokens:>8}"),
    ]


def about_task(
    task: Mapping[str, Any], detail: Mapping[str, Any] | None, elapsed: float, grace_left: float = 0.0
) -> list[Line]:
    """What stands below or beside the list for the lit task, at most eight rows."""
    word = "waiting for you" if task["state"] == "waiting" else state_word(task)
    why = reason_word(task, grace_left) if task["state"] not in ("running", "waiting") else ""
    head = f"{word}{f': {why}' if why else ''}  {clock(elapsed)}"
    rows: list[Line] = [[(_STRONG, shorten(safe(task["text"]), _TITLE))], [(style_of(task), head)]]
    if detail is None:
        return rows
    for item in list(detail["pending"])[:2]:
        what = item.get("question") or f"{item.get('tool', '')} {item.get('summary', '')}"
        rows.append([("class:state.waiting", "asks: "), (_PLAIN, safe(what))])
    operations = tool_operations(detail)
    if operations:
        rows.append(current_line(operations[-1]))
    limits = detail["task"]["limits"]
    used = f"{task['turns']} of {limits.get('max_turns', '?')} turns  "
    used += f"{thousands(float(task['tokens']))} of {thousands(float(limits.get('max_total_tokens') or 0))} tokens"
    rows.append([(_MUTED, "used: "), (_PLAIN, used)])
    queued = len(detail.get("interventions") or {})
    words = f"  {count(queued, 'message', 'messages')} queued to it" if queued else ""
    rows.append([(_MUTED, "trace: "), (_PLAIN, trace_of(detail)[:_TRACE]), (_MUTED, words)])
    if detail["attempts"] and (model := detail["attempts"][-1].get("model")):
        rows.append([(_MUTED, "model: "), (_PLAIN, safe(model))])
    return rows


def tool_operations(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The operations of tools; requests to the model are not shown as acts."""
    return [item for item in detail["operations"] if item["action"] != "infer"]


def current_line(item: Mapping[str, Any]) -> Line:
    """What the task does now, or did last."""
    label = "last: " if item["state"] in ("known_result", "refused", "unknown") else "now: "
    return [(_MUTED, label), *operation_line(item)]


def operation_line(item: Mapping[str, Any]) -> Line:
    verb = verb_of(str(item["tool"]), str(item["action"]))
    style, outcome = _outcome(item)
    subject = subject_of(str(item["summary"]), facts_of(item.get("result") or {}))
    return [("class:role.tool", f"{safe(verb)} "), (_PLAIN, safe(subject)), (style, f"  {outcome}")]


def _outcome(item: Mapping[str, Any]) -> tuple[str, str]:
    state, code = str(item["state"]), safe(item.get("code"))
    if state == "unknown":
        return "class:warn.fg", "OUTCOME UNKNOWN; it is not run again"
    if state != "known_result":
        return _MUTED, f"{safe(state).replace('_', ' ')}{f'  [{code}]' if code else ''}"
    facts = safe(facts_of(item.get("result") or {}))
    by = f"by {safe(item['authorized_by'])}" if item.get("authorized_by") else ""
    words = "  ".join(part for part in (facts, f"[{code}]" if code and not item["ok"] else "", by) if part)
    return (_MUTED if item["ok"] else "class:state.failed"), words


def trace_of(detail: Mapping[str, Any]) -> str:
    attempts = detail["attempts"]
    return safe(attempts[-1]["trace_id"]) if attempts else "none yet"


# --- the whole task -------------------------------------------------------------------------------------------


def task_rows(detail: Mapping[str, Any], width: int) -> list[Line]:
    """Everything that a person looks for about one task, in the order in which they look."""
    task = detail["task"]
    result = task.get("result") or {}
    reason = safe(task.get("reason")).replace("_", " ")
    state = f"{state_word(task)}{f': {reason}' if reason else ''}"
    rows: list[Line] = [[(STYLES.get(str(task["state"]), _MUTED), state), (_MUTED, f"   task {safe(task['id'])}")]]
    when = f"asked {moment_of(task['created_at'])}, last change {moment_of(task['updated_at'])} UTC"
    rows += [[(_MUTED, when)], *_text("request", task["text"], width)]
    rows += error_rows(result.get("error"), width)
    rows += section("waits for you", [_pending(item) for item in detail["pending"]])
    queued = (detail.get("interventions") or {}).values()
    rows += section("queued to it", [[(_PLAIN, safe(text))] for text in queued])
    rows += section("processes", [[(_PLAIN, process_text(item))] for item in detail.get("processes") or ()])
    rows += section("verification", check_rows(result.get("verification") or {}, width, task))
    rows += section("attempts", [_attempt(item) for item in detail["attempts"]])
    rows += section("operations", [operation_line(item) for item in tool_operations(detail)])
    rows += _text("answer", task.get("final_message"), width)
    return rows


def section(name: str, rows: Sequence[Line]) -> list[Line]:
    """A headed group of rows, or nothing."""
    return [[], [(_STRONG, name)], *([("", "  "), *line] for line in rows)] if rows else []


def moment_of(at: object) -> str:
    """Date and time to the second of a recorded instant (UTC)."""
    return safe(at)[:19].replace("T", " ")


def process_text(item: Mapping[str, Any]) -> str:
    return f"{safe(item['pid'])}  {safe(item['command'])}"


def _text(name: str, text: object, width: int) -> list[Line]:
    shown = clean(str(text or "")).strip("\n")
    return section(name, wrapped(shown, max(width - 6, 20), _PLAIN)) if shown else []


def error_rows(error: Mapping[str, Any] | None, width: int) -> list[Line]:
    """What went wrong, with its code and the next step; nothing where nothing did."""
    if not error:
        return []
    text = f"{error.get('message') or 'It did not end well.'}  [{error.get('code')}]"
    hint = str(error.get("hint") or "")
    found = wrapped(clean(text), max(width - 6, 20), "class:state.failed")
    return section("error", found + (wrapped(clean(hint), max(width - 6, 20), _MUTED) if hint else []))


def _pending(item: Mapping[str, Any]) -> Line:
    what = item.get("question") or f"{item.get('tool', '')} {item.get('summary', '')}"
    return [("class:state.waiting", safe(what))]


def _attempt(item: Mapping[str, Any]) -> Line:
    reason = safe(item.get("reason")).replace("_", " ")
    state = f"{safe(item['state'])}{f': {reason}' if reason else ''}"
    return [
        (_PLAIN, f"{item['number']}  {column(state, 24)}"),
        (_MUTED, f"  trace {safe(item['trace_id'])}  {moment_of(item['started_at'])}"),
    ]


def check_rows(verification: Mapping[str, Any], width: int, task: Mapping[str, Any]) -> list[Line]:
    """Each declared check with its verdict; of a failed one the end of its output."""
    rows: list[Line] = []
    checks = [item for item in verification.get("commands") or () if isinstance(item, Mapping)]
    for (name, word), check in zip(verdicts(verification), checks, strict=True):
        shown = "passed (current)" if word == "passed" else "passed (stale)"
        words = "failed" if word == "failed" else shown
        rows.append([(STYLES.get(word, _MUTED), column(words, 18)), (_PLAIN, f"  {name}")])
        if word == "failed":
            tail = clean(str(check.get("output_tail") or "")).rstrip("\n").split("\n")[-_OUTPUT_ROWS:]
            rows += [[("", "    "), *line] for line in wrapped("\n".join(tail), max(width - 10, 20), _MUTED)]
    declared = task.get("verification") or ()
    if len(rows) == 0 and declared:
        rows = [[(_MUTED, f"not run  {safe(' '.join(map(str, argv)))}")] for argv in declared]
    if task.get("verification_waived"):
        rows.append([(_MUTED, "waived by you")])
    return rows
