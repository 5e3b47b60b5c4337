import json
from typing import Any

import pytest
from support.wire_server import case

from fluzo.core.errors import ProviderError
from fluzo.core.redact import make_redactor
from fluzo.models.endpoint import ModelEndpoint
from fluzo.models.failures import http_failure, redirect_failure, reported_failure

ENDPOINT = ModelEndpoint("coder", "http://user:secret-pass@127.0.0.1:8080/v1?key=abc", "fx-model")
KEY = "zz-secret-key-123456"
REDACT = make_redactor([KEY])


def failure(status: int, body: object, content_type: str = "application/json") -> ProviderError:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return http_failure(ENDPOINT, status, content_type, raw, REDACT)


def shown(error: ProviderError) -> str:
    return json.dumps(error.to_json())


@pytest.mark.parametrize("response", case("p70-context-overflow")["responses"], ids=lambda item: item["server"])
def test_every_servers_overflow_is_seen_with_its_window(response: dict[str, Any]) -> None:
    error = failure(response["status"], response["body_text"])
    assert (error.code, error.retry) == ("context_overflow", "never")
    assert error.detail["limit_tokens"] == response["expect"]["limit"]
    if "prompt_tokens" in response["expect"]:
        assert error.detail["prompt_tokens"] == response["expect"]["prompt_tokens"]


KIND_CODES = {
    "loading": ("provider_unavailable", "safe"),
    "rate_limit": ("rate_limited", "never"),
    "quota": ("provider_quota", "never"),
}


@pytest.mark.parametrize("response", case("p72-unavailable-ratelimit")["responses"], ids=lambda item: item["server"])
def test_only_a_loading_model_is_tried_again(response: dict[str, Any]) -> None:
    error = failure(response["status"], response["body_text"])
    assert (error.code, error.retry) == KIND_CODES[response["expect"]["kind"]]


def refusal_of(name: str, number: int = 0) -> dict[str, Any]:
    response: dict[str, Any] = case(name)["rules"][number]["respond"]
    return response


@pytest.mark.parametrize(
    ("name", "parameter", "setting"),
    [
        ("p74-unknown-param-stream-options", "stream_options", "compat.usage_in_stream"),
        ("p75-max-tokens-name", "max_tokens", "compat.output_limit_parameter"),
        ("p76-unknown-param-other", "parallel_tool_calls", "compat.parallel_tool_calls"),
    ],
)
def test_a_refused_parameter_is_named_with_the_setting_that_turns_it_off(
    name: str, parameter: str, setting: str
) -> None:
    response = refusal_of(name)
    error = failure(response["status"], response["body_text"])
    assert (error.code, error.retry) == ("provider_invalid_request", "never")
    assert parameter in error.message
    assert f"models.coder.{setting} = " in error.hint
    assert (error.detail["parameter"], error.detail["setting"]) == (parameter, f"models.coder.{setting}")


def test_a_refusal_that_names_no_optional_parameter_shows_what_the_server_said() -> None:
    error = failure(422, refusal_of("p76-unknown-param-other", 1)["body_text"])
    assert error.code == "provider_invalid_request"
    assert "tools.0.function.strict: Extra inputs are not permitted" in error.message
    assert "parameter" not in error.detail


def says(message: str, **fields: object) -> dict[str, object]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, says("bad key", type="authentication_error", code=401), "provider_auth"),
        (403, says("no", type="permission_error"), "provider_auth"),
        (403, says("Insufficient balance"), "provider_quota"),
        (402, says("Payment required"), "provider_quota"),
        (429, "", "rate_limited"),
        (429, {"src": "llama-swap", **says("busy", code="concurrency_limit")}, "rate_limited"),
        (429, says("context length: too many tokens a minute, rate limit"), "rate_limited"),
        (503, says("server is overloaded", code="server_is_overloaded"), "provider_unavailable"),
        (503, says("no slots available"), "provider_unavailable"),
        (529, says("Overloaded"), "provider_unavailable"),
        (409, says("locked"), "provider_unavailable"),
        (599, "", "provider_unavailable"),
        (500, says("Jinja Exception: roles must alternate"), "provider_invalid_request"),
        (501, says("no", type="not_supported_error"), "provider_invalid_request"),
        (404, {"error": "model 'x' not found"}, "provider_invalid_request"),
        (413, "too large", "provider_invalid_request"),
        (418, "teapot", "provider_invalid_request"),
        (400, [], "provider_invalid_request"),
        (413, "prompt is too long: 9 tokens", "context_overflow"),
        (400, {"object": "error", "message": "maximum context length is 8 tokens"}, "context_overflow"),
        (400, says("litellm.ContextWindowExceededError: x", code="400"), "context_overflow"),
        (400, {"detail": json.dumps(says("maximum context length is 8 tokens"))}, "context_overflow"),
    ],
)
def test_a_final_refusal_has_one_stable_code(status: int, body: object, code: str) -> None:
    error = failure(status, body)
    assert (error.code, error.retry) == (code, "never")
    assert error.detail["status"] == status


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, says("boom", type="server_error", code=500)),
        (502, "<html><body>Bad gateway</body></html>"),
        (503, {"detail": "Service Unavailable"}),
        (504, ""),
    ],
)
def test_a_passing_fault_of_the_server_may_be_tried_again(status: int, body: object) -> None:
    error = failure(status, body)
    assert (error.code, error.retry) == ("provider_unavailable", "safe")


@pytest.mark.parametrize(
    ("payload", "code", "retry"),
    [
        ({"error": {"code": 500, "message": "boom"}}, "provider_unavailable", "safe"),
        ({"error": {"code": "429", "message": "slow"}}, "rate_limited", "never"),
        ({"error": {"message": "rate limit reached"}}, "rate_limited", "never"),
        ({"error": {"message": "Loading model", "type": "unavailable_error"}}, "provider_unavailable", "safe"),
        ({"error": {"message": "the prompt exceeds the context window"}}, "context_overflow", "never"),
        ({"error": {"code": "insufficient_quota", "message": "x"}}, "provider_quota", "never"),
        ({"error": {"message": "invalid api key"}}, "provider_auth", "never"),
        ({"error": {"message": "it broke"}}, "provider_unavailable", "never"),
        ({"error": True}, "provider_unavailable", "never"),
        ("it broke", "provider_unavailable", "never"),
        (None, "provider_unavailable", "never"),
    ],
)
def test_an_error_inside_a_200_is_classified_by_its_own_words(payload: object, code: str, retry: str) -> None:
    error = reported_failure(ENDPOINT, payload, REDACT)
    assert (error.code, error.retry) == (code, retry)


def test_server_text_is_bounded_printable_and_redacted() -> None:
    error = failure(400, {"error": {"message": f"\x1b[31m{KEY}\u202e\n" + "x" * 5000, "type": f"t{KEY}", "code": KEY}})
    text = shown(error)
    assert KEY not in text
    assert "[redacted]" in error.message
    assert "<U+001B>[31m" in error.message
    assert len(error.message) < 600
    assert not any(char in error.message for char in "\x1b\u202e\n")


def test_a_secret_that_the_bound_would_cut_in_two_is_masked_first() -> None:
    assert KEY[:8] not in failure(400, "x" * 395 + KEY).message


def test_the_address_is_shown_without_credentials_path_and_query() -> None:
    for error in (failure(500, ""), failure(404, "x"), redirect_failure(ENDPOINT, 301, "/x", REDACT)):
        assert "http://127.0.0.1:8080" in error.message
        assert "secret-pass" not in shown(error)
        assert "key=abc" not in shown(error)


def test_a_refused_form_of_ids_names_its_setting_and_an_id_out_of_place_does_not() -> None:
    error = failure(400, says("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", code="3280"))
    assert (error.code, error.detail["setting"]) == ("provider_invalid_request", "models.coder.compat.tool_call_ids")
    assert 'models.coder.compat.tool_call_ids = "mistral"' in error.hint
    out_of_place = failure(400, says("'tool_call_id' of 'c1' was not found in the previous message"))
    assert "setting" not in out_of_place.detail


@pytest.mark.parametrize("parameter", ["reasoning", "messages.1.reasoning", "messages[1].reasoning_content"])
def test_a_refused_reasoning_field_names_the_setting_that_keeps_it_back(parameter: str) -> None:
    error = failure(400, says(f"{parameter}: extra inputs are not permitted", param=parameter))
    assert error.detail["setting"] == "models.coder.compat.send_reasoning"
    assert "setting" not in failure(400, says("the reasoning effort of a stream is unknown")).detail


def test_the_servers_own_words_are_kept_apart_and_redacted() -> None:
    assert failure(400, says(f"no {KEY}")).detail["server_message"] == "no [redacted]"


def test_a_missing_tool_parser_is_told() -> None:
    error = failure(
        400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'}}
    )
    assert "tool-call parser" in error.hint


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://u:hunter22@example.com:8443/a/b?token=abc#frag", "https://example.com:8443"),
        ("http://[::1]:9/x", "http://[::1]:9"),
        ("/v1/chat/completions/?token=abc", "another path of the same server"),
        ("//evil.example/abc", "an address that is not shown"),
        ("http://[broken/abc", "an address that is not shown"),
        ("javascript:abc", "an address that is not shown"),
        ("", "an address that is not shown"),
        (f"https://{KEY}.example.com/", "https://[redacted].example.com"),
    ],
)
def test_a_redirect_tells_scheme_host_and_port_at_most(location: str, told: str) -> None:
    error = redirect_failure(ENDPOINT, 307, location, REDACT)
    assert (error.code, error.retry) == ("redirect_blocked", "never")
    assert error.detail == {"status": 307, "target": told}
    for secret in ("hunter22", "token", "abc", "frag", KEY):
        assert secret not in shown(error)
