import json
import tomllib

import jsonschema
import pytest
from support.settings import raw

from fluzo.core.errors import UsageError
from fluzo.core.settings import (
    Settings,
    check_settings,
    consent_fingerprints,
    describe,
    effective_values,
    get_value,
    nearest_key,
    parse_settings,
    parse_value,
    plain,
    registry,
    render,
    set_value,
    settings_document,
    values_of,
)
from fluzo.core.settings_entries import entry_kinds, names_entry
from fluzo.core.settings_rows import CONSENT_KEYS
from fluzo.core.settings_schema import json_schema

MINIMAL = {"schema_version": 1}


def test_every_setting_is_described_completely() -> None:
    for setting in registry():
        assert setting.description, setting.key
        assert not setting.description.endswith("."), setting.key
        assert setting.privacy in ("public", "private", "secret_reference")
        assert setting.apply in ("live", "next_task", "explicit", "restart")
        if setting.kind in ("integer", "number") and not setting.options:
            assert setting.minimum is not None and setting.maximum is not None and setting.unit, setting.key
            assert setting.required or setting.minimum <= setting.default <= setting.maximum, setting.key
    assert len({setting.key for setting in registry()}) == len(registry())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("harness.max_turns", 30),
        ("harness.max_active_seconds", 1200),
        ("harness.shell_timeout_seconds", 120),
        ("harness.provider_retries", 2),
        ("harness.max_total_tokens", 200_000),
        ("harness.max_tool_calls", 100),
        ("harness.max_cost_microunits", 0),
        ("context.compaction_threshold", 0.8),
        ("context.compaction_max_output_tokens", 2048),
        ("context.safety_reserve_tokens", 1024),
        ("context.safety_reserve_fraction", 0.05),
        ("context.tool_context_max_bytes", 65_536),
        ("context.tool_capture_max_bytes", 2_097_152),
        ("models.coder.context_window", 32_768),
        ("models.coder.max_output_tokens", 4096),
        ("models.coder.connect_timeout_seconds", 10),
        ("models.coder.first_output_timeout_seconds", 90),
        ("models.coder.idle_stream_timeout_seconds", 30),
        ("models.coder.request_timeout_seconds", 180),
        ("models.coder.max_in_flight", 1),
        ("capacity_pools.local_server.max_in_flight", 1),
        ("capacity_pools.local_server.foreground_reserved_slots", 1),
        ("capacity_pools.local_server.queue_capacity", 8),
        ("capacity_pools.local_server.queue_timeout_seconds", 30),
        ("decision.timeout_seconds", 5),
        ("storage.session_max_bytes", 10 * 2**30),
        ("storage.diagnostic_max_bytes", 2 * 2**30),
        ("storage.min_free_bytes", 2**30),
        ("tui.animation_fps", 60),
        ("tui.notifications.duration_seconds", 5),
        ("tui.notifications.max_visible", 3),
        ("policy.edit", "allow"),
        ("policy.shell", "ask"),
        ("verification.commands", []),
    ],
)
def test_the_agreed_defaults_hold(key: str, value: object) -> None:
    assert get_value(parse_settings(raw()), key) == value


def test_defaults_and_document_and_parsed_document_agree() -> None:
    default = parse_settings(MINIMAL)

    reread = parse_settings(tomllib.loads(settings_document(default)))

    assert reread == default
    assert values_of(reread) == values_of(default)


def test_a_document_with_everything_in_it_reads_back_equal() -> None:
    data = raw(
        models__coder__compat={"stream": False, "parallel_tool_calls": True},
        models__laya={"provider": "laya_systemone", "endpoint": "http://127.0.0.1:8080/v1/systemone"},
        capacity_pools={"local_server": {}, "other": {"max_in_flight": 4, "queue_timeout_seconds": 1.5}},
        verification__commands=[["cargo", "test"], ["sh", "-c", 'echo "it\'s" \\ \t ü \u202e']],
        policy__grants=[{"argv": ["make", "lint"]}, {"script": "cd x &&\nmake", "cwd": "sub"}],
        tools__shell__env={"RUST_BACKTRACE": "1"},
        project__name="ü \x1b[31m",
    )
    settings = parse_settings(data)
    text = settings_document(settings)

    assert parse_settings(tomllib.loads(text)) == settings
    assert "\x1b" not in text and "\u202e" not in text


def test_the_document_names_every_setting_of_the_registry() -> None:
    settings = parse_settings(
        raw(
            models__laya={"provider": "laya_systemone", "endpoint": "http://127.0.0.1:1/v1/systemone"},
            policy__grants=[{"argv": ["a"]}, {"script": "b"}],
        )
    )
    text = settings_document(settings)

    for setting in registry():
        name = setting.key.rpartition(".")[2]
        assert f"\n{name} = " in text or f".{name}]" in text, setting.key


def test_keys_of_descriptors_resolve_to_values() -> None:
    settings = parse_settings(raw())
    for setting in registry():
        if "[]" in setting.key or setting.key == "models.<id>.endpoint":
            continue
        name = "local_server" if setting.key.startswith("capacity") else "coder"
        get_value(settings, setting.key.replace("<id>", name))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (("harness", "max_turn"), "harness.max_turns"),
        (("max_turns",), "harness.max_turns"),
        (("harnes",), "harness"),
        (("models", "coder", "base_ulr"), "models.coder.base_url"),
        (("models", "my-model", "compat", "strem"), "models.my-model.compat.stream"),
        (("tui", "fps"), ""),
        (("completely", "else"), ""),
    ],
)
def test_a_wrong_key_is_answered_with_the_nearest_one(wrong: tuple[str, ...], right: str) -> None:
    assert nearest_key(wrong) == right


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("harness.max_turns", "50", 50),
        ("harness.max_total_tokens", "1_000_000", 1_000_000),
        ("context.compaction_threshold", "0.5", 0.5),
        ("models.coder.connect_timeout_seconds", "3", 3),
        ("tui.dev_menu", "true", True),
        ("policy.shell", "deny", "deny"),
        ("models.coder.model", "30", "30"),
        ("models.coder.compat.parallel_tool_calls", "false", False),
        ("models.coder.compat.parallel_tool_calls", "omit", "omit"),
        ("verification.commands", '[["cargo", "test"]]', [["cargo", "test"]]),
        ("tools.shell.env", '{ A = "1" }', {"A": "1"}),
        ("tools.shell.inherit_env", '["CARGO_HOME"]', ["CARGO_HOME"]),
        ("policy.grants", '[{ argv = ["make"] }]', [{"argv": ["make"]}]),
    ],
)
def test_a_text_becomes_the_type_of_its_setting(key: str, text: str, value: object) -> None:
    parsed = parse_value(key, text)

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("harness.max_turns", "many"),
        ("harness.max_turns", "1.5"),
        ("harness.max_turns", "true"),
        ("harness.max_turns", "1\nx = 2"),
        ("tui.dev_menu", "yes"),
        ("context.compaction_threshold", "half"),
        ("verification.commands", '["cargo"]'),
        ("tools.shell.env", '["A"]'),
        ("harness.max_turn", "1"),
        ("harness", "1"),
    ],
)
def test_a_text_of_another_type_is_refused_without_being_repeated(key: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_value(key, text)
    assert key.split(".")[0] in caught.value.message


def test_values_come_from_default_then_file_then_flag() -> None:
    file = raw(harness__max_turns=5, harness__max_tool_calls=6)
    flags = {"harness.max_turns": 7}
    settings = parse_settings(set_value(file, "harness.max_turns", 7))

    found = {row.key: (row.value, row.source) for row in effective_values(settings, file, flags)}

    assert found["harness.max_turns"] == (7, "flag")
    assert found["harness.max_tool_calls"] == (6, "file")
    assert found["harness.provider_retries"] == (2, "default")
    assert found["models.coder.base_url"][1] == "file"
    assert found["tools.shell.env"] == ({}, "default")


def test_the_json_schema_accepts_the_document_and_refuses_a_wrong_one() -> None:
    schema = json.loads(json.dumps(json_schema()))
    document = tomllib.loads(settings_document(parse_settings(raw())))

    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "harness": {"max_turns": 0}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "nonsense": 1}, schema)


def test_rendered_values_are_toml_and_harmless_on_a_terminal() -> None:
    for value in (True, 0, -3, 1.5, 10.0, 'a"b\\c\n\x00\x1b\x7f\u009b\u202e😀', [["x"], []], {"a b": "c"}, {}):
        text = render(value)
        assert tomllib.loads(f"v = {text}")["v"] == value
        assert text.isprintable()


def test_settings_never_change_and_survive_json() -> None:
    settings = parse_settings(raw())
    with pytest.raises(AttributeError, match="frozen"):
        settings.harness.max_turns = 3  # type: ignore[misc]
    assert isinstance(settings, Settings)
    assert parse_settings(json.loads(json.dumps(plain(settings)))) == settings


def test_a_setting_is_described_by_its_concrete_key() -> None:
    assert describe("models.anything.pool").default == "local_server"
    assert describe("models.coder.api_key_env").privacy == "secret_reference"
    assert describe("tui.theme").apply == "live"


def test_no_settings_are_made_from_a_document_with_problems() -> None:
    settings, problems = check_settings({"schema_version": 1, "harness": {"max_turns": 0, "nonsense": 1}, "x": 2})

    assert settings is None
    assert [problem.key for problem in problems] == ["harness.max_turns", "harness.nonsense", "x"]


def test_a_change_of_exactly_the_marked_settings_needs_consent_anew() -> None:
    laya = {"provider": "laya_systemone", "endpoint": "http://127.0.0.1:9/v1/systemone"}
    base = {**raw(), "policy": {"grants": [{"argv": ["make"]}]}, "telemetry": {"export_enabled": True}}
    base["models"] = {**base["models"], "watcher": laya}
    others = {
        "text": ["other"],
        "boolean": [True, False],
        "list of texts": [["A"]],
        "list of commands": [[["a"]]],
        "list of grants": [[]],
        "table of texts": [{"A": "b"}],
    }
    before, found = consent_fingerprints(Settings.check(base), "w"), set()
    for setting in registry():
        if setting.key.endswith((".provider", "schema_version")) or "[]" in setting.key:
            continue
        name = "watcher" if setting.key == "models.<id>.endpoint" else "coder"
        key = setting.key.replace("models.<id>", f"models.{name}").replace("<id>", "local_server")
        choices = [parse_value(key, word) for word in setting.options]
        for other in choices or others.get(setting.kind, [setting.minimum]):
            if consent_fingerprints(Settings.check(set_value(base, key, other)), "w") != before:
                found.add(setting.key)
    assert found == {key for key in CONSENT_KEYS if "[]" not in key}


def test_every_table_of_entries_has_its_kinds_and_its_entries_have_names() -> None:
    keys = {setting.key for kind in entry_kinds() for setting in kind.settings}
    assert keys == {setting.key for setting in registry() if "<id>" in setting.key or "[]" in setting.key}
    assert names_entry("models.coder") and names_entry("capacity_pools.a-b")
    assert not any(
        map(names_entry, ("models", "policy.grants", "policy.shell", "models.a.b", "models.a b", "harness.x"))
    )
