"""Raw settings for tests: the smallest document that has a model, and ways to vary it."""

from collections.abc import Mapping

from fluzo.core.settings import set_value

URL = "http://127.0.0.1:8080/v1"


def raw(**changes: object) -> dict[str, object]:
    """A valid document; `changes` are values by key with `__` for the dot."""
    entry: dict[str, object] = {"provider": "openai_compatible", "base_url": URL, "model": "m"}
    data: dict[str, object] = {"schema_version": 1, "agent": {"model": "coder"}, "models": {"coder": entry}}
    return with_values(data, {key.replace("__", "."): value for key, value in changes.items()})


def with_values(data: Mapping[str, object], values: Mapping[str, object]) -> dict[str, object]:
    changed = dict(data)
    for key, value in values.items():
        changed = set_value(changed, key, value)
    return changed
