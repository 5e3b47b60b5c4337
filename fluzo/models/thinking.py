"""Reasoning that arrives inside the text, between think tags: told apart while it streams.

Invariant: no text is lost or doubled, however the tags are cut. A block counts at the very start of the reply
only; a closing tag alone (the chat template had opened the block) turns the text before it into reasoning, unless
it stands in code, where it is being talked about.
"""

OPEN, CLOSE = "<think>", "</think>"


class ThinkSplitter:
    """`feed` gives the (text, reasoning) that is certain so far; `text` and `reasoning` are the totals."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"
        self._text: list[str] = []
        self._reasoning: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def feed(self, piece: str, *, closable: bool = True) -> tuple[str, str]:
        """`closable` says that a lone closing tag may still count: no reasoning came by another way."""
        self._held += piece
        shown, thought = "", ""
        while True:
            before = self._state
            if before == "start":
                self._start()
            elif before == "thinking":
                thought += self._thinking()
            elif before == "after":
                self._after()
            else:
                shown += self._answer(closable)
            if self._state == before:
                return shown, thought

    def flush(self) -> tuple[str, str]:
        """What was held back for a tag that never became one."""
        rest, self._held = self._held, ""
        if not rest:
            return "", ""
        if self._state == "thinking":
            self._reasoning.append(rest)
            return "", rest
        self._text.append(rest)
        return rest, ""

    def _start(self) -> None:
        begun = self._held.lstrip()
        if begun.startswith(OPEN):
            self._held, self._state = begun[len(OPEN) :], "thinking"
        elif not OPEN.startswith(begun):
            self._state = "answer"

    def _thinking(self) -> str:
        found = self._held.find(CLOSE)
        if found < 0:
            return self._take(self._reasoning)
        part, self._held = self._held[:found], self._held[found + len(CLOSE) :]
        self._reasoning.append(part)
        self._state = "after"
        return part

    def _after(self) -> None:
        """The blank lines between a block and the answer belong to neither."""
        self._held = self._held.lstrip()
        if self._held:
            self._state = "settled"

    def _answer(self, closable: bool) -> str:
        found = self._held.find(CLOSE)
        if self._state == "settled" or found < 0 or not closable:
            return self._take(self._text, hold=self._state == "answer" and closable)
        whole = self.text + self._held[:found]
        if whole.endswith("`") or whole.count("```") % 2:
            shown = self._held[: found + len(CLOSE)]
            self._held = self._held[found + len(CLOSE) :]
            self._text.append(shown)
            self._state = "settled"
            return shown
        self._reasoning.append(whole)
        self._text, self._held, self._state = [], self._held[found + len(CLOSE) :], "after"
        return ""

    def _take(self, into: list[str], hold: bool = True) -> str:
        """Everything but an ending that may be the beginning of a closing tag."""
        keep = 0
        if hold and CLOSE[0] in self._held[-len(CLOSE) :]:
            keep = next((n for n in range(len(CLOSE) - 1, 0, -1) if self._held.endswith(CLOSE[:n])), 0)
        part, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        if part:
            into.append(part)
        return part
