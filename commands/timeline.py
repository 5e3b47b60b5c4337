"""A task's recorded events as lines of a timeline: when, who, what (PRD 24).

Pure: the same events give the same lines. Nothing is left out that decided something, and what is not known is
said: an intent without an outcome, an attempt without an end, a record that this version cannot read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluzo.core import events
from fluzo.core.events import Event, Payload, event_from_json
from fluzo.core.redact import printable

from .presenter import command_text, compaction_text, outcome_text, plan_line

_ACTOR_WIDTH = 12


@dataclass(frozen=True, slots=True)
class Moment:
    """One line: `at` is the recorded time (UTC, ISO 8601)."""

    at: str
    actor: str
    text: str

    def line(self) -> str:
        """Date, time to the second, actor and text, all harmless for a terminal."""
        when = self.at[:19].replace("T", " ")
        return f"{when}  {self.actor:<{_ACTOR_WIDTH}}  {printable(self.text, keep_newlines=False)}"


class Timeline:
    """Turns recorded events into moments, and remembers what has begun and not ended."""

    def __init__(self) -> None:
        self._summaries: dict[str, str] = {}
        self._open: dict[str, str] = {}
        self._attempt = ""

    def moments(self, record: Mapping[str, Any]) -> list[Moment]:
        """The moments of one recorded event in its JSON form; most events are one."""
        try:
            event = event_from_json(record)
        except (KeyError, TypeError):
            kind = str(record.get("type", "?"))
            return [Moment(str(record.get("at", "")), "unknown", f"a record this version cannot read: {kind}")]
        told = _tell(event.payload, self._summaries.get(event.scope.operation_id, ""))
        self._remember(event)
        return [Moment(event.at, *told)] if told else []

    def gaps(self, *, live: bool) -> list[str]:
        """What the record leaves open at its end; while the task is `live` that is no gap yet."""
        if live:
            return ["the task is still running"]
        unknown = [f"outcome unknown: {text} (intended, and no result is recorded)" for text in self._open.values()]
        ended = [f"no end of attempt {self._attempt} is recorded: it was interrupted"] if self._attempt else []
        return [printable(text, keep_newlines=False) for text in (*unknown, *ended)]

    def _remember(self, event: Event) -> None:
        operation_id = event.scope.operation_id
        match event.payload:
            case events.OperationRequested() as requested:
                self._summaries[operation_id] = f"{requested.tool} {requested.summary}"
            case events.OperationIntended() as intended:
                self._open[operation_id] = f"{intended.tool} {intended.summary}"
            case events.OperationEnded() | events.OperationRefused() | events.OperationMarkedUnknown():
                self._open.pop(operation_id, None)
                self._summaries.pop(operation_id, None)
            case events.AttemptStarted():
                self._attempt = event.scope.attempt_id
            case events.AttemptEnded() | events.AttemptInterrupted():
                self._attempt = ""


def _tell(payload: Payload, summary: str) -> tuple[str, str] | None:
    """Actor and text of one event; None for what another event of the same commit says better."""
    for teller in (_tell_task, _tell_operation, _tell_permission, _tell_course, _tell_rest):
        told = teller(payload, summary)
        if told is not None:
            return told if told[1] else None
    return None


def _tell_task(payload: Payload, summary: str) -> tuple[str, str] | None:
    told = None
    match payload:
        case events.SessionCreated(title=title):
            told = "user", f"began a session: {title}"
        case events.SessionRenamed(title=title, old=old):
            told = "user", f"renamed the session: {old} -> {title}"
        case events.TaskCreated(text=text):
            told = "user", f"asked: {' '.join(text.split())}"
        case events.TaskStateChanged(new=new, reason=reason):
            told = "runtime", f"task {new}" + (f"  [{reason}]" if reason else "")
        case events.AttemptStarted(number=number, model=model, yolo=yolo):
            told = "runtime", f"attempt {number} began with model {model}" + (", YOLO mode is on" if yolo else "")
        case events.AttemptEnded(state=state, reason=reason):
            told = "runtime", f"attempt {state}" + (f"  [{reason}]" if reason else "")
        case events.AttemptInterrupted(why=why):
            told = "runtime", f"attempt interrupted: {why}"
        case events.BaselineCaptured(branch=branch, head=head, changed=changed):
            where = f"branch {branch}" if branch else "detached head"
            told = "runtime", f"saw {where} at {head[:12] or 'no commit'}, {len(changed)} files already changed"
        case events.TurnStarted(turn=turn):
            told = "runtime", f"turn {turn}"
    return told


def _tell_operation(payload: Payload, summary: str) -> tuple[str, str] | None:
    told = None
    match payload:
        case events.OperationRequested(tool=tool, action=action, summary=text):
            told = "agent", "" if action == "infer" else f"requested {tool} {text}"
        case events.OperationIntended(tool=tool):
            told = "runtime", "asked the model" if tool == "model" else f"began {summary or tool}"
        case events.OperationEnded(ok=ok, code=code, summary=text, result=result):
            outcome = outcome_text(result) or ("done" if ok else code)
            told = "runtime", f"{summary or text}: {outcome}" if "finish" not in result else "the model answered"
        case events.OperationRefused(code=code, message=message):
            told = "policy", f"refused: {message}  [{code}]"
        case events.OperationMarkedUnknown(summary=text, why=why):
            told = "runtime", f"OUTCOME UNKNOWN: {text}: {why}"
        case events.MessageRecorded(role=role, text_bytes=size, tool_calls=calls, incomplete=incomplete):
            cut = ", cut off" if incomplete else ""
            told = ("model", f"said {size} bytes, {calls} tool calls{cut}") if role == "assistant" else (role, "")
    return told


def _tell_permission(payload: Payload, summary: str) -> tuple[str, str] | None:
    told = None
    match payload:
        case events.OperationDecided(verdict=verdict, reason=reason, by=by):
            told = by, f"{verdict}  ({reason})" if summary and not summary.startswith("model ") else ""
        case events.PermissionRequested(tool=tool, summary=text, reason=reason):
            told = "policy", f"wants the user's permission for {tool} {text}  ({reason})"
        case events.PermissionAnswered(answer=answer, by=by, reason=why):
            told = by, f"answered: {answer}{f'  ({why})' if why else ''}"
        case events.GrantCreated(kind=kind, issuer=issuer, scope=scope):
            told = issuer, f"{kind} grant: {_scope_text(scope)}"
        case events.GrantConsumed():
            told = "runtime", "the grant was used up"
        case events.GrantEnded(how=how):
            told = "runtime", f"a grant ended: {how}"
        case events.QuestionAsked(question=question):
            told = "agent", f"asks: {' '.join(question.split())}"
        case events.QuestionAnswered(answer=answer, chosen=chosen):
            told = "user", f"answered: {'; '.join(' '.join(part.split()) for part in (*chosen, answer) if part)}"
        case events.YoloChanged(enabled=enabled, by=by):
            told = by, f"YOLO mode {'on' if enabled else 'off'}"
    return told


def _tell_rest(payload: Payload, summary: str) -> tuple[str, str] | None:
    told = None
    match payload:
        case events.ContextAssembled(fragments=fragments):
            told = "runtime", f"gave the model {len(fragments)} pieces of context"
        case events.UsageSettled(input_tokens=read, output_tokens=written, estimated=estimated):
            told = "runtime", f"tokens: {read} in, {written} out ({'estimated' if estimated else 'reported'})"
        case events.BudgetExhausted(limit=limit, used=used, allowed=allowed):
            told = "runtime", f"budget used up: {limit}, {used:g} of {allowed:g}"
        case events.VerificationStarted(commands=commands):
            told = "runtime", f"verifies: {'; '.join(map(command_text, commands))}"
        case events.VerificationEnded(verdict=verdict):
            told = "runtime", f"verification {verdict}"
        case events.VerificationWaived(by=by):
            told = by, "waived verification"
        case events.PlanUpdated(steps=steps):
            line = plan_line(steps)
            told = "agent", f"plan: {line.subject}, {line.outcome}"
        case events.InterventionQueued(text=text):
            told = "user", f"added: {' '.join(text.split())}"
        case events.InterventionConsumed():
            told = "agent", "read what the user added"
        case events.InterventionWithdrawn():
            told = "user", "took the message back"
        case events.WarningRaised(code=code, message=message):
            told = "runtime", f"warning: {message}  [{code}]"
    return told


def _tell_course(payload: Payload, summary: str) -> tuple[str, str] | None:
    """How the task was kept within its bounds, and how it went on."""
    told = None
    match payload:
        case events.CancelRequested(by=by):
            told = by, "asked to cancel"
        case events.ContextCompacted() as done:
            told = "runtime", f"compacted: {compaction_text(done)}"
        case events.LoopNoticed(summary=text, times=times):
            told = "runtime", f"told the agent that it repeats itself: {text}, {times} times"
        case events.CapacityReset(slots=slots, by=by):
            told = by, f"freed {slots} slots whose requests may still run"
        case events.LimitsExtended(limit=limit, old=old, new=new, by=by):
            told = by, f"{'raised' if new > old else 'lowered'} {limit} from {old:g} to {new:g}"
        case events.ConfigurationChanged(by=by, changes=changes):
            told = by, f"changed the settings: {', '.join(str(change.get('key')) for change in changes) or 'reloaded'}"
        case events.ResumeReconciled(differences=differences, unknown=unknown, retry=retry):
            allowed = f", {len(retry)} allowed again" if retry else ""
            told = "user", f"went on: {len(differences)} differences, {len(unknown)} unknown{allowed}"
    return told


def _scope_text(scope: Mapping[str, Any]) -> str:
    if "argv" in scope:
        return command_text(scope["argv"])
    if "script" in scope:
        return f"script {scope['script']!r}"
    return f"{scope.get('action', '')} {', '.join(map(str, scope.get('paths') or ()))}".strip()
