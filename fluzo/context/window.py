"""How much of the model's window a request may fill, and how good our estimates of that are.

The window is what the settings say, never what a catalogue advertises; a server that shows a smaller one is
believed (case P78). Estimates are calibrated against what the server reports and stay estimates.
"""

from collections.abc import Sequence

from fluzo.context.assemble import estimate_request
from fluzo.core.named import NamedTuple
from fluzo.core.records import Message, ToolSpec, Usage

_FACTOR_RANGE = (0.4, 2.5)
"""A report outside of this says more about the report than about our estimate."""

_WEIGHT = 0.5
"""Of the newest report in the running calibration."""


class WindowRules(NamedTuple):
    """Settings of one model: tokens of the window, of the reply, and kept free (PRD 16.1, 43.1)."""

    context_window: int
    max_output_tokens: int
    safety_reserve_tokens: int = 1024
    safety_reserve_fraction: float = 0.05
    compaction_threshold: float = 0.8


class Window:
    """The window of one task's model; learns from every reported usage."""

    def __init__(self, rules: WindowRules) -> None:
        self._rules = rules
        self._size = rules.context_window
        self._factor = 1.0
        self._last: tuple[int, int] | None = None
        self.reports = 0

    @property
    def size(self) -> int:
        return self._size

    @property
    def available(self) -> int:
        """Input tokens that may be used: the window without reply and safety reserve."""
        rules = self._rules
        reserve = max(rules.safety_reserve_tokens, int(rules.safety_reserve_fraction * self._size))
        return max(0, self._size - rules.max_output_tokens - reserve)

    @property
    def threshold(self) -> int:
        """Input tokens at which the conversation is compacted."""
        return int(self._rules.compaction_threshold * self.available)

    @property
    def factor(self) -> float:
        """Reported over estimated input tokens so far; 1.0 until something was reported."""
        return self._factor

    def estimate(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Calibrated estimate of a request's input tokens."""
        return self.calibrated(estimate_request(messages, tools))

    def calibrated(self, raw_estimate: int) -> int:
        return int(raw_estimate * self._factor)

    def observe(self, raw_estimate: int, usage: Usage | None) -> int:
        """Learn from one report. Returns the server's own window when it just showed to be smaller, else 0.

        A server that cuts long prompts off reports the same full total for a longer prompt (Ollama, P78).
        """
        if usage is None or usage.estimated or usage.input_tokens <= 0 or raw_estimate <= 0:
            return 0
        total = usage.total_tokens
        if self._last is not None and total == self._last[1] and raw_estimate > 1.1 * self._last[0]:
            return self._shrink(total)
        self._last = (raw_estimate, total)
        low, high = _FACTOR_RANGE
        ratio = min(max(usage.input_tokens / raw_estimate, low), high)
        self._factor = ratio if not self.reports else self._factor + _WEIGHT * (ratio - self._factor)
        self.reports += 1
        return 0

    def believe(self, size: int) -> bool:
        """Take over a window size that the server named in an error; True when it is smaller than ours."""
        return bool(self._shrink(size))

    def _shrink(self, size: int) -> int:
        if not 0 < size < self._size:
            return 0
        self._size = size
        return size
