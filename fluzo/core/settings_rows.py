"""The settings as rows for a front end: each key as saved, as in force, from where, and in which group it is shown.

Invariant: rows are plain JSON values and hold every key of the file and of the configuration in force; texts, types and
ranges are the registry's, never written a second time. Values that name a secret are references, never the secret.
"""

from collections.abc import Mapping

from fluzo.core.named import NamedTuple
from fluzo.core.settings_entries import entry_kinds
from fluzo.core.settings_model import Settings
from fluzo.core.settings_registry import (
    SettingDescriptor,
    describe,
    flatten,
    generic_key,
    parse_value,
    values_of,
)

GROUPS = (
    "Models",
    "Limits",
    "Storage",
    "Telemetry",
    "Theme",
    "Notifications",
    "Permissions",
    "Commands",
    "Observer",
    "Developer menu",
    "Project",
)

_GROUP_OF = {
    "agent": "Models",
    "models": "Models",
    "capacity_pools": "Models",
    "harness": "Limits",
    "context": "Limits",
    "storage": "Storage",
    "telemetry": "Telemetry",
    "tui.notifications": "Notifications",
    "tui.dev_menu": "Developer menu",
    "tui.flags": "Developer menu",
    "tui": "Theme",
    "policy": "Permissions",
    "verification": "Commands",
    "tools": "Commands",
    "decision": "Observer",
}
"""By the beginning of the key, the longest one that fits; everything else is about the project."""

_APPLIES = {"live": "live", "next_task": "next task", "explicit": "next task", "restart": "restart"}

_FLAGS = {"tui.animation_fps": "--animation-fps or --set", "tui.dev_menu": "--dev-menu or --set"}

TASK_LIMITS = ("max_turns", "max_tool_calls", "max_active_seconds", "max_total_tokens", "max_cost_microunits")
"""Keys of [harness] that are limits of one task, and so can be given to a running one by an act of the user."""


CONSENT_KEYS = frozenset(
    (
        *(f"models.<id>.{name}" for name in ("base_url", "endpoint", "auth", "api_key_env", "credential_ref")),
        "verification.commands",
        "policy.grants",
        *(f"policy.grants[].{name}" for name in ("argv", "script", "cwd")),
        *(f"tools.shell.{name}" for name in ("inherit_env", "env", "credentials")),
        *(f"telemetry.{name}" for name in ("export_enabled", "otlp_endpoint", "capture_content")),
    )
)
"""What `consent_fingerprints` covers: a save of these consents to nothing."""


_REFERS = {"agent.model": "models", "decision.model": "models", "models.<id>.pool": "capacity_pools"}
"""Settings that name an entry of a table."""

_KIND_KEY = "models.<id>.provider"
"""It decides which settings an entry has, and so stays as it is: another kind is another entry."""


class InForce(NamedTuple):
    """What this process works with: `started` counts for what only a restart changes."""

    settings: Settings
    file: Mapping[str, object]
    flags: Mapping[str, object]
    started: Settings


def config_rows(
    in_force: InForce, data: Mapping[str, object] | None, saved: Settings | None
) -> list[dict[str, object]]:
    """One row for each setting, by group. `data` is the file as it stands now, None when it cannot be used, and
    `saved` what it means together with the flags.
    """
    in_file = dict(flatten(data)) if data is not None else {}
    effective, started = values_of(in_force.settings), values_of(in_force.started)
    was_in_file = {key for key, _ in flatten(in_force.file)}
    rows = []
    meant = values_of(saved) if saved is not None else {}
    for key in meant or effective:
        descriptor = describe(key)
        source = "flag" if key in in_force.flags else "file" if key in was_in_file else "default"
        now = (started if descriptor.apply == "restart" else effective).get(key)
        default_counts = data is not None and key not in in_file
        stands = descriptor.default if default_counts else in_file.get(key)
        if meant and key not in in_force.flags and meant[key] == now:
            now = stands  # The same, also where an entry leaves out what has a default.
        rows.append(
            {
                **_described(key, descriptor),
                **({"choices": [now]} if descriptor.key == _KIND_KEY else {}),
                "saved": stands,
                "in_file": key in in_file,
                "effective": now,
                "source": source,
                "flag": _FLAGS.get(key, "--set") if source == "flag" else "",
                "limit": key.removeprefix("harness.") if key.removeprefix("harness.") in TASK_LIMITS else "",
            }
        )
    return sorted(rows, key=lambda row: GROUPS.index(str(row["group"])))


def entry_rows() -> list[dict[str, object]]:
    """Each kind of entry that can be added: its table, whether that is a list, what it is, and a row for each of its
    settings as they are in an entry that is not in the file yet.
    """
    unsaved = {"in_file": False, "source": "default", "flag": "", "limit": ""}
    return [
        {
            "table": kind.table,
            "listed": kind.listed,
            "title": kind.title,
            "rows": [
                {**_described(setting.key, setting), **unsaved, "saved": setting.default, "effective": setting.default}
                for setting in kind.settings
            ],
        }
        for kind in entry_kinds()
    ]


def _described(key: str, descriptor: SettingDescriptor) -> dict[str, object]:
    """What is known of a setting whatever its value is."""
    return {
        "key": key,
        "group": group_of(key),
        "type": descriptor.kind,
        "unit": descriptor.unit,
        "default": descriptor.default,
        "choices": choices_of(key, descriptor),
        "low": descriptor.minimum,
        "high": descriptor.maximum,
        "privacy": descriptor.privacy,
        "help": descriptor.description,
        "applies": _APPLIES[descriptor.apply],
        "consent": generic_key(key) in CONSENT_KEYS,
        "refers": _REFERS.get(generic_key(key), ""),
    }


def group_of(key: str) -> str:
    """The group that a setting is shown in."""
    parts = key.split(".")
    beginnings = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((_GROUP_OF[beginning] for beginning in beginnings if beginning in _GROUP_OF), "Project")


def choices_of(key: str, descriptor: SettingDescriptor) -> list[object]:
    """The values that are accepted, as plain values; empty where a range or a type says it."""
    if descriptor.kind == "boolean" and not descriptor.options:
        return [False, True]
    return [parse_value(key, word) for word in descriptor.options]


def changes(old: Settings, new: Settings) -> tuple[dict[str, object], ...]:
    """What differs between two configurations: key, old and new. Of a value that is not public only that it does."""
    before, after = values_of(old), values_of(new)
    found: list[dict[str, object]] = []
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) == after.get(key):
            continue
        public = describe(key).privacy == "public"
        shown: dict[str, object] = {"old": before.get(key), "new": after.get(key)} if public else {"private": True}
        found.append({"key": key, **shown})
    return tuple(found)


def public_values(settings: Settings) -> dict[str, object]:
    """The configuration as it may be recorded: values that reveal nothing of the user's servers or secrets."""
    return {key: value for key, value in values_of(settings).items() if describe(key).privacy == "public"}
