"""The settings page as a value: rows as the runtime told them, and edits that are not saved yet. Pure.

Invariant: an edit is of the setting's type and in its range, or it is refused; it is never changed into another value.
Nothing counts as saved before the runtime has said so. What must hold between settings is checked with the very rules
that the runtime saves by, over the file as it would be.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from fluzo.core.settings import (
    check_settings,
    describe,
    looks_secret,
    parse_value,
    remove_value,
    render,
    set_value,
    takes,
)

Row = Mapping[str, Any]

_UNITS = {
    "seconds": "s",
    "tokens": "tok",
    "bytes": "B",
    "frames per second": "fps",
    "fraction": "",
    "microunits": "µ",
}
_LONG_SECONDS = 300
"""From here on whole minutes are shown as minutes."""
_FIRST = ("model", "base_url", "context_window", "max_in_flight", "auth", "api_key_env", "credential_ref")
"""Of a model, what a person looks for first."""
_LABELS = {
    "agent.runtime": "agent: kind",
    "provider": "server kind",
    "base_url": "endpoint",
    "api_key_env": "key variable",
    "credential_ref": "credential",
    "allow_insecure_http": "plain http",
    "max_in_flight": "slots",
    "foreground_reserved_slots": "reserved",
    "queue_capacity": "queue",
    "queue_timeout_seconds": "queue wait",
    "connect_timeout_seconds": "connect wait",
    "max_output_tokens": "longest reply",
    "first_output_timeout_seconds": "first output",
    "idle_stream_timeout_seconds": "silence",
    "request_timeout_seconds": "whole request",
    "input_price_microunits": "input price",
    "output_price_microunits": "output price",
    "compat.stream": "streaming",
    "compat.usage_in_stream": "stream usage",
    "compat.parallel_tool_calls": "parallel calls",
    "compat.output_limit_parameter": "reply limit as",
    "compat.tool_call_ids": "call ids",
    "compat.send_reasoning": "send reasoning",
    "compat.reasoning_field": "reasoning in",
    "compat.text_tool_calls": "calls in text",
    "compat.stops_on_disconnect": "stops on close",
    "harness.max_turns": "turns per task",
    "harness.max_active_seconds": "active time per task",
    "harness.shell_timeout_seconds": "shell timeout",
    "harness.provider_retries": "model retries",
    "harness.max_tool_calls": "tool calls per task",
    "harness.max_total_tokens": "tokens per task",
    "harness.max_cost_microunits": "cost per task",
    "harness.currency": "cost currency",
    "context.compaction_threshold": "compaction at",
    "context.compaction_max_output_tokens": "longest summary",
    "context.safety_reserve_tokens": "reserve",
    "context.safety_reserve_fraction": "reserve, as a share",
    "context.tool_context_max_bytes": "tool result shown",
    "context.tool_capture_max_bytes": "tool output kept",
    "storage.session_max_bytes": "sessions at most",
    "storage.diagnostic_max_bytes": "diagnostics at most",
    "storage.min_free_bytes": "disk left free",
    "tui.notifications.desktop_enabled": "desktop notices",
    "tui.notifications.duration_seconds": "notices stay",
    "tui.notifications.max_visible": "notices at once",
    "policy.grants": "standing grants",
    "verification.commands": "checks",
    "tools.shell.termination_grace_seconds": "grace after cancel",
    "decision.timeout_seconds": "timeout",
    "decision.max_observations_per_task": "requests per task",
    "decision.failure_pause_threshold": "pause after failures",
}
"""Names of settings in plain words, where those of the key are long or say little; of a model and a pool by what
follows their own name.
"""
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class Form(NamedTuple):
    """`file`, `base` and `in_force` are fingerprints: of the file as last read, of the one that the edits stand on, and
    of the one that the next task's settings come from. An edit to None goes back to the default.
    """

    path: str = ""
    file: str = ""
    base: str = ""
    in_force: str = ""
    problem: str = ""
    hint: str = ""
    consent: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    edits: Mapping[str, Any] = {}

    @property
    def moved(self) -> bool:
        """The file is not the one that is in force or that was looked at, and can be read."""
        return bool(self.rows) and not self.problem and self.file != self.base

    def row(self, key: str) -> Row | None:
        return next((row for row in self.rows if row["key"] == key), None)


def read(form: Form, data: Mapping[str, Any]) -> Form:
    """With what the runtime told. A file that is in force is looked at; another one is until the person decides."""
    file, in_force = str(data["fingerprint"]), str(data["in_force"])
    return Form(
        path=str(data["path"]),
        file=file,
        base=in_force if file == in_force else form.base or in_force,
        in_force=in_force,
        problem=str(data["problem"]),
        hint=str(data["hint"]),
        consent=tuple(map(str, data["consent"])),
        rows=tuple(_ordered(data["rows"])),
        edits=form.edits,
    )


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """As told, but of each model first what a person looks for first."""

    def entry(row: Row) -> str:
        parts = str(row["key"]).split(".")
        return ".".join(parts[:2]) if parts[0] == "models" else parts[0] if parts[0] == "agent" else ""

    def rank(row: Row) -> int:
        name = str(row["key"]).rpartition(".")[2]
        return _FIRST.index(name) if entry(row) and name in _FIRST else len(_FIRST)

    return [row for _, group in groupby(rows, entry) for row in sorted(group, key=rank)]


def kept(form: Form) -> Form:
    """The edits stand on top of the file as it is now."""
    return form._replace(base=form.file)


# --- edits --------------------------------------------------------------------------------------------------------


def value_of(form: Form, row: Row) -> Any:
    """What the setting would be: as edited, else as saved."""
    if row["key"] not in form.edits:
        return row["saved"]
    edit = form.edits[row["key"]]
    return row["default"] if edit is None else edit


def edited(form: Form, key: str, value: Any) -> Form:
    """With one edit, or without it when it says what the file says."""
    row = form.row(key)
    if row is None:
        return form
    edits = {name: item for name, item in form.edits.items() if name != key}
    same = value == row["saved"] and type(value) is type(row["saved"])
    unchanged = not row["in_file"] if value is None else same and (row["in_file"] or value == row["default"])
    return form._replace(edits=edits if unchanged else {**edits, key: value})


def typed(row: Row, text: str) -> Any:
    """The value that a text means for a setting. Raises ValueError with a sentence that names key and range."""
    try:
        value = parse_value(str(row["key"]), text)
    except Exception as error:  # UsageError, whose module a screen does not know.
        raise ValueError(str(getattr(error, "message", error))) from error
    refusal = refused(row, value)
    if refusal:
        raise ValueError(refusal)
    return value


def refused(row: Row, value: Any) -> str:
    """Why the setting cannot have a value, by its own type and range; empty when it can."""
    low, high = row["low"], row["high"]
    wrong = bool(row["choices"]) and not any(value == word and type(value) is type(word) for word in row["choices"])
    if isinstance(value, int | float) and not isinstance(value, bool):
        wrong = wrong or not (low is None or low <= value) or not (high is None or value <= high)
    if wrong:
        return f"{row['key']} must be {takes(describe(str(row['key'])))}."
    if looks_secret(render(value)):
        return f"{row['key']} looks like a literal secret, which does not belong here; name where it is kept instead."
    return ""


def stepped(form: Form, row: Row, step: int) -> Form:
    """The next choice, or a number one step higher or lower. Raises ValueError where there is none."""
    value, choices = value_of(form, row), list(row["choices"])
    key = str(row["key"])
    if len(choices) == 1:
        raise ValueError(f"{key} has this one value.")
    if choices:
        at = choices.index(value) if value in choices else -step
        return edited(form, key, choices[(at + step) % len(choices)])
    if row["type"] not in ("integer", "number") or not isinstance(value, int | float):
        return form
    wanted = round(value + step * step_size(row, value), 6)
    if row["type"] == "integer":
        wanted = int(wanted)
    refusal = refused(row, wanted)
    if refusal:
        raise ValueError(refusal)
    return edited(form, key, wanted)


def step_size(row: Row, value: float) -> float:
    """One in the last place but one of what is there: 1 below 20, 10 below 200, and so on; shares go by 0.05."""
    if row["unit"] == "fraction":
        return 0.05
    size = 1
    while abs(value) >= size * 20:
        size *= 10
    return size


def problems(form: Form) -> tuple[str, ...]:
    """What would be wrong with the file with all edits in it: each a sentence that names its key."""
    data: dict[str, object] = {}
    for row in form.rows:
        if row["in_file"]:
            data = set_value(data, str(row["key"]), row["saved"])
    for key, value in form.edits.items():
        data = remove_value(data, key) if value is None else set_value(data, key, value)
    return tuple(problem.sentence for problem in check_settings(data)[1])


# --- words --------------------------------------------------------------------------------------------------------


def label(key: str) -> str:
    """A key in words, as short as its group allows: `turns per task`, `coder: context window`."""
    head, *rest = key.split(".")
    if head in ("models", "capacity_pools") and len(rest) > 1:
        name = ".".join(rest[1:])
        return f"{rest[0]}: {_LABELS.get(name) or name.replace('.', ' ').replace('_', ' ')}"
    words = rest[-1].replace("_", " ") if rest else head.replace("_", " ")
    return _LABELS.get(key) or (f"agent: {words}" if head == "agent" else words)


def shown(row: Row, value: Any) -> str:
    """A value as people read it, with its unit."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return _amount(value, str(row["unit"]))
    if value is None:
        return "-"
    text = value if isinstance(value, str) else render(value) if value else ""
    return text or "none"


def _amount(value: float, unit: str) -> str:
    if unit == "fraction":
        return f"{value * 100:g} %"
    if unit == "seconds" and value >= _LONG_SECONDS and value % 60 == 0:
        return f"{figure(value / 60)} min"
    if unit == "bytes":
        for size, name in _BYTES:
            if value and value % size == 0:
                return f"{figure(value / size)} {name}"
    shown_unit = "" if unit == "microunits" and not value else _UNITS.get(unit, "")
    return f"{figure(value)} {shown_unit}".rstrip()


def figure(value: float) -> str:
    """A number without an exponent and without a needless fraction."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def now_text(form: Form, row: Row) -> str:
    """The value in force, or with `*` the one that a save would bring; `same` where it is the saved one."""
    if row["key"] in form.edits:
        return f"{shown(row, value_of(form, row))} *"
    return "same" if row["effective"] == row["saved"] else shown(row, row["effective"])


def source_text(form: Form, row: Row) -> str:
    return "edited" if row["key"] in form.edits and not row["flag"] else str(row["source"])


def range_text(row: Row) -> str:
    """What is accepted, in few words."""
    if row["type"] == "boolean":
        return "on or off" if len(row["choices"]) > 1 else "fixed"
    if row["choices"]:
        return " | ".join(word if isinstance(word, str) else render(word) for word in row["choices"])
    if row["low"] is not None and row["high"] is not None:
        words = shown if row["unit"] in ("bytes", "fraction") else lambda row, value: figure(value)
        return f"{words(row, row['low'])} to {words(row, row['high'])}"
    return str(row["type"])


def applies_text(row: Row) -> str:
    """When a saved value counts."""
    if row["flag"]:
        return f"locked by {row['flag']} for this run; what you save counts from the next start"
    if row["limit"]:
        return "counts from the next task on; A previews it for the running one"
    return {
        "live": "counts at once",
        "next task": "counts from the next task on",
        "restart": "counts after a restart of Fluzo",
    }[str(row["applies"])]


def matching(rows: Sequence[Row], wanted: str) -> list[Row]:
    """The rows whose key, name or meaning holds a text."""
    wanted = wanted.casefold().strip()
    texts = (f"{row['key']} {label(str(row['key']))} {row['help']} {row['group']}".casefold() for row in rows)
    return [row for row, text in zip(rows, texts, strict=True) if wanted in text]


def limits_to_apply(form: Form, held: Mapping[str, Any]) -> dict[str, float]:
    """The limits of the running task that would differ: name -> value as edited, or as in force for the next task."""
    found: dict[str, float] = {}
    for row in form.rows:
        name = row["limit"]
        if not name or row["flag"] or name not in held:
            continue
        value = value_of(form, row) if row["key"] in form.edits else row["effective"]
        if isinstance(value, int | float) and value != held[name]:
            found[str(name)] = value
    return found
