"""What a person sees of a running task: one line an operation, the questions, and the summary at the end.

Invariant: from updates to lines without input, output or clock. What a model, a file or a tool wrote is in the
lines only in its printable form.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from fluzo.core import events
from fluzo.core.events import Event
from fluzo.core.named import NamedTuple
from fluzo.core.outcome import CHANGES, count, outcome_words, process_words, verb_of
from fluzo.core.port import Update
from fluzo.core.redact import make_redactor, printable

from .output import cell_width

Tone = Literal["plain", "good", "bad", "ask", "note"]

GLYPHS: Mapping[Tone, str] = {"plain": "▸", "good": "✓", "bad": "✗", "ask": "?", "note": "!"}
ASCII_GLYPHS: Mapping[Tone, str] = {"plain": ">", "good": "+", "bad": "x", "ask": "?", "note": "!"}

_VERB_WIDTH = 7
_SUBJECT_WIDTH = 47
_MINUTE = 60
_THOUSAND = 1000
_redact = make_redactor()


class Line(NamedTuple):
    """One line of progress: a glyph for its tone, a verb, what it is about, and how it came out."""

    tone: Tone
    verb: str
    subject: str
    outcome: str = ""

    def text(self, *, unicode: bool = True) -> str:
        glyph = (GLYPHS if unicode else ASCII_GLYPHS)[self.tone]
        head = f"{glyph} {self.verb:<{_VERB_WIDTH}} {self.subject}".rstrip()
        if not self.outcome:
            return head
        gap = max(_VERB_WIDTH + _SUBJECT_WIDTH + 3 - cell_width(head), 2)
        return f"{head}{' ' * gap}{self.outcome}"


class Presenter:
    """Turns the updates of one task into lines; remembers what was requested until it has ended."""

    def __init__(self, *, interactive: bool) -> None:
        self._interactive = interactive
        self._requested: dict[str, events.OperationRequested] = {}
        self._checks: tuple[tuple[str, ...], ...] = ()

    def lines(self, update: Update) -> list[Line]:
        """The lines that an update adds; most add none."""
        return self._event_lines(update) if isinstance(update, Event) else []

    def running(self, update: events.OperationProgress) -> Line:
        """What a running operation is shown as until its own line replaces it."""
        verb = "check" if self._checks else verb_of(update.tool, "")
        return Line("plain", verb, _line_text(update.summary), "...")

    def asking(self, request: Mapping[str, Any]) -> Line:
        """The line above an open permission request."""
        return Line("ask", verb_of(str(request["tool"]), str(request["action"])), _line_text(str(request["summary"])))

    def _event_lines(self, event: Event) -> list[Line]:
        operation_id = event.scope.operation_id
        lines: list[Line] = []
        match event.payload:
            case events.OperationRequested() as requested:
                self._requested[operation_id] = requested
            case events.OperationEnded() as ended:
                lines = self._ended(self._requested.pop(operation_id, None), ended)
            case events.OperationRefused() as refused:
                lines = self._refused(self._requested.pop(operation_id, None), refused)
            case events.OperationMarkedUnknown() as unknown:
                lines = [_unknown_line(self._requested.pop(operation_id, None), unknown)]
            case events.PermissionRequested() as asked if not self._interactive:
                lines = [Line("ask", verb_of(asked.tool, ""), _line_text(asked.summary), "needs permission")]
            case events.QuestionAsked() as question if not self._interactive:
                lines = [Line("ask", "ask", _line_text(question.question), "needs an answer")]
            case events.VerificationStarted() as started:
                self._checks = started.commands
            case events.VerificationEnded() as verification:
                lines = self._verified(verification)
            case payload:
                lines = _notices(payload)
        return lines

    def _ended(self, request: events.OperationRequested | None, ended: events.OperationEnded) -> list[Line]:
        action = request.action if request else ""
        if action in ("plan", "ask") or (self._checks and action == "execute"):
            return []  # The plan, the answer and the verdict have events of their own.
        if action == "infer":
            warnings = ended.result.get("warnings")
            told = warnings if isinstance(warnings, list | tuple) else ()
            return [Line("note", "model", _line_text(str(item))) for item in told]
        return [result_line(request.tool if request else "", action, ended)]

    def _refused(self, request: events.OperationRequested | None, refused: events.OperationRefused) -> list[Line]:
        if not self._interactive and refused.code in ("permission_required", "input_required"):
            return []  # The line with the question mark has said it, and the summary says what to do.
        if request is None:
            return [Line("bad", "refused", _line_text(refused.message), f"[{refused.code}]")]
        verb = verb_of(request.tool, request.action)
        outcome = "denied" if refused.code == "permission_denied" else f"[{refused.code}]"
        return [Line("bad", verb, _line_text(request.summary), outcome)]

    def _verified(self, verification: events.VerificationEnded) -> list[Line]:
        declared, self._checks = self._checks, ()
        lines = [check_line(check, current=True) for check in verification.checks]
        skipped = declared[len(lines) :]
        return lines + [Line("note", "check", command_text(argv), "not run") for argv in skipped]


def _unknown_line(request: events.OperationRequested | None, unknown: events.OperationMarkedUnknown) -> Line:
    verb = verb_of(request.tool, request.action) if request else "unknown"
    return Line("bad", verb, _line_text(unknown.summary), f"outcome unknown: {_line_text(unknown.why)}")


def _notices(payload: events.Payload) -> list[Line]:
    line: Line | None = None
    match payload:
        case events.PlanUpdated() as plan:
            line = plan_line(plan.steps)
        case events.AttemptStarted(yolo=True):
            line = Line("note", "yolo", "no permission is asked for in this session; denials and limits still hold")
        case events.VerificationWaived():
            line = Line("note", "check", "waived by you; nothing will be verified")
        case events.BudgetExhausted() as budget:
            line = Line("bad", "budget", budget.limit, f"{budget.used:g} of {budget.allowed:g} used")
        case events.InterventionConsumed():
            line = Line("plain", "message", "the agent has read your message")
        case events.ContextCompacted() as done:
            line = Line("note", "compact", "older conversation", compaction_text(done))
        case events.LoopNoticed() as loop:
            line = Line("note", "loop", _line_text(loop.summary), f"{loop.times} times; the agent was told")
        case events.LimitsExtended() as extended:
            line = Line("plain", "limit", extended.limit, f"{extended.old:g} -> {extended.new:g}")
        case events.WarningRaised() as warning:
            line = Line("note", "warning", _line_text(warning.message), f"[{warning.code}]")
    return [line] if line else []


# --- pieces of a line -----------------------------------------------------------------------------------------


def compaction_text(done: events.ContextCompacted) -> str:
    """Sizes and reason of a compaction."""
    return f"{_thousands(done.tokens_before)} -> {_thousands(done.tokens_after)} tokens (estimated), {done.why}"


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k"


def command_text(argv: Iterable[object]) -> str:
    """An argument vector as it would be typed, with everything invisible made visible."""
    return _line_text(shlex.join(str(part) for part in argv))


def check_line(check: Mapping[str, Any], *, current: bool) -> Line:
    """One declared command and its verdict."""
    passed = bool(check.get("ok"))
    verdict = ("passed, current" if current else "passed, stale") if passed else f"failed, {_process_text(check)}"
    return Line("good" if passed else "bad", "check", command_text(check.get("argv") or ()), verdict)


def result_line(tool: str, action: str, ended: events.OperationEnded) -> Line:
    """An operation and how it came out."""
    tone: Tone = "good" if action in CHANGES and ended.ok else "plain" if ended.ok or _ran(ended.result) else "bad"
    outcome = outcome_text(ended.result) or ("" if ended.ok else ended.code)
    # The summary of a change ends with its figures, for the question; here they are the outcome.
    return Line(tone, verb_of(tool, action), _line_text(ended.summary).removesuffix(outcome).rstrip(), outcome)


def plan_line(steps: Sequence[Mapping[str, object]]) -> Line:
    done = sum(step.get("status") == "completed" for step in steps)
    current = next((str(step.get("step", "")) for step in steps if step.get("status") != "completed"), "")
    return Line("plain", "plan", _line_text(current) or "all steps done", f"{done} of {len(steps)} done")


def outcome_text(result: Mapping[str, Any]) -> str:
    """The figures of an operation's result, in the fewest words."""
    return _joined(outcome_words(result, _seconds))


def _process_text(result: Mapping[str, Any]) -> str:
    return _joined(process_words(result, _seconds))


def _joined(words: Iterable[str]) -> str:
    return "   ".join(map(_line_text, words))


def _seconds(value: float) -> str:
    return f"{value:.1f} s"


def _ran(result: Mapping[str, Any]) -> bool:
    """True for a process that ended by itself: a failing test is a finding, not a failed operation."""
    return isinstance(result.get("exit_status"), int) and not result.get("timed_out") and not result.get("cancelled")


def _line_text(text: str) -> str:
    return printable(text, keep_newlines=False)


# --- questions ------------------------------------------------------------------------------------------------

PERMISSION_PROMPT = "once [o]  this task [t]  deny [d] > "
ANSWERS: Mapping[str, Literal["once", "task", "deny"]] = {
    **dict.fromkeys(("o", "once"), "once"),
    **dict.fromkeys(("t", "task", "this task"), "task"),
    **dict.fromkeys(("d", "deny"), "deny"),
}


def permission_answer(typed: str) -> Literal["once", "task", "deny"] | None:
    """The answer that was typed; None for everything else, an empty line included: nothing is preselected."""
    return ANSWERS.get(typed.strip().lower())


def permission_lines(request: Mapping[str, Any]) -> list[str]:
    """A permission request in full: what, exactly in which scope, why it is asked, and the change itself."""
    scope: Mapping[str, Any] = request.get("scope") or {}
    lines = [f"  {_line_text(str(request['text']))}"] if request.get("text") else []
    if request.get("effect") == "execute" or "argv" in scope or "script" in scope:
        lines += _process_scope(request, scope)
    for path in scope.get("paths") or ():
        lines.append(f"  path       {_line_text(str(path))}")
    if scope.get("versions"):
        lines.append("  note       you had changed this file before the task began")
    preview = request.get("preview")
    if isinstance(preview, str) and preview:
        lines += [f"  {printable(line)}" for line in _redact(preview).rstrip("\n").split("\n")]
    return lines


def _process_scope(request: Mapping[str, Any], scope: Mapping[str, Any]) -> list[str]:
    if "script" in scope:
        script = _redact(str(scope["script"])).split("\n")
        lines = ["  script     run by sh -c, exactly this text:", *(f"    {printable(line)}" for line in script)]
    else:
        lines = [f"  command    {_redact(command_text(scope.get('argv') or ()))}"]
    lines.append(f"  directory  {_line_text(str(scope.get('cwd', '.')))}")
    environment: Mapping[str, Any] = request.get("env") or scope.get("env") or {}
    if environment:
        given = request.get("env") or {}
        shown = [f"{name}={given[name]}" if name in given else str(name) for name in environment]
        lines.append(f"  with       {_line_text(_redact(' '.join(shown)))}")
    lines.append("  note       UNSANDBOXED: it runs as you, with your files and your network")
    return lines


def question_lines(question: str, choices: Sequence[str]) -> list[str]:
    """A question of the agent, with its choices numbered."""
    lines = [f"  {printable(line)}" for line in question.split("\n")]
    return lines + [f"  {number}  {_line_text(choice)}" for number, choice in enumerate(choices, 1)]


# --- the end --------------------------------------------------------------------------------------------------


def summary_lines(result: Mapping[str, Any]) -> list[str]:
    """The last lines of a run: how it ended and why, what it used, what it changed, where to look further."""
    error: Mapping[str, Any] = result.get("error") or {}
    facts = [_status(result), *_budget_facts(result.get("budget") or {}), *_change_facts(result)]
    lines = ["   ".join(fact for fact in facts if fact)]
    if result.get("reason"):
        lines.append(f"reason {_line_text(str(error.get('message') or 'it did not end well'))}  [{result['reason']}]")
        lines += [f"  {_line_text(line)}" for line in str(error.get("hint") or "").split("\n") if line]
    lines += [f"warning {_line_text(str(item))}" for item in result.get("warnings") or ()]
    ids = f"task {result.get('task_id', '')}   trace {result.get('trace_id', '')}"
    return [*lines, f"{ids}   more: fluzo tasks show {result.get('task_id', '')}"]


def _status(result: Mapping[str, Any]) -> str:
    status = str(result.get("status", "unknown"))
    verdict = (result.get("verification") or {}).get("verdict")
    words = {"unverified": "unverified: no checks are declared", "waived": "checks waived", "stale": "checks stale"}
    return f"{status}, {words[verdict]}" if status == "completed" and verdict in words else status


def _budget_facts(budget: Mapping[str, Mapping[str, Any]]) -> list[str]:
    facts = []
    if "turns" in budget:
        facts.append(count(int(budget["turns"]["used"]), "turn", "turns"))
    if "active_seconds" in budget:
        seconds = int(budget["active_seconds"]["used"])
        facts.append(f"{seconds // _MINUTE:02}:{seconds % _MINUTE:02}")
    if "tokens" in budget:
        used = int(budget["tokens"]["used"])
        shown = f"{used / _THOUSAND:.1f}k" if used >= _THOUSAND else str(used)
        facts.append(f"{shown} tokens ({budget['tokens'].get('provenance', 'unknown')})")
    return facts


def _change_facts(result: Mapping[str, Any]) -> list[str]:
    changes = result.get("changes") or ()
    git: Mapping[str, Any] = result.get("git") or {}
    moved = [
        word for word, happened in (("staged", git.get("staged")), ("committed", git.get("committed"))) if happened
    ]
    if not changes:
        return ["no files changed", *([f"the Git index or head moved: {', '.join(moved)}"] if moved else [])]
    added = sum(int(change.get("added") or 0) for change in changes)
    removed = sum(int(change.get("removed") or 0) for change in changes)
    files = f"{count(len(changes), 'file', 'files')} +{added} -{removed}"
    return [files, f"{' and '.join(moved)}" if moved else "nothing staged or committed"]
