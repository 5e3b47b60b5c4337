"""What servers say when they refuse: error bodies of every dialect as one ProviderError with a stable code.

Invariant: the text of a server reaches a person only bounded, printable and redacted, and decides nothing but the
class of the failure. Retry is `safe` only for passing faults of the server; a rate limit, a quota, a lack of
capacity, refused credentials, an invalid request and a redirect are final (PRD 42.1, 43.1).
"""

import json
import re
from collections.abc import Mapping
from typing import Literal

from fluzo.core.errors import ProviderError, Retry
from fluzo.core.named import NamedTuple
from fluzo.core.redact import Redactor, printable
from fluzo.models.endpoint import ModelEndpoint, origin_of
from fluzo.models.jsontext import clean, parse

MAX_BODY_BYTES = 256 * 1024
"""Most that is read of an error body."""
MAX_SHOWN_CHARS = 400

Kind = Literal["overflow", "quota", "rate", "auth", "invalid", "missing", "capacity", "passing", "unknown"]

# Texts that `re` compiles when a request has failed, which most runs never see.
_OVERFLOW = (
    r"context_length_exceeded|exceed_context_size_error|contextwindowexceeded|maximum context length"
    r"|exceeds the available context size|context length|context window|context size|prompt is too long"
    r"|input tokens exceed|reduce the length of the|job requires \d+ pages"
)
_QUOTA = (
    r"insufficient_quota|credit_balance_exhausted|spend_limit_exceeded|usage_limit_exceeded|billing_hard_limit_reached"
    r"|exceeded your current quota|usage limit reached|insufficient (?:balance|credit|funds)|out of credit"
    r"|credit balance|no credits"
)
_RATE = r"rate.?limit|too many requests|concurrency_limit|slow_down|worker limit"
_CAPACITY = (
    r"overloaded|queue (?:is )?full|capacity|too many concurrent|no (?:available )?slots?|slots? (?:are )?busy"
    r"|workers? (?:are )?busy"
)
_LOADING = r"loading model|model is loading|still loading"
_AUTH = r"authentication_error|permission_error|invalid_api_key|invalid api key|incorrect api key"
_LIMIT = r"context (?:length|size|window)[^0-9]{0,40}(\d+)"
_PROMPT = r"request \((\d+) tokens\)|resulted in (\d+) tokens|requested about (\d+) tokens"

_PARAMETERS: Mapping[str, tuple[str, str]] = {
    "stream_options": ("compat.usage_in_stream", "false"),
    "parallel_tool_calls": ("compat.parallel_tool_calls", '"omit"'),
    "max_completion_tokens": ("compat.output_limit_parameter", '"max_tokens"'),
    "max_tokens": ("compat.output_limit_parameter", '"max_completion_tokens"'),
    "reasoning_content": ("compat.send_reasoning", "false"),
    "reasoning": ("compat.send_reasoning", "false"),
    "tool_call_id": ("compat.tool_call_ids", '"mistral"'),
    "stream": ("compat.stream", "false"),
}
"""Optional parameters of a request, and the setting of the model entry that turns each of them off."""

_COMMON_WORDS = frozenset({"stream", "reasoning", "tool_call_id"})
"""Too common in sentences to mean the parameter; they count only where the server declares it."""
_PARAMETER_WORD = r"\b(" + "|".join(_PARAMETERS.keys() - _COMMON_WORDS) + r")\b"
_SHORT_ID = r"(?is)tool.?call.?id\b.*\blength of 9\b"


class Report(NamedTuple):
    """What an error body says, whatever its shape; empty strings and zeros where it is silent."""

    message: str = ""
    type: str = ""
    code: str = ""
    parameter: str = ""
    limit_tokens: int = 0
    prompt_tokens: int = 0

    @property
    def words(self) -> str:
        return f"{self.message} {self.type} {self.code}".lower()


def read_report(payload: object) -> Report:
    """Read `{"error": {...}}`, `{"error": "..."}`, `{"detail": ...}`, `{"message": ...}`, the bare error, or text."""
    if isinstance(payload, str):
        return _from_text(payload)
    if not isinstance(payload, Mapping):
        return Report()
    error = payload.get("error")
    if isinstance(error, str) and error:
        return read_report(error)
    if isinstance(error, Mapping):
        return _from_object(error)
    if "detail" in payload and not payload.get("message"):
        return _from_detail(payload["detail"])
    return _from_object(payload)


def _from_text(text: str) -> Report:
    """Gateways hand on the body of the server behind them as a string."""
    if text.lstrip().startswith("{"):
        try:
            inner = parse(text)
        except ValueError:
            return Report(text)
        if isinstance(inner, Mapping) and ("error" in inner or "message" in inner or "detail" in inner):
            return read_report(inner)
    return Report(text)


def _from_object(error: Mapping[object, object]) -> Report:
    message = error.get("message") or error.get("error") or error.get("msg") or ""
    code = error.get("code") if error.get("code") is not None else error.get("error_code")
    return Report(
        message=message if isinstance(message, str) else json.dumps(message, default=str),
        type=_word(error.get("type")),
        code=_word(code),
        parameter=_word(error.get("param")),
        limit_tokens=_number(error.get("n_ctx")),
        prompt_tokens=_number(error.get("n_prompt_tokens")),
    )


def _from_detail(detail: object) -> Report:
    """FastAPI: a string, an object, or a list of {loc, msg, type}."""
    if isinstance(detail, list):
        items = [item for item in detail if isinstance(item, Mapping)]
        location = items[0].get("loc") if items else None
        path = [str(part) for part in location if part != "body"] if isinstance(location, list) else []
        message = "; ".join(_word(item.get("msg")) for item in items)
        return Report(f"{'.'.join(path)}: {message}" if path else message, parameter=".".join(path))
    return read_report(detail)


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def classify(status: int, report: Report) -> Kind:
    """The kind of a refusal. Explicit words of the server come before the status it chose for them."""
    words = report.words
    limited = bool(re.search(_RATE, words))
    own = status >= 500 or status == 0
    rules: tuple[tuple[object, Kind], ...] = (
        (status != 429 and not limited and _is_overflow(status, words), "overflow"),
        (status == 402 or (status in (0, 403, 429) and re.search(_QUOTA, words)), "quota"),
        (status == 429 or (status == 0 and limited), "rate"),
        (status in (401, 403) or (status == 0 and re.search(_AUTH, words)), "auth"),
        (own and re.search(_LOADING, words), "passing"),
        (status == 529 or (own and re.search(_CAPACITY, words)), "capacity"),
        (own and "jinja" in words, "invalid"),
        (status in (500, 502, 503, 504), "passing"),
        (status in (404, 405), "missing"),
        (status in (408, 409, 425), "unknown"),
        (400 <= status < 500 or status == 501, "invalid"),
    )
    return next((kind for applies, kind in rules if applies), "unknown")


def _is_overflow(status: int, words: str) -> bool:
    if "exceed_context_size_error" in words or "context_length_exceeded" in words:
        return True
    return status in (0, 400, 413, 422, 500) and bool(re.search(_OVERFLOW, words))


def http_failure(
    endpoint: ModelEndpoint, status: int, content_type: str, body: bytes, redact: Redactor
) -> ProviderError:
    """The error of an answer whose status is not 200; redirects have their own function."""
    text = body[:MAX_BODY_BYTES].decode("utf-8", "replace")
    if is_web_page(content_type, text):
        report = Report("a web page (HTML)")
    else:
        try:
            report = read_report(parse(text))
        except ValueError:
            report = Report(text)
    return _failure(endpoint, status, report, redact)


def reported_failure(endpoint: ModelEndpoint, payload: object, redact: Redactor) -> ProviderError:
    """The error that a server put into a 200 answer: its own code stands for the status."""
    report = read_report(payload)
    status = int(report.code) if re.fullmatch(r"[45]\d\d", report.code) else 0
    if "unexpected endpoint" in report.words:
        return ProviderError(
            f"{endpoint.origin} does not serve this address: {_shown(report.message, redact)} "
            f"Chat Completions usually live below /v1: check {endpoint.setting('base_url')}.",
            detail=_detail(200, report, redact),
        )
    return _failure(endpoint, status, report, redact)


def _failure(endpoint: ModelEndpoint, status: int, report: Report, redact: Redactor) -> ProviderError:
    kind = classify(status, report)
    said = _shown(report.message, redact) or "the server gave no reason."
    number = f" (status {status})" if status else ""
    detail = _detail(status, report, redact)
    if kind == "overflow":
        return _overflow(endpoint, said, report, detail)
    if kind in ("invalid", "missing"):
        return _invalid(endpoint, kind, number, said, report, detail)
    code, text, hint, retry = _PLAIN[kind]
    detail["kind"] = kind
    return ProviderError(
        f"{endpoint.origin} {text}{number}: {said}",
        code=code,
        hint=hint.format(auth=endpoint.setting("auth")),
        detail=detail,
        retry=retry,
    )


_PLAIN: Mapping[Kind, tuple[str, str, str, Retry]] = {
    "quota": (
        "provider_quota",
        "refused the request because a quota or credit is used up",
        "Settle it with the provider, or choose another model; nothing is retried.",
        "never",
    ),
    "rate": (
        "rate_limited",
        "refused the request because of its rate limit",
        "Wait as the provider says, then run the task again; nothing is retried by itself.",
        "never",
    ),
    "auth": ("provider_auth", "refused the credentials", "Check {auth} and the key it names.", "never"),
    "capacity": (
        "provider_unavailable",
        "has no free capacity",
        "Try again when the server is less busy; nothing is retried by itself.",
        "never",
    ),
    "passing": ("provider_unavailable", "could not answer now", "Check the server and run the task again.", "safe"),
    "unknown": ("provider_unavailable", "did not answer the request", "Check the server's log.", "never"),
}


def _overflow(endpoint: ModelEndpoint, said: str, report: Report, detail: dict[str, object]) -> ProviderError:
    limit = report.limit_tokens or _first_number(_LIMIT, report.message.lower())
    prompt = report.prompt_tokens or _first_number(_PROMPT, report.message.lower())
    detail.update({key: value for key, value in (("limit_tokens", limit), ("prompt_tokens", prompt)) if value})
    window = f" of {limit} tokens" if limit else ""
    return ProviderError(
        f"The conversation does not fit the context window{window} at {endpoint.origin}: {said}",
        code="context_overflow",
        hint=f"Set {endpoint.setting('context_window')} to what the server really offers, lower "
        f"{endpoint.setting('max_output_tokens')}, or start the server with a larger window.",
        detail=detail,
    )


def _invalid(
    endpoint: ModelEndpoint, kind: Kind, number: str, said: str, report: Report, detail: dict[str, object]
) -> ProviderError:
    hint = f"Check {endpoint.setting('model')} and the server's log."
    parameter = _parameter(report)
    if parameter:
        setting, value = _PARAMETERS[parameter]
        detail.update(parameter=parameter, setting=endpoint.setting(setting))
        said = f"{said} The parameter is {parameter}."
        hint = f"If the server does not take {parameter} as it is sent, set {endpoint.setting(setting)} = {value}."
    elif kind == "missing":
        hint = (
            f"Check {endpoint.setting('model')}, and that {endpoint.setting('base_url')} ends where Chat Completions "
            "live, usually in /v1."
        )
    elif "tool" in report.words and ("parser" in report.words or "tool choice" in report.words):
        hint = "Start the server with its tool-call parser; without it the model cannot call tools."
    return ProviderError(
        f"{endpoint.origin} refused the request as invalid{number}: {said}",
        code="provider_invalid_request",
        hint=hint,
        detail=detail,
    )


def _parameter(report: Report) -> str:
    """The optional parameter that the refusal is about: as declared, else the first one the message names."""
    declared = report.parameter.rpartition(".")[2]
    if declared in _PARAMETERS:
        return declared
    if re.search(_SHORT_ID, report.message):
        return "tool_call_id"
    found = re.search(_PARAMETER_WORD, report.message)
    return found[1] if found else ""


def _first_number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(next(group for group in found.groups() if group)[:12]) if found else 0


def redirect_failure(endpoint: ModelEndpoint, status: int, location: str, redact: Redactor) -> ProviderError:
    """Redirects are never followed; only scheme, host and port of the target are told, and only if readable."""
    target = origin_of(location)
    if target:
        where = _shown(target, redact, end="")
    elif location.startswith("/") and not location.startswith("//"):
        where = "another path of the same server"
    else:
        where = "an address that is not shown"
    return ProviderError(
        f"{endpoint.origin} answered with a redirect (status {status}) to {where}. "
        "It was not followed and nothing was sent there.",
        code="redirect_blocked",
        hint=f"If that is the right server, give its final address as {endpoint.setting('base_url')}.",
        detail={"status": status, "target": where},
    )


def web_page_failure(endpoint: ModelEndpoint) -> ProviderError:
    return ProviderError(
        f"{endpoint.origin} answered with a web page (HTML), so the base address does not lead to Chat Completions.",
        hint=f"Check {endpoint.setting('base_url')}; it usually ends in /v1.",
        detail={"status": 200},
    )


def unreadable_failure(endpoint: ModelEndpoint, what: str, excerpt: str, redact: Redactor) -> ProviderError:
    """A 200 answer that is no Chat Completions reply; `what` completes the sentence."""
    shown = _shown(excerpt, redact, end="")
    return ProviderError(
        f"{endpoint.origin} {what}" + (f": {shown}" if shown else "."),
        hint=f"Check that {endpoint.setting('base_url')} leads to a Chat Completions server (it usually ends in /v1).",
        detail={"status": 200},
    )


def is_web_page(content_type: str, text: str) -> bool:
    start = text.lstrip("\ufeff \t\r\n")[:15].lower()
    return start.startswith(("<!doctype", "<html")) or content_type.lower().startswith("text/html")


def _detail(status: int, report: Report, redact: Redactor) -> dict[str, object]:
    detail: dict[str, object] = {"status": status} if status else {}
    for key, value in (("server_type", report.type), ("server_code", report.code)):
        if value:
            detail[key] = _shown(value[:80], redact, end="")
    if report.message:
        detail["server_message"] = _shown(report.message, redact, end="")
    return detail


def _shown(text: str, redact: Redactor, end: str = ".") -> str:
    """Foreign text for a sentence: redacted before it is cut, so that no secret is cut out of its shape."""
    one_line = " ".join(printable(redact(clean(text[:65536]))).split())
    if len(one_line) > MAX_SHOWN_CHARS:
        return f"{one_line[:MAX_SHOWN_CHARS]}..."
    return one_line if not one_line or one_line.endswith((".", "!", "?")) else one_line + end
