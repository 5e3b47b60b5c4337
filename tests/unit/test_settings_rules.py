import tomllib

import pytest
from support.settings import URL, raw

from fluzo.core.errors import ConfigError
from fluzo.core.settings import (
    check_settings,
    consent_fingerprints,
    injected_environment,
    main_model,
    parse_settings,
    settings_document,
    url_problem,
)

OTHER = {"provider": "openai_compatible", "base_url": URL, "model": "n"}
LAYA = {"provider": "laya_systemone", "endpoint": "http://127.0.0.1:8080/v1/systemone"}
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123"


def keys_of_problems(data: dict[str, object]) -> list[str]:
    return [problem.key for problem in check_settings(data)[1]]


def the_problem(data: dict[str, object]) -> str:
    _, problems = check_settings(data)
    assert len(problems) == 1, problems
    return problems[0].message


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"models__coder__context_window": 7000}, "models.coder.context_window", "no room for input"),
        ({"models__coder__max_output_tokens": 1000}, "context.compaction_max_output_tokens", "larger than"),
        ({"context__safety_reserve_fraction": 0.5, "models__coder__max_output_tokens": 16_000},
         "models.coder.context_window", "reserve"),
        ({"agent__model": "other"}, "agent.model", "no [models.other]"),
        ({"agent__model": "laya", "models__laya": LAYA}, "agent.model", "openai_compatible"),
        ({"models__coder__pool": "gpu"}, "models.coder.pool", "no such entry"),
        ({"models__coder__model": " "}, "models.coder.model", "name a model"),
        ({"models__a b": OTHER}, 'models."a b"', "usable name"),
        ({"capacity_pools": {"local_server": {"foreground_reserved_slots": 2}}},
         "capacity_pools.local_server.foreground_reserved_slots", "max_in_flight (1)"),
        ({"models__b": {**OTHER, "capacity_id": "coder", "max_in_flight": 2}}, "models.b.capacity_id", "differ"),
        ({"models__b": {**OTHER, "model": "m"}}, "models.b.capacity_id", "same served model"),
        ({"models__laya": {**LAYA, "capacity_id": "coder"}}, "models.laya.capacity_id", "never takes"),
        ({"decision__enabled": True}, "decision.model", "missing"),
        ({"decision__model": "laya"}, "decision.model", "no such entry"),
        ({"decision__model": "coder"}, "decision.model", "laya_systemone"),
        ({"models__coder__auth": "env"}, "models.coder.api_key_env", "missing"),
        ({"models__coder__auth": "credential"}, "models.coder.credential_ref", "missing"),
        ({"models__coder__api_key_env": "KEY"}, "models.coder.api_key_env", 'auth = "env"'),
        ({"models__coder__auth": "env", "models__coder__api_key_env": "my key"}, "models.coder.api_key_env",
         "name of an environment variable"),
        ({"models__coder__first_output_timeout_seconds": 200}, "models.coder.first_output_timeout_seconds", "longer"),
        ({"harness__max_total_tokens": 4096}, "harness.max_total_tokens", "one reply"),
        ({"harness__max_cost_microunits": 5}, "harness.currency", "missing"),
        ({"harness__max_cost_microunits": 5, "harness__currency": "EUR"}, "models.coder.price_currency", "equal"),
        ({"harness__currency": "euro"}, "harness.currency", "three-letter"),
        ({"models__coder__input_price_microunits": 5}, "models.coder.input_price_microunits", "price_currency"),
        ({"context__tool_context_max_bytes": 4096, "context__tool_capture_max_bytes": 2048},
         "context.tool_context_max_bytes", "larger"),
        ({"telemetry__otlp_endpoint": "collector"}, "telemetry.otlp_endpoint", "http://"),
        ({"verification__commands": [[]]}, "verification.commands[0]", "empty"),
        ({"verification__commands": [["a\0"]]}, "verification.commands[0]", "NUL"),
        ({"policy__grants": [{}]}, "policy.grants[0]", "either"),
        ({"policy__grants": [{"argv": ["a"], "script": "b"}]}, "policy.grants[0]", "either"),
        ({"policy__grants": [{"argv": ["a"], "cwd": "../x"}]}, "policy.grants[0].cwd", "inside"),
        ({"policy__grants": [{"argv": ["a"], "cwd": "/x"}]}, "policy.grants[0].cwd", "inside"),
        ({"tools__shell__env": {"PATH": ".:/usr/bin"}}, "tools.shell.env.PATH", "absolute"),
        ({"tools__shell__env": {"DEPLOY_TOKEN": "x"}}, "tools.shell.env.DEPLOY_TOKEN", "secret"),
        ({"tools__shell__env": {"A": "credential:deploy"}}, "tools.shell.env.A", "tools.shell.credentials"),
        ({"tools__shell__env": {"A": "inherited:A"}}, "tools.shell.env.A", "tools.shell.inherit_env"),
        ({"tools__shell__credentials": {"A_TOKEN": "a b"}}, "tools.shell.credentials.A_TOKEN", "auth.toml"),
        ({"tools__shell__credentials": {"A_TOKEN": ""}}, "tools.shell.credentials.A_TOKEN", "auth.toml"),
        ({"tools__shell__credentials": {"A": "x"}, "tools__shell__env": {"A": "1"}}, "tools.shell.credentials.A",
         "tools.shell.env too"),
        ({"tools__shell__credentials": {"A": "x"}, "tools__shell__inherit_env": ["A"]}, "tools.shell.credentials.A",
         "tools.shell.inherit_env too"),
        ({"tools__shell__credentials": {"a-b": "x"}}, "tools.shell.credentials", "name of a variable"),
        ({"storage__auto_expire": True}, "storage.auto_expire", "false"),
        ({"policy__shell": "allow"}, "policy.shell", '"ask" or "deny"'),
    ],
)  # fmt: skip
def test_a_broken_rule_is_told_at_its_key(changes: dict[str, object], key: str, words: str) -> None:
    data = raw(**changes)

    assert keys_of_problems(data) == [key]
    assert words in the_problem(data)


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "SSH_AUTH_SOCK", "OPENAI_API_KEY",
     "GIT_SSH_COMMAND", "OTEL_EXPORTER_OTLP_HEADERS", "MY_KEY"],
)  # fmt: skip
def test_reserved_variables_never_reach_a_command(name: str) -> None:
    env = raw(models__coder__auth="env", models__coder__api_key_env="MY_KEY", tools__shell__env={name: "x"})
    inherited = raw(models__coder__auth="env", models__coder__api_key_env="MY_KEY", tools__shell__inherit_env=[name])

    credential = raw(
        models__coder__auth="env", models__coder__api_key_env="MY_KEY", tools__shell__credentials={name: "x"}
    )
    assert "tools.shell.env" in keys_of_problems(env)
    assert keys_of_problems(credential) == ["tools.shell.credentials"]
    assert keys_of_problems(inherited) == ["tools.shell.inherit_env"]


def test_operations_name_references_where_values_would_be() -> None:
    settings = parse_settings(
        raw(
            tools__shell__env={"B": "1"},
            tools__shell__inherit_env=["C"],
            tools__shell__credentials={"A_TOKEN": "deploy"},
        )
    )
    assert injected_environment(settings) == (("A_TOKEN", "credential:deploy"), ("B", "1"), ("C", "inherited:C"))
    assert parse_settings(tomllib.loads(settings_document(settings))) == settings


def test_ordinary_variables_may_reach_a_command() -> None:
    parse_settings(
        raw(
            tools__shell__env={"RUST_BACKTRACE": "1", "PYTHONUNBUFFERED": "1", "PATH": "/usr/bin:/bin"},
            tools__shell__inherit_env=["CARGO_HOME"],
        )
    )


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "empty"),
        ("127.0.0.1:8080/v1", "http://"),
        ("ftp://127.0.0.1/v1", "http://"),
        ("http:///v1", "names no server"),
        ("http://127.0.0.1:0/v1", "names no server"),
        ("http://127.0.0.1:99999/v1", "not an address"),
        ("http://[::1/v1", "not an address"),
        ("http://user@127.0.0.1/v1", "user name"),
        ("http://127.0.0.1/v1?a=b", "query"),
        ("http://127.0.0.1/v1#a", "query"),
        ("http://127.0.0.1/v1\x1b", "character"),
        ("http://127.0.0.1 /v1", "character"),
        ("http://10.0.0.5/v1", "unencrypted"),
        ("http://localhost.example.org/v1", "unencrypted"),
        ("http://127.0.0.1.example.org/v1", "unencrypted"),
    ],
)
def test_an_unsound_address_is_refused(url: str, words: str) -> None:
    assert words in url_problem(url, insecure_allowed=False)


@pytest.mark.parametrize(
    "url", [URL, "http://localhost:1/v1", "http://[::1]:8080/v1", "http://a.localhost/v1", "https://models.example.org"]
)
def test_a_sound_address_is_accepted(url: str) -> None:
    assert url_problem(url, insecure_allowed=False) == ""


def test_plain_http_elsewhere_needs_the_exception_of_that_model() -> None:
    assert keys_of_problems(raw(models__coder__base_url="http://10.0.0.5/v1")) == ["models.coder.base_url"]
    parse_settings(raw(models__coder__base_url="http://10.0.0.5/v1", models__coder__allow_insecure_http=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"models__coder__api_key": "hunter2-and-more"},
        {"models__coder__token": "hunter2-and-more"},
        {"password": "hunter2-and-more"},
        {"models__coder__auth": "env", "models__coder__api_key_env": SECRET},
        {"models__coder__credential_ref": SECRET},
        {"models__coder__base_url": f"http://user:{SECRET}@127.0.0.1/v1"},
        {"models__coder__base_url": f"http://127.0.0.1/v1?key={SECRET}"},
        {"models__coder__model": SECRET},
        {"project__name": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
        {"tools__shell__env": {"HEADER": "Bearer abcdefghijklmnop"}},
        {"tools__shell__env": {"API_TOKEN": "hunter2-and-more"}},
        {"verification__commands": [["curl", "-H", f"Authorization: Bearer {SECRET}"]]},
        {"harness__max_turns": SECRET},
        {"policy__shell": SECRET},
    ],
)
def test_a_literal_secret_is_refused_and_never_repeated(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(raw(**changes))

    told = f"{caught.value.message} {caught.value.hint} {caught.value.detail}"
    for secret in (SECRET, "hunter2", "ghp_", "abcdefghijklmnop"):
        assert secret not in told


def test_an_api_key_in_the_file_is_answered_with_the_two_ways_to_name_one() -> None:
    assert 'auth = "env" with api_key_env' in the_problem(raw(models__coder__api_key="x"))


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(raw(harness__max_turns=0, harness__max_turn=1, models__coder__pool=3))

    assert caught.value.code == "configuration_invalid"
    assert caught.value.message.split("\n") == [
        "models.coder.pool must be a text in quotes.",
        "harness.max_turns must be a whole number from 1 to 100000 (turns).",
        "harness.max_turn is not a setting; did you mean harness.max_turns?",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "schema_version is missing; add schema_version = 1 as the first line"),
        ({"schema_version": 2}, "schema_version is 2, written for a newer Fluzo; this one reads 1; update Fluzo"),
        ({"schema_version": True}, "schema_version must be 1"),
        ({"schema_version": 1, "harness": 3}, "harness must be a table"),
        ({"schema_version": 1, "models": {"x": {"provider": "other"}}},
         'models.x.provider must be "openai_compatible" or "laya_systemone"'),
        ({"schema_version": 1, "models": {"x": {"provider": "laya_systemone"}}}, "models.x.endpoint is missing"),
        ({"schema_version": 1, "verification": {"commands": ["make test"]}}, "verification.commands[0] must be a list"),
        ({"schema_version": 1, "a\x1b[2J": 1}, '"a\\u001b[2J" is not a setting'),
    ],
)  # fmt: skip
def test_a_document_of_the_wrong_shape_is_explained(data: dict[str, object], message: str) -> None:
    assert the_problem(data) == message


def test_a_newer_file_is_refused_for_its_version_alone() -> None:
    assert keys_of_problems({"schema_version": 2, "brand_new": {"a": 1}}) == ["schema_version"]


def test_without_a_model_the_agent_says_what_to_do() -> None:
    with pytest.raises(ConfigError) as caught:
        main_model(parse_settings({"schema_version": 1}))
    assert caught.value.code == "configuration_required"
    assert "fluzo init" in caught.value.hint
    assert main_model(parse_settings(raw()))[0] == "coder"


FULL = {
    "verification__commands": [["cargo", "test"]],
    "policy__grants": [{"argv": ["make"]}],
    "tools__shell__env": {"A": "1"},
    "telemetry__export_enabled": True,
}


def test_consent_is_asked_for_exactly_what_could_leave_or_run() -> None:
    names = consent_fingerprints(parse_settings(raw(**FULL)), "1:2:/a")
    assert list(names) == ["endpoint:coder", "verification", "grants", "environment", "export"]
    assert list(consent_fingerprints(parse_settings(raw()), "1:2:/a")) == ["endpoint:coder"]
    assert consent_fingerprints(parse_settings({"schema_version": 1}), "1:2:/a") == {}


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({"tui__animation_fps": 0, "harness__max_turns": 3, "models__coder__model": "x", "project__name": "y"}, set()),
        ({"models__coder__base_url": "http://127.0.0.1:9/v1"}, {"endpoint:coder"}),
        ({"models__coder__auth": "env", "models__coder__api_key_env": "K"}, {"endpoint:coder"}),
        ({"verification__commands": [["cargo", "test", "-q"]]}, {"verification"}),
        ({"policy__grants": [{"argv": ["make"], "cwd": "sub"}]}, {"grants"}),
        ({"tools__shell__env": {"A": "2"}}, {"environment"}),
        ({"tools__shell__inherit_env": ["B"]}, {"environment"}),
        ({"tools__shell__credentials": {"B_TOKEN": "b"}}, {"environment"}),
        ({"telemetry__capture_content": True}, {"export"}),
        ({"telemetry__otlp_endpoint": "http://127.0.0.1:1"}, {"export"}),
    ],
)
def test_a_fingerprint_moves_only_with_what_it_stands_for(changes: dict[str, object], moved: set[str]) -> None:
    before = consent_fingerprints(parse_settings(raw(**FULL)), "1:2:/a")
    after = consent_fingerprints(parse_settings(raw(**{**FULL, **changes})), "1:2:/a")

    assert {name for name in before if before[name] != after[name]} == moved


def test_consent_of_one_folder_is_none_of_another() -> None:
    settings = parse_settings(raw())
    assert consent_fingerprints(settings, "1:2:/a") != consent_fingerprints(settings, "1:3:/a")
