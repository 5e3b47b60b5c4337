"""Compaction, the pure part: when, what is kept, what is summarized, and whether the summary will do (PRD 16.1).

A summary is lossy text by a model. It never holds state: grants, budgets, versions and verdicts stay with the
runtime, and the originals stay in the store. Cuts lie between whole exchanges: a call is never separated from its
results (case C01).
"""

from collections.abc import Sequence
from pathlib import Path

from fluzo.context.assemble import BYTES_PER_TOKEN, estimate_request, estimate_tokens
from fluzo.core.named import NamedTuple
from fluzo.core.records import Message

HEADINGS = ("## Goal", "## Constraints", "## Decisions", "## Files", "## Checks and failures", "## Open work")
"""Sections that a summary must have, each with text; `none` is text."""

SUMMARY_OPENING = "Summary of the work so far (lossy; trust the files and test results over it):"

TAIL_SHARE = 0.3
"""Of the threshold: how much of the newest conversation is kept word for word."""

MAX_SEGMENTS = 64


class Cut(NamedTuple):
    """`middle` is to be summarized, `tail` kept as it is; both hold whole exchanges."""

    middle: tuple[Message, ...]
    tail: tuple[Message, ...]


def instructions() -> str:
    """What the model is told when it summarizes."""
    return Path(__file__).with_name("compact.md").read_text("utf-8").strip()


def cut(messages: Sequence[Message], tail_tokens: int) -> Cut:
    """Split a conversation (without its system message) so that about `tail_tokens` of the newest stay.

    The tail begins with an assistant's message, so that every call in it keeps its results, and it never takes
    everything: something is left to summarize whenever there is more than one exchange.
    """
    starts = [index for index, message in enumerate(messages) if index and message.role == "assistant"]
    chosen = len(messages)
    for start in reversed(starts):
        if estimate_request(messages[start:], ()) > tail_tokens:
            break
        chosen = start
    return Cut(tuple(messages[:chosen]), tuple(messages[chosen:]))


def segments(middle: Sequence[Message], segment_tokens: int) -> list[str]:
    """The middle as plain text in parts of at most `segment_tokens`; a part may end inside a long result."""
    limit = max(1024, int(segment_tokens * BYTES_PER_TOKEN))
    parts: list[str] = []
    room = ""
    for text in map(_plain, middle):
        rest = text
        while rest:
            space = limit - len(room.encode("utf-8", "replace"))
            piece = _prefix(rest, space)
            room += piece
            rest = rest[len(piece) :]
            if rest:
                parts.append(room)
                room = ""
    if room:
        parts.append(room)
    return parts


def request_messages(summary: str, segment: str, number: int, total: int) -> tuple[Message, ...]:
    """One compaction request: the instructions, the summary so far and the next part of the conversation."""
    so_far = f"Summary so far:\n{summary}\n\n" if summary else ""
    return (
        Message("system", instructions()),
        Message("user", f"{so_far}Conversation, part {number} of {total}:\n<conversation>\n{segment}\n</conversation>"),
    )


def problem(summary: str, max_tokens: int) -> str:
    """Why a summary cannot be used; empty when it can."""
    lines = [line.strip() for line in summary.strip().splitlines()]
    for heading in HEADINGS:
        if heading not in lines:
            return f"the section {heading!r} is missing"
        after = lines[lines.index(heading) + 1 :]
        if not any(line and not line.startswith("## ") for line in after[: _next_heading(after)]):
            return f"the section {heading!r} is empty"
    # The model counts tokens differently than we do; twice the request is far enough to be wrong.
    if estimate_tokens(summary) > 2 * max_tokens:
        return "it is longer than was asked for"
    return ""


def compacted(request: str, summary: str, facts: str, tail: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation that takes the old one's place: the request, the summary, facts of the runtime, the tail."""
    parts = [request, f"{SUMMARY_OPENING}\n{summary.strip()}"]
    if facts:
        parts.append(f"Known to the runtime:\n{facts}")
    return (Message("user", "\n\n".join(parts)), *tail)


def _plain(message: Message) -> str:
    calls = "".join(f"\n[call {call.name} {call.arguments}]" for call in message.tool_calls)
    return f"[{message.role}] {message.text}{calls}\n\n"


def _prefix(text: str, max_bytes: int) -> str:
    if max_bytes <= 0:
        return ""
    data = text.encode("utf-8", "replace")[:max_bytes]
    return text[: len(data.decode("utf-8", "ignore"))]


def _next_heading(lines: Sequence[str]) -> int:
    return next((index for index, line in enumerate(lines) if line.startswith("## ")), len(lines))
