"""What a person does with a request: answer it, deny it, look at it whole; and the session's YOLO mode.

Invariant: nothing here approves but `answer`, which only the focused card calls after its two acts. Denying can be
reached from everywhere.
"""

from typing import TYPE_CHECKING

from fluzo.core.answers import read_answer

from .approval import ANSWERS, Effect, drop_focus
from .state import CommandSent, YoloChosen

if TYPE_CHECKING:
    from .app import Screen

YOLO_TEXT = (
    "YOLO: in this session nothing asks. Every command and edit the agent wants runs as you, UNSANDBOXED. "
    "Denials and limits still hold. To turn it on type:  /yolo yolo"
)


def deny(screen: "Screen", argument: str = "") -> None:
    """Deny what is asked, from anywhere; the argument is the reason that goes with it."""
    request = screen.request
    if request is None:
        screen.say("Nothing is asked")
    elif request.kind == "question":
        screen.say("A question is answered by its choices or with /answer, or cancel the task")
    else:
        answer(screen, 1, argument)


def answer(screen: "Screen", choice: int, words: str = "", marks: tuple[int, ...] = ()) -> None:
    """Send the chosen answer with the identity of exactly this request; the card shows `sent` until it is so.

    `words` are the reason of a denial, or with choice 0 the answer to a question, beside the choices it has marked.
    """
    request = screen.request
    if request is None or screen.link is None or request.sent:
        return
    if request.kind == "question":
        choices = list(request.data.get("choices") or ())
        if choice <= len(choices):
            # By its number, for the agent is given a choice exactly as it named it.
            answer_question(screen, words, (choice,) if choice else marks)
        return
    word = ANSWERS[choice - 1]
    reason = words if word == "deny" else ""
    screen.apply(CommandSent(request.operation_id, word))
    screen.link.answer_permission(request.task_id, request.operation_id, request.fingerprint, word, reason)


def answer_question(screen: "Screen", text: str, marks: tuple[int, ...] = ()) -> None:
    request = screen.request
    if request is not None and screen.link is not None and not request.sent:
        screen.apply(CommandSent(request.operation_id, "your answer"))
        screen.link.answer_question(request.task_id, request.operation_id, text, marks)


def answer_command(screen: "Screen", argument: str = "") -> None:
    """`/answer` puts the keyboard on the card; with a text it answers a question. It never approves."""
    request = screen.request
    if request is None:
        screen.say("Nothing is asked")
    elif argument and request.kind == "question":
        data = request.data
        said = read_answer(argument, len(data.get("choices") or ()), several=bool(data.get("several")))
        if said.problem:
            screen.say(said.problem)
        else:
            answer_question(screen, said.words, said.chosen)
    elif argument:
        screen.say("A permission is answered on its card (Tab), or denied: /deny REASON")
    else:
        screen.body.focus_card()


def card_effect(screen: "Screen", effect: Effect) -> None:
    if effect.kind == "insert":
        screen.body.focus_composer()
        screen.composer.insert(effect.text) if "\n" not in effect.text else screen.composer.paste(effect.text)
    elif effect.kind in ("blur", "next"):
        if effect.kind == "next" and len(screen.state.blocks):
            screen.body.focus_transcript()
        else:
            screen.body.focus_composer()
        if effect.text:
            screen.composer.insert(effect.text)
    elif effect.kind == "answer":
        screen.body.focus_composer()
        answer(screen, effect.choice, effect.text, effect.marks)
    elif effect.kind == "view":
        _view_request(screen)
    elif effect.kind == "turn":
        turn_request(screen, effect.choice)


def turn_request(screen: "Screen", step: int) -> None:
    """Show the next or previous waiting request; the keyboard stays on the card, whose guard begins anew."""
    screen.show_request((screen.request_at + step) % len(screen.state.requests))
    screen.frames.arrange()
    screen.body.focus_card()


def _view_request(screen: "Screen") -> None:
    """Everything that is asked, in full; closing it goes back to the card, with nothing chosen."""
    from .card import title_of, whole_text
    from .pager import Pager
    from .preview import Preview

    request = screen.request
    if request is None:
        return
    screen.card = drop_focus(screen.card)
    screen.looked_at = (request.operation_id, request.fingerprint)
    if request.data.get("preview"):
        screen.views.show(Preview(screen, request))
    else:
        screen.views.show(Pager(screen, title_of(request), whole_text(request)))


def permissions(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    rows = [
        f"{item.at[11:19]}  {item.answer:<8} by {item.by:<8} {item.verb} {item.subject}"
        + (f"  (you said: {item.reason})" if item.reason else "")
        for item in screen.state.history
    ]
    rows = rows or ["Nothing has been asked since Fluzo was opened."]
    earlier = f"Of earlier tasks {screen.registry.key('tasks')} tells by whom each act was allowed."
    screen.views.show(Pager(screen, "Permission history", "\n".join([*rows, "", earlier])))


def yolo_on(screen: "Screen", argument: str = "") -> None:
    if argument == "yolo":
        _set_yolo(screen, enabled=True)
    else:
        screen.note(YOLO_TEXT, "blocked")


def yolo_off(screen: "Screen", argument: str = "") -> None:
    _set_yolo(screen, enabled=False)
    screen.say("Permission is asked for again")


def _set_yolo(screen: "Screen", *, enabled: bool) -> None:
    state = screen.state
    if state.running and screen.link is not None and state.session_id:
        screen.link.set_yolo(state.session_id, enabled=enabled)  # Shown when the runtime has said so.
    else:
        screen.apply(YoloChosen(enabled))
