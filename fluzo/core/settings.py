"""The configuration of a workspace, checked: from raw TOML data to frozen `Settings`, or to every problem at once.

This module is what the rest of Fluzo imports for settings; the tree, the registry and the rules stand beside it.
Invariant: `Settings` only exists validated as a whole; parsing is pure, and no message repeats a secret.

Precedence is default, file, flag (PRD 26). The file is data: parsing it grants nothing. What it would send data to
or let run is named by `consent_fingerprints`, and the user's consent is kept elsewhere.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from fluzo.core.checked import Unfit
from fluzo.core.errors import ConfigError
from fluzo.core.named import NamedTuple
from fluzo.core.paths import SETTINGS_NAME
from fluzo.core.settings_document import settings_document
from fluzo.core.settings_model import (
    LOCAL_POOL,
    Apply,
    CapacityPool,
    ChatModel,
    Compat,
    DecisionModel,
    Privacy,
    Settings,
    StandingGrant,
)
from fluzo.core.settings_registry import (
    SettingDescriptor,
    describe,
    entry_name,
    flatten,
    generic_key,
    get_value,
    nearest_key,
    parse_assignment,
    parse_value,
    plain,
    registry,
    remove_value,
    render,
    section_titles,
    set_value,
    show_key,
    unknown_key,
    values_of,
)
from fluzo.core.settings_rules import (
    CREDENTIAL_MARK,
    INHERITED_MARK,
    SECRET_HELP,
    Problem,
    context_reserve,
    cross_problems,
    is_loopback,
    is_reserved_variable,
    is_secret_name,
    looks_secret,
    secret_problems,
    url_problem,
)

__all__ = [
    "LOCAL_POOL",
    "SCHEMA_VERSION",
    "SECRET_HELP",
    "Apply",
    "CapacityPool",
    "ChatModel",
    "Compat",
    "DecisionModel",
    "Effective",
    "Privacy",
    "Problem",
    "SettingDescriptor",
    "Settings",
    "StandingGrant",
    "check_settings",
    "consent_fingerprints",
    "context_reserve",
    "describe",
    "effective_values",
    "entry_name",
    "flatten",
    "get_value",
    "injected_environment",
    "is_loopback",
    "is_reserved_variable",
    "is_secret_name",
    "looks_secret",
    "main_model",
    "nearest_key",
    "parse_assignment",
    "parse_settings",
    "parse_value",
    "plain",
    "registry",
    "remove_value",
    "render",
    "section_titles",
    "set_value",
    "settings_document",
    "show_key",
    "takes",
    "unknown_key",
    "url_problem",
    "validate",
    "values_of",
]

SCHEMA_VERSION = 1

Source = Literal["default", "file", "flag"]


class Effective(NamedTuple):
    """One value in force and where it comes from."""

    key: str
    value: object
    source: Source


def check_settings(data: Mapping[str, object]) -> tuple[Settings | None, tuple[Problem, ...]]:
    """The settings that `data` means, or None and every problem found, in the order of the document.

    `data` is what a TOML reader returns, with the values of flags already set in it.
    """
    version = data.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int:  # A boolean equals 1 for the reader of the tree.
        return None, (Problem(("schema_version",), f"schema_version must be {SCHEMA_VERSION}"),)
    if version > SCHEMA_VERSION:
        newer = f"schema_version is {version}, written for a newer Fluzo; this one reads {SCHEMA_VERSION}; update Fluzo"
        return None, (Problem(("schema_version",), newer),)
    secrets = {problem.path: problem for problem in secret_problems(data)}
    try:
        settings = Settings.check(data)
    except Unfit as exc:
        found = [_translate(problem, data) for problem in exc.problems]
        # Each alternative of a value reports the same once more, hence the dict.
        return None, tuple(dict.fromkeys((*secrets.values(), *(p for p in found if p.path not in secrets))))
    problems = (*secrets.values(), *(p for p in validate(settings) if p.path not in secrets))
    return (None, problems) if problems else (settings, ())


def validate(settings: Settings) -> tuple[Problem, ...]:
    """Every violated rule between settings; an empty tuple means that they can be used together."""
    return tuple(cross_problems(settings))


def parse_settings(data: Mapping[str, object]) -> Settings:
    """The settings that `data` means. Raises ConfigError that lists every problem, one per line."""
    settings, problems = check_settings(data)
    if settings is None:
        raise ConfigError("\n".join(problem.sentence for problem in problems))
    return settings


def main_model(settings: Settings) -> tuple[str, ChatModel]:
    """Name and entry of the agent's model. Raises ConfigError (configuration_required) when none is set up."""
    entry = settings.models.get(settings.agent.model)
    if not isinstance(entry, ChatModel):
        raise ConfigError(
            "No model is set up in this workspace.",
            code="configuration_required",
            hint="Set one up with: fluzo init",
        )
    return settings.agent.model, entry


def effective_values(settings: Settings, file: Mapping[str, object], flags: Mapping[str, object]) -> list[Effective]:
    """Every value in force, in the order of the registry's tree, with its source."""
    in_file = {key for key, _ in flatten(file)}
    by_flag = set(flags)
    found = []
    for key, value in values_of(settings).items():
        source: Source = "flag" if key in by_flag else "file" if key in in_file else "default"
        found.append(Effective(key, value, source))
    return found


def consent_fingerprints(settings: Settings, workspace_identity: str) -> dict[str, str]:
    """What these settings would need the user's consent for, each with a fingerprint of exactly that.

    Keys: `endpoint:<model>` for each model, and `verification`, `grants`, `environment` and `export` when the settings
    have them. A change of anything else, such as the theme, changes no fingerprint. Pure.
    """
    shell, telemetry = settings.tools.shell, settings.telemetry
    subjects: dict[str, object] = {}
    for name, entry in settings.models.items():
        address = entry.base_url if isinstance(entry, ChatModel) else entry.endpoint
        subjects[f"endpoint:{name}"] = [address, entry.auth, entry.api_key_env, entry.credential_ref]
    if settings.verification.commands:
        subjects["verification"] = settings.verification.commands
    if settings.policy.grants:
        subjects["grants"] = plain(settings.policy.grants)
    if shell.env or shell.inherit_env or shell.credentials:
        references = sorted(shell.credentials.items())
        subjects["environment"] = [sorted(shell.env.items()), sorted(shell.inherit_env), references]
    if telemetry.export_enabled:
        subjects["export"] = [telemetry.otlp_endpoint, telemetry.capture_content]
    return {name: _digest([workspace_identity, name, subject]) for name, subject in subjects.items()}


def injected_environment(settings: Settings) -> tuple[tuple[str, str], ...]:
    """What commands are given beyond the baseline, as operations name it: values, and marks in place of the rest.

    A credential is there as its reference, an inherited variable as its name; both become values when a process
    starts. A mark is never mistaken for a value: the rules refuse values that look like one. Pure.
    """
    shell = settings.tools.shell
    inherited = {name: f"{INHERITED_MARK}{name}" for name in shell.inherit_env}
    credentials = {name: f"{CREDENTIAL_MARK}{reference}" for name, reference in shell.credentials.items()}
    return tuple(sorted({**inherited, **shell.env, **credentials}.items()))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


# --- pydantic's errors in our words -----------------------------------------------------------------------------


def _translate(error: Any, data: Mapping[str, object]) -> Problem:
    path = tuple(_without_tags(error["loc"], data))
    key, kind = show_key(path), error["type"]
    if kind == "extra_forbidden":
        return Problem(path, _refusal(path, data))
    if kind == "missing":
        return Problem(path, f"{key} is missing{_MISSING_EXAMPLES.get(str(path[-1]), '')}")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        wanted = '"openai_compatible" or "laya_systemone"'
        return Problem((*path, "provider"), f"{show_key((*path, 'provider'))} must be {wanted}")
    return Problem(path, f"{key} must be {_wanted(path, kind)}")


_MISSING_EXAMPLES = {
    "schema_version": "; add schema_version = 1 as the first line",
    "base_url": '; for example base_url = "http://127.0.0.1:8080/v1"',
    "model": "; give the model's name as the server lists it",
}


def _without_tags(loc: tuple[str | int, ...], data: Mapping[str, object]) -> Iterator[str | int]:
    """The place in the document. pydantic also names the kind of entry and the alternative that it tried."""
    place: Any = data
    for index, part in enumerate(loc):
        is_kind = index == 2 and loc[0] == "models" and part in ("openai_compatible", "laya_systemone")
        is_alternative = not isinstance(place, Mapping | list) and index > 0
        if is_kind or is_alternative:
            continue
        yield part
        place = place.get(part) if isinstance(place, Mapping) else place[part] if isinstance(part, int) else None


def _refusal(path: tuple[str | int, ...], data: Mapping[str, object]) -> str:
    if is_secret_name(str(path[-1])):
        return f"{show_key(path)}: secrets do not belong in {SETTINGS_NAME}; {SECRET_HELP}"
    return unknown_key(path)


_BY_TYPE = {
    "string_type": "a text in quotes",
    "tuple_type": "a list",
    "model_type": "a table",
    "dict_type": "a table",
    "model_attributes_type": "a table",
}


def _wanted(path: tuple[str | int, ...], kind: str) -> str:
    generic = generic_key(show_key(path))
    wanted = next((takes(setting) for setting in registry() if setting.key == generic), "")
    return wanted or _BY_TYPE.get(kind, "something else")


def takes(setting: SettingDescriptor) -> str:
    """What a setting accepts, with range and unit, to follow `must be`."""
    if setting.options:
        return " or ".join(
            word if setting.kind != "choice" or word in ("true", "false") else render(word) for word in setting.options
        )
    unit = f" ({setting.unit})" if setting.unit else ""
    match setting.kind:
        case "integer":
            return f"a whole number from {_figure(setting.minimum)} to {_figure(setting.maximum)}{unit}"
        case "number":
            return f"a number from {_figure(setting.minimum)} to {_figure(setting.maximum)}{unit}"
        case "boolean":
            return "true or false"
        case "text":
            return "a text in quotes"
        case _:
            return f"a {setting.kind}"


def _figure(value: float | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
