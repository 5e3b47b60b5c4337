"""The settings in words: names of keys, values with their units, what is accepted and when it counts. Pure."""

import shlex
from collections.abc import Sequence
from typing import Any

from fluzo.core.settings import render

from .sanitize import visible_text
from .settings_form import Form, Row, is_edited, removal_of, value_of

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
    if row["type"] == "command":
        return visible_text(shlex.join(value))
    if row["type"] == "entry":
        words = [shlex.join(item) if isinstance(item, list | tuple) else str(item) for item in value.values()]
        return visible_text("  ".join(words)) or "empty"
    text = value if isinstance(value, str) else render(value) if value else ""
    return visible_text(text) or "none"


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
    if removal_of(form, str(row["key"])):
        return "removed *"
    if is_edited(form, row):
        return f"{shown(row, value_of(form, row))} *"
    return "same" if row["effective"] == row["saved"] else shown(row, row["effective"])


def source_text(form: Form, row: Row) -> str:
    return "edited" if is_edited(form, row) and not row["flag"] else str(row["source"])


def range_text(row: Row) -> str:
    """What is accepted, in few words."""
    if row["type"] == "boolean":
        return "on or off" if len(row["choices"]) > 1 else "fixed"
    if row["choices"]:
        return " | ".join(word if isinstance(word, str) else render(word) for word in row["choices"])
    if row["refers"]:
        return f"an entry of {row['refers']}"
    if row["low"] is not None and row["high"] is not None:
        words = shown if row["unit"] in ("bytes", "fraction") else lambda row, value: figure(value)
        return f"{words(row, row['low'])} to {words(row, row['high'])}"
    return "a command line" if row["type"] == "command" else str(row["type"])


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
    """The rows whose key, name or meaning holds a text, those among them that add one."""
    wanted = wanted.casefold().strip()
    texts = (
        f"{row['key']} {row.get('label') or label(str(row['key']))} {row['help']} {row['group']}".casefold()
        for row in rows
    )
    return [row for row, text in zip(rows, texts, strict=True) if wanted in text]
