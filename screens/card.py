"""The permission and question card in rows: everything that is asked for, exactly, before anybody can answer. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fluzo.core.outcome import count

from .approval import Card
from .sanitize import clean, visible, visible_text
from .state import Request
from .text import Fragment, Line, cells, cut_line, drawable, hints_within, rows_of, shorten
from .theme import Glyphs

LABEL = 10
UNSANDBOXED = "! UNSANDBOXED: runs as you; can write any file, use network"
_DANGER = "class:danger.fg class:danger.bg"
_FILE_WORDS = {"edit": "edit a file", "write": "write a file", "delete": "delete a file", "move": "move a file"}
_SENT = {"once": "allow once", "task": "allow for this task"}
MAX_DIFF_ROWS = 8
TOO_LITTLE_ROWS = 4
MAX_COMMAND_ROWS = 4
_ROOMY = 62
"""Columns from which on what the card says of itself is written out."""


def title_of(request: Request) -> str:
    data = request.data
    if request.kind == "question":
        return "Question"
    scope = data.get("scope") or {}
    if "script" in scope:
        return "run a shell script"
    if "argv" in scope:
        return "run a git command" if data.get("tool") == "git" else "run a shell command"
    return _FILE_WORDS.get(str(data.get("action")), visible_text(f"{data.get('tool')} {data.get('action')}"))


def whole_text(request: Request) -> str:
    """What the `v` key opens: the command or script and the whole change, with nothing hidden."""
    if request.kind == "question":
        choices = [f"{number}  {choice}" for number, choice in enumerate(request.data.get("choices") or (), 1)]
        return clean("\n\n".join((str(request.data.get("question") or ""), *choices)))
    scope = request.data.get("scope") or {}
    parts = [_command(scope)] if "argv" in scope or "script" in scope else []
    # What is run says the same as its summary, and all of it.
    parts = parts or [str(request.data.get("summary") or "")]
    parts += [str(request.data.get("preview") or "")]
    return "\n\n".join("\n".join(visible_text(row) for row in part.split("\n")) for part in parts if part)


def card_lines(
    request: Request,
    card: Card,
    place: tuple[int, int],
    task: tuple[str, int],
    folder: str,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """The framed card, `width` cells wide and at most `height` rows. `place` is which of how many; `task` its text
    and turn; `folder` the workspace as it is shown. Reach and choices are never cut; the command and the diff are, and
    the card says so."""
    inner = width - 4
    if request.kind == "question":
        first, fixed, tail = _question(request, card, inner)
        diff: list[Line] = []
    else:
        first, fixed, diff = _permission(request, task, folder, inner)
        tail = _choices(card, inner)
    if card.writing or card.words:
        tail = [*tail, _field(card, inner, glyphs)]
    hint = _hint(request, card, inner)
    wanted = min(len(first), MAX_COMMAND_ROWS) + len(fixed) + min(len(diff), MAX_DIFF_ROWS) + len(tail)
    tight = wanted + 5 > height
    blank: list[Line] = [] if tight else [[]]
    room = max(height - 2 - len(fixed) - len(tail) - 1 - 2 * len(blank), 1)
    # A row is left for the change: one of which nothing is seen cannot be answered.
    first = _cut(first, min(room - bool(diff), MAX_COMMAND_ROWS), inner)
    shown_diff = _cut(diff, min(room - len(first), MAX_DIFF_ROWS), inner) if diff else []
    body = [*first, *fixed, *shown_diff, *blank, *tail, *blank, hint]
    which = f" {place[0]} of {place[1]}" if request.kind == "permission" else ""
    name = f"Permission{which}: {title_of(request)}" if request.kind == "permission" else "Question"
    if len(body) + 2 > height:
        body.pop()  # The hint, for the status row says the same.
    if len(body) + 2 > height:
        body = _too_little_room(len(body) + 2 - height)
    here = "[ ] others  you answer here" if card.several else "you answer here"
    return _framed(body, name, here if card.focused else "", width, glyphs, focused=card.focused)


def _too_little_room(missing: int) -> list[Line]:
    """What stands in place of a request that cannot be shown whole: it can be denied, not approved."""
    return [
        [("class:warn.fg", f"Too little room to show all of it: {count(missing, 'row', 'rows')} missing.")],
        [("class:text.muted", "Enlarge the window to answer. Alt+N denies. It waits.")],
    ]


def fits(rows: Sequence[Line]) -> bool:
    """Whether a card shows its request whole, so that it may be answered."""
    return len(rows) > TOO_LITTLE_ROWS


def _framed(body: Sequence[Line], name: str, right: str, width: int, glyphs: Glyphs, *, focused: bool) -> list[Line]:
    edge = "class:border.focus" if focused else "class:state.waiting"
    top_left, top_right, low_left, low_right = tuple(glyphs.corners)
    name = shorten(drawable(name), width - 8, glyphs.more)
    right = f" {right} {glyphs.rule}" if right and width > cells(name) + len(right) + 12 else ""
    fill = glyphs.rule * (width - 5 - cells(name) - cells(right))
    rows: list[Line] = [
        [(edge, f"{top_left}{glyphs.rule} "), ("class:text.strong", name), (edge, f" {fill}{right}{top_right}")]
    ]
    for line in body:
        room = width - 4
        used = sum(cells(part) for _, part in line)
        clipped = list(line) if used <= room else cut_line(line, 0, room)
        pad = " " * max(room - used, 0)
        rows.append([(edge, f"{glyphs.bar} "), *clipped, ("", pad), (edge, f" {glyphs.bar}")])
    rows.append([(edge, low_left + glyphs.rule * (width - 2) + low_right)])
    return rows


def _permission(
    request: Request, task: tuple[str, int], folder: str, width: int
) -> tuple[list[Line], list[Line], list[Line]]:
    data = request.data
    scope: Mapping[str, Any] = data.get("scope") or {}
    process = "argv" in scope or "script" in scope
    if process:
        first = _labelled("script" if "script" in scope else "run", _command(scope), width)
    else:
        first = []
        for path in scope.get("paths") or (str(data.get("summary")),):
            first += _labelled(str(data.get("action")), str(path), width)
    fixed: list[Line] = []
    if process:
        inside = str(scope.get("cwd", "."))
        fixed += _labelled("cwd", folder if inside == "." else f"{folder}/{inside}", width)
    fixed += _labelled("scope", _scope_words(data, scope), width)
    if data.get("text") and data.get("reason") == "may_repeat_unknown":
        fixed += _labelled("risk", str(data["text"]), width, _DANGER)
    for path in own_paths(scope):
        text = f"! {path} holds changes of your own, made before this task"
        fixed += _labelled("yours", text, width, "class:warn.fg")
    if process:
        fixed += _labelled("reach", UNSANDBOXED, width, _DANGER)
    fixed += _labelled("asked by", _asked_by(task, width), width)
    preview = str(data.get("preview") or "")
    return first, fixed, diff_rows(preview, width) if preview else []


def own_paths(scope: Mapping[str, Any]) -> list[str]:
    """The paths of a request whose files the person had changed before the task began."""
    return [str(path) for path in scope.get("versions") or {}]


def _asked_by(task: tuple[str, int], width: int) -> str:
    turn = f'", turn {task[1]}'
    return f'task "{shorten(" ".join(task[0].split()), max(width - LABEL - len(turn) - 8, 8))}{turn}'


def _scope_words(data: Mapping[str, Any], scope: Mapping[str, Any]) -> str:
    env = data.get("env") or scope.get("env") or {}
    given = f", env {' '.join(map(str, env))}" if env else ""
    if "script" in scope:
        return f"this whole script exactly, this folder{given}"
    if "argv" in scope:
        number = len(scope["argv"])
        words = f"these {number} arguments" if number > 1 else "this one word"
        return f"{words} exactly, this folder{given}"
    number = len(scope.get("paths") or ())
    return f"{data.get('action')} of {'this path' if number == 1 else f'these {number} paths'} only"


def _command(scope: Mapping[str, Any]) -> str:
    if "script" in scope:
        return str(scope["script"])
    return shlex.join(str(part) for part in scope.get("argv") or ())


def _labelled(label: str, text: str, width: int, style: str = "") -> list[Line]:
    """Rows of one value, its name before the first; what is misleading in it is spelt out."""
    rows: list[Line] = []
    room = max(width - LABEL, 8)
    for part in text.split("\n"):
        line = [(shown or style, piece) for shown, piece in visible(part)]
        flat = "".join(piece for _, piece in line)
        for start, end in rows_of(flat, room):
            head: Fragment = ("class:text.muted", f"{'' if rows else label:<{LABEL}}")
            rows.append([head, *cut_line(line, start, end)])
    return rows


def diff_rows(diff: str, width: int) -> list[Line]:
    """A unified diff in rows; the sign carries the meaning, the colour repeats it."""
    rows: list[Line] = []
    for text in diff.rstrip("\n").split("\n"):
        style = {"+": "class:diff.add.fg class:diff.add.bg", "-": "class:diff.del.fg class:diff.del.bg"}.get(
            text[:1], "class:diff.hunk" if text.startswith("@@") else "class:text.muted"
        )
        if text.startswith(("+++ ", "--- ")):
            style = "class:text.faint"
        line = [(f"{style} {danger}".rstrip(), drawable(piece)) for danger, piece in visible(text.expandtabs(4))]
        flat = "".join(piece for _, piece in line)
        cut = shorten(flat, width)
        rows.append(line if cut == flat else [*cut_line(line, 0, len(cut) - 1), (style, cut[-1:])])
    return rows


def _choices(card: Card, width: int) -> list[Line]:
    until = "the same scope, until the task ends" if width >= _ROOMY else "same scope, until it ends"
    texts = (
        ("Deny", "(also Alt+N from anywhere)"),
        ("Allow once", "this call only"),
        ("Allow for this task", until),
    )
    return [_choice(number, name, told, card) for number, (name, told) in enumerate(texts, 1)]


def _choice(number: int, name: str, told: str, card: Card) -> Line:
    chosen = card.choice == number
    style = "class:bg.select class:text.on_select" if chosen else "class:text.primary"
    faint = style if chosen else "class:text.muted"
    return [(style, f"{'>' if chosen else ' '} {number}  {name:<22}"), (faint, f"{told} ")]


def _field(card: Card, width: int, glyphs: Glyphs) -> Line:
    """The one row that is written into; its end is what is seen of a long text."""
    name = "answer" if card.question else "reason"
    room = max(width - LABEL - 1, 8)
    text = drawable(visible_text(card.words))
    while cells(text) > room:
        text = text[1:]
    caret = glyphs.caret if card.writing else ""
    style = "class:text.primary" if card.writing else "class:text.muted"
    return [("class:text.muted", f"{name:<{LABEL}}"), (style, text), ("class:border.focus", caret)]


def _question(request: Request, card: Card, width: int) -> tuple[list[Line], list[Line], list[Line]]:
    first: list[Line] = []
    for part in clean(str(request.data.get("question") or "")).split("\n"):
        text = drawable(part)
        first += [[("class:text.strong", text[start:end])] for start, end in rows_of(text, width)]
    choices = [drawable(visible_text(str(choice))) for choice in request.data.get("choices") or ()]
    boxes = [_box(number, card) for number in range(1, len(choices) + 1)]
    rows = [
        _choice(number, box + shorten(choice, width - 8 - len(box)), "", card)
        for number, (box, choice) in enumerate(zip(boxes, choices, strict=True), 1)
    ]
    return first, [], rows


def _box(number: int, card: Card) -> str:
    return f"[{'x' if number in card.marks else ' '}] " if card.many else ""


def _hint(request: Request, card: Card, width: int) -> Line:
    style = "class:text.strong" if card.flash else "class:text.muted"
    if request.sent:
        return [("class:text.strong", f"Sent: {_SENT.get(request.sent, request.sent)}. Waiting for the runtime.")]
    if not card.focused:
        tab = " Tab to answer." if width >= _ROOMY else ""  # It stands in the status row too.
        return [(style, f"Nothing is chosen. Typing goes to the composer.{tab}")]
    if card.writing:
        what = "sends the answer" if card.question else "denies with this reason"
        return [(style, f"Write one line.  Enter {what}  Esc back to the choices")]
    words = "e writes an answer" if card.question else "e reason"
    more = "v whole  e own words  Esc back" if card.question else f"v whole text  {words}  Esc back"
    if not card.choices:
        text = f"{words}, then Enter.  v whole text  Esc back"
    elif card.many:
        text = _marking(card)
    elif not card.choice:
        text = f"Choose: Up/Down or 1-{card.choices}, then Enter.  {more}"
    else:
        text = f"Enter confirms {card.choice}.  Up/Down or 1-{card.choices} change.  {more}"
    return [(style, hints_within(text, width))]


def hint_words(card: Card) -> str:
    """What Enter and Esc do on the card that has the keyboard, for the status row."""
    if card.writing:
        return f"Enter {'sends the answer' if card.question else 'denies with it'}  Esc back to the choices"
    if card.many:
        chosen = ", ".join(map(str, card.marks))
        how = f"Enter confirms {chosen}" if chosen else f"1-{min(card.choices, 9)} mark, nothing is marked"
    elif not card.choices:
        how = "e writes an answer"
    else:
        how = f"Enter confirms {card.choice}" if card.choice else f"1-{card.choices} choose, nothing is chosen"
    return f"{how}  Esc back"


def _marking(card: Card) -> str:
    digits = f"1-{min(card.choices, 9)} or Space"
    if not card.marks:
        return f"Mark any: {digits}, then Enter.  e writes an answer  v whole text  Esc back"
    also = " and the answer" if card.words.strip() else ""
    return f"Enter confirms {', '.join(map(str, card.marks))}{also}.  {digits} change.  e adds words  Esc back"


def _cut(rows: list[Line], room: int, width: int) -> list[Line]:
    """The rows that have room, at least the beginning of the first, and how many there are."""
    room = max(room, 1)
    if len(rows) <= room:
        return rows
    told: Fragment = ("class:warn.fg", f"... v whole text ({len(rows)} rows)")
    if room > 1:
        return [*rows[: room - 1], [("", " " * LABEL), told]]
    begin = shorten("".join(part for _, part in rows[0]), width - len(told[1]) - 1, "")
    return [[*cut_line(rows[0], 0, len(begin)), ("", " "), told]]
