"""The reply assembler: Chat Completions chunks of any dialect in, one ModelReply out.

Invariant: a reply is `complete` only when the server ended it and every tool call in it is whole; calls of an
incomplete reply never come out, and a reply with neither text nor calls is `empty`, never a success. Reasoning is
kept apart from text. Everything is bounded. No input is trusted to have the documented types.
"""

from collections.abc import Callable, Mapping

from fluzo.core.errors import ProviderError
from fluzo.core.records import ModelReply, ModelRequest, ToolCall, Usage
from fluzo.core.redact import printable
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.jsontext import clean
from fluzo.models.textcalls import mentions_call, read_calls
from fluzo.models.thinking import ThinkSplitter
from fluzo.models.toolcalls import CallAssembler, new_call_id

MAX_REPLY_CHARS = 16 * 1024 * 1024

OnDelta = Callable[[str, bool], None]
"""Called with each piece of provisional text; the flag says that it is reasoning."""

TEXT_CALL_FINISH = "text_tool_call"
"""`finish` of a reply that holds a tool call as mere text while the model entry does not read those."""

_FINISHED_WELL = frozenset(
    {"stop", "tool_calls", "function_call", "end_turn", "eos", "eos_token", "stop_sequence", "tool_use", "complete"}
)
_CUT_SHORT = frozenset({"length", "max_tokens", "max_output_tokens", "content_filter", "abort", "error"})


class ReplyAssembler:
    """Feed it the chunks of one reply, then ask for the reply. A whole `chat.completion` object is one chunk."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        request: ModelRequest,
        on_delta: OnDelta,
        make_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._endpoint = endpoint
        self._tools = request.tools
        self._on_delta = on_delta
        self._make_id = make_id
        self._splitter = ThinkSplitter()
        self._reasoning: list[str] = []
        self._calls = CallAssembler([tool.name for tool in request.tools], make_id)
        self._chars = 0
        self._high = {False: "", True: ""}
        self._usage: Usage | None = None
        self._timings: Usage | None = None
        self._model = ""
        self._id = ""
        self.finish = ""
        """The reason on the wire once there is one; from then on only usage is read."""

    @property
    def has_output(self) -> bool:
        """Whether the model has produced anything: text, reasoning, or a piece of a call."""
        return bool(self._chars or self._calls)

    @property
    def partial_text(self) -> str:
        return clean(self._splitter.text)

    def feed(self, chunk: Mapping[str, object]) -> None:
        """Read one chunk. Raises ProviderError when the reply outgrows its bounds."""
        self._id = self._id or _text(chunk.get("id"))
        self._model = self._model or _text(chunk.get("model"))
        self._usage = _usage(chunk.get("usage")) or self._usage
        self._timings = _timings(chunk.get("timings")) or self._timings
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and not choice.get("index") and not self.finish:
                self._choice(choice)

    def reply(self, *, ended: bool, warnings: tuple[str, ...] = ()) -> ModelReply:
        """What it all comes to. `ended` says that the server closed the reply properly, by mark or by reason."""
        self._drain()
        calls, cut = self._calls.finish()
        reasoning = clean("".join(self._reasoning) + self._splitter.reasoning)
        text = clean(self._splitter.text)
        finish = self.finish.lower()
        notes = list(warnings)
        if not ended:
            notes.append("The connection ended before the reply did.")
        elif finish in _CUT_SHORT:
            notes.append(_cut_note(finish, self._endpoint))
        elif cut:
            notes.append(f"The reply was cut off: {cut}. None of its calls were run.")
        elif not calls and self._tools and mentions_call(text):
            text, calls, finish = self._text_calls(text, finish, notes)
        whole = ended and not cut and finish not in _CUT_SHORT and finish != TEXT_CALL_FINISH
        empty = whole and not calls and not text.strip()
        if empty:
            notes.append(_empty_note(bool(reasoning.strip())))
        return ModelReply(
            outcome="empty" if empty else "complete" if whole else "incomplete",
            text=text,
            reasoning=reasoning,
            tool_calls=calls if whole else (),
            finish=_finish(finish, bool(calls) and whole, ended),
            usage=self._usage or self._timings,
            model=printable(self._model[:200], keep_newlines=False),
            response_id=printable(self._id[:200], keep_newlines=False),
            warnings=tuple(notes),
        )

    def _text_calls(self, text: str, finish: str, notes: list[str]) -> tuple[str, tuple[ToolCall, ...], str]:
        setting = self._endpoint.setting("compat.text_tool_calls")
        if not self._endpoint.text_tool_calls:
            notes.append(
                "The model wrote a tool call as text and the server did not parse it, so nothing was run. "
                f"Turn on the server's tool-call parser, or set {setting} = true."
            )
            return text, (), TEXT_CALL_FINISH
        text, calls = read_calls(text, self._tools, self._make_id)
        if not calls:
            notes.append("The model wrote a tool call as text that is not whole or names no offered tool.")
            return text, (), TEXT_CALL_FINISH
        return text, calls, finish

    def _choice(self, choice: Mapping[str, object]) -> None:
        delta = choice.get("delta")
        if delta is None and not self.has_output:
            delta = choice.get("message")
        if isinstance(delta, dict):
            self._thought(_text(delta.get("reasoning_content")) or _text(delta.get("reasoning")))
            self._content(delta.get("content"))
            self._content(delta.get("refusal"))
            self._calls.feed(delta.get("tool_calls"))
            if isinstance(delta.get("function_call"), dict):
                self._calls.feed([{"index": 0, "function": delta["function_call"]}])
        self.finish = _text(choice.get("finish_reason"))

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            self._answer(content)
        for part in content if isinstance(content, list) else []:
            if isinstance(part, str):
                self._answer(part)
            elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
                self._thought(_joined(part.get("thinking") or part.get("text")))
            elif isinstance(part, dict):
                self._answer(_joined(part.get("text")))

    def _answer(self, piece: str) -> None:
        if not piece:
            return
        self._grow(piece)
        text, reasoning = self._splitter.feed(piece, closable=not self._reasoning)
        self._emit(reasoning, True)
        self._emit(text, False)

    def _thought(self, piece: str) -> None:
        if piece:
            self._grow(piece)
            self._reasoning.append(piece)
            self._emit(piece, True)

    def _drain(self) -> None:
        text, reasoning = self._splitter.flush()
        self._emit(reasoning, True)
        self._emit(text, False)

    def _emit(self, piece: str, reasoning: bool) -> None:
        """Hand a piece on; half of a surrogate pair waits for the other half."""
        piece = self._high[reasoning] + piece
        self._high[reasoning] = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            self._high[reasoning], piece = piece[-1], piece[:-1]
        if piece:
            self._on_delta(clean(piece), reasoning)

    def _grow(self, piece: str) -> None:
        self._chars += len(piece)
        if self._chars > MAX_REPLY_CHARS:
            raise ProviderError(
                f"The reply grew past {MAX_REPLY_CHARS} characters and was abandoned.",
                hint=f"Lower {self._endpoint.setting('max_output_tokens')}, or check the server.",
            )


def _cut_note(finish: str, endpoint: ModelEndpoint) -> str:
    if finish == "content_filter":
        return "The server's content filter ended the reply."
    if finish in ("abort", "error"):
        return "The server ended the reply because of an error of its own."
    return f"The reply reached the output limit. {endpoint.setting('max_output_tokens')} sets it."


def _empty_note(reasoning: bool) -> str:
    if reasoning:
        return "The model returned reasoning only, no answer and no tool call."
    return "The model returned nothing. Its context may be full: the prompt can be larger than the loaded window."


def _finish(finish: str, calls: bool, ended: bool) -> str:
    if calls:
        return "tool_calls"
    if finish in ("function_call", "tool_use"):
        return "tool_calls"
    if finish in ("max_tokens", "max_output_tokens"):
        return "length"
    if finish in _FINISHED_WELL - {"tool_calls"} or (ended and not finish):
        return "stop"
    return printable(finish[:40], keep_newlines=False)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _joined(value: object) -> str:
    """Text of a content part: a string, or a list of text parts."""
    if isinstance(value, list):
        return "".join(_joined(part.get("text") if isinstance(part, dict) else part) for part in value)
    return _text(value)


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**53 else 0


def _usage(raw: object) -> Usage | None:
    """Reported tokens; None where nothing was counted, which is unknown and not zero."""
    if not isinstance(raw, dict):
        return None
    prompt, output = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
    cached = prompt.get("cached_tokens") if isinstance(prompt, dict) else raw.get("prompt_cache_hit_tokens")
    reasoning = output.get("reasoning_tokens") if isinstance(output, dict) else 0
    usage = Usage(
        input_tokens=_count(raw.get("prompt_tokens")),
        output_tokens=_count(raw.get("completion_tokens")),
        cached_tokens=_count(cached),
        reasoning_tokens=_count(reasoning),
    )
    return usage if usage.total_tokens else None


def _timings(raw: object) -> Usage | None:
    """llama.cpp's counts in its last chunk, which it sends when usage was not asked for."""
    if not isinstance(raw, dict):
        return None
    cached = _count(raw.get("cache_n"))
    usage = Usage(cached + _count(raw.get("prompt_n")), _count(raw.get("predicted_n")), cached)
    return usage if usage.total_tokens else None
