"""What must hold between settings, and what a text in `.fluzo` may never be: a literal secret.

Invariant: every check is pure and returns problems instead of raising, so that a file, a flag and a screen show the
same sentences, all at once. No problem repeats a value that could be a secret.

Sources: PRD 21.3, 26, 42, 43.1 and 43.3.
"""

import ipaddress
import math
import re
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import urlsplit

from fluzo.core.named import NamedTuple
from fluzo.core.redact import make_redactor
from fluzo.core.settings_model import ChatModel, DecisionModel, ModelEntry, Settings, StandingGrant
from fluzo.core.settings_registry import ID, show_key


class Problem(NamedTuple):
    """One thing to repair. `path` is where it stands in the document; `message` is a sentence without a full stop."""

    path: tuple[str | int, ...]
    message: str

    @property
    def key(self) -> str:
        return show_key(self.path)

    @property
    def sentence(self) -> str:
        return self.message if self.message.endswith("?") else f"{self.message}."


ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CREDENTIAL_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_CURRENCY = re.compile(r"[A-Z]{3}")  # ISO 4217

CREDENTIAL_MARK = "credential:"
INHERITED_MARK = "inherited:"

_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:(?:api|access|secret|private|auth)[_-]?key|token|secret|passw(?:or)?d|passphrase|credentials?|bearer|authorization)$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(r"\bBearer\s+\S{8,}|\bBasic\s+[A-Za-z0-9+/=]{8,}")
_redact = make_redactor()

_RESERVED = {
    "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR", "NODE_OPTIONS", "RUBYOPT",
    "PERL5OPT", "PERL5LIB", "PERL5DB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "GCONV_PATH",
    "SSH_AUTH_SOCK", "SSH_ASKPASS", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY",
    "GROQ_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "HF_TOKEN",
}  # fmt: skip
_RESERVED_PREFIXES = ("LD_", "DYLD_", "PYTHON", "BASH_FUNC_", "GIT_", "OTEL_", "FLUZO_", "GLIBC_")
_HARMLESS = {"PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONUTF8"}


def is_secret_name(name: str) -> bool:
    """True for a key or variable whose name says that it holds a secret."""
    return bool(_SECRET_NAME.search(name))


def looks_secret(text: str) -> bool:
    """True for text that has the shape of a key, a token or an address with a password."""
    return _redact(text) != text or bool(_SECRET_TEXT.search(text))


def secret_problems(value: object, path: tuple[str | int, ...] = ()) -> Iterator[Problem]:
    """Every text in a raw document that looks like a literal secret; the text itself is never repeated."""
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[str, object]", value).items():
            yield from secret_problems(item, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from secret_problems(item, (*path, index))
    elif isinstance(value, str) and looks_secret(value):
        yield Problem(path, f"{show_key(path)} looks like a literal secret, which is not shown here; {SECRET_HELP}")


SECRET_HELP = (
    'use auth = "env" with api_key_env, or auth = "credential" with credential_ref, and replace the key if the file '
    "was shared"
)


def is_loopback(host: str) -> bool:
    """True for this machine's own addresses, by name or number; nothing is resolved."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, section 6.3
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


def url_problem(url: str, *, insecure_allowed: bool) -> str:
    """What is wrong with an endpoint's address, or an empty text. The address is never repeated."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "is not an address; write it as http://HOST:PORT/v1"
    checks = (
        (not url, "is empty; give an address such as http://127.0.0.1:8080/v1"),
        (not url.isprintable() or " " in url or "\\" in url, "contains a character that no address may have"),
        (parts.scheme not in ("http", "https"), "must begin with http:// or https://"),
        (not host or port == 0, "names no server; write it as http://HOST:PORT/v1"),
        ("@" in parts.netloc, f"contains a user name or password; {SECRET_HELP}"),
        ("?" in url or "#" in url, "must end with its path; a query or fragment is not allowed"),
        (parts.scheme == "http" and not is_loopback(host) and not insecure_allowed, INSECURE),
    )
    return next((message for wrong, message in checks if wrong), "")


INSECURE = (
    "is plain http to another machine: prompts and keys would travel unencrypted; use https, or set "
    "allow_insecure_http = true for this model if you accept that"
)


def context_reserve(settings: Settings, window: int) -> int:
    """Input tokens kept free of `window`: the greater of the fixed and the proportional reserve (PRD 43.1)."""
    context = settings.context
    return max(context.safety_reserve_tokens, math.ceil(window * context.safety_reserve_fraction))


def cross_problems(settings: Settings) -> Iterator[Problem]:
    """Every rule that spans more than one setting."""
    yield from _agent(settings)
    for model_id, entry in settings.models.items():
        yield from _entry(settings, model_id, entry)
        if isinstance(entry, ChatModel):
            yield from _window(settings, model_id, entry)
            yield from _timeouts(model_id, entry)
    yield from _capacity(settings)
    yield from _pools(settings)
    yield from _decision(settings)
    yield from _money(settings)
    yield from _environment(settings)
    yield from _commands(settings)
    if settings.context.tool_context_max_bytes > settings.context.tool_capture_max_bytes:
        yield Problem(
            ("context", "tool_context_max_bytes"),
            "context.tool_context_max_bytes is larger than context.tool_capture_max_bytes, so it could never be filled",
        )
    problem = url_problem(settings.telemetry.otlp_endpoint, insecure_allowed=True)
    if problem:
        yield Problem(("telemetry", "otlp_endpoint"), f"telemetry.otlp_endpoint {problem}")


def _agent(settings: Settings) -> Iterator[Problem]:
    name = settings.agent.model
    if not name:
        return
    entry = settings.models.get(name)
    if entry is None:
        yield Problem(
            ("agent", "model"), f"agent.model names {show_key((name,))}, but there is no [models.{show_key((name,))}]"
        )
    elif not isinstance(entry, ChatModel):
        yield Problem(
            ("agent", "model"), "agent.model names a decision service; the agent needs an openai_compatible model"
        )
    elif settings.harness.max_total_tokens <= entry.max_output_tokens:
        yield Problem(
            ("harness", "max_total_tokens"),
            f"harness.max_total_tokens must be more than one reply may take ({entry.max_output_tokens} tokens)",
        )


def _entry(settings: Settings, model_id: str, entry: ModelEntry) -> Iterator[Problem]:
    at = ("models", model_id)
    if not ID.fullmatch(model_id):
        yield Problem(at, f"{show_key(at)} is not a usable name; use letters, digits, - and _")
    field = "base_url" if isinstance(entry, ChatModel) else "endpoint"
    problem = url_problem(getattr(entry, field), insecure_allowed=entry.allow_insecure_http)
    if problem:
        yield Problem((*at, field), f"{show_key((*at, field))} {problem}")
    if entry.pool not in settings.capacity_pools:
        yield Problem(
            (*at, "pool"),
            f"{show_key((*at, 'pool'))} names {show_key((entry.pool,))}, but [capacity_pools] has no such entry",
        )
    if isinstance(entry, ChatModel) and not entry.model.strip():
        yield Problem((*at, "model"), f"{show_key((*at, 'model'))} is empty; name a model of the server")
    yield from _auth(at, entry)


def _auth(at: tuple[str, str], entry: ModelEntry) -> Iterator[Problem]:
    wanted = {"env": "api_key_env", "credential": "credential_ref"}.get(entry.auth, "")
    for field, pattern, what in (
        ("api_key_env", ENV_NAME, "the name of an environment variable, such as OPENAI_API_KEY, never the key itself"),
        ("credential_ref", _CREDENTIAL_REF, "the name of an entry in auth.toml, never the key itself"),
    ):
        value, key = getattr(entry, field), show_key((*at, field))
        if field == wanted and not value:
            yield Problem((*at, field), f'{key} is missing; auth = "{entry.auth}" needs {what}')
        elif field != wanted and value:
            other = "env" if field == "api_key_env" else "credential"
            yield Problem(
                (*at, field), f'{key} has no effect with auth = "{entry.auth}"; set auth = "{other}" or remove it'
            )
        elif value and not pattern.fullmatch(value):
            yield Problem((*at, field), f"{key} must be {what}")


def _window(settings: Settings, model_id: str, entry: ChatModel) -> Iterator[Problem]:
    at, context = ("models", model_id), settings.context
    reserve = context_reserve(settings, entry.context_window)
    needed = entry.max_output_tokens + reserve + context.compaction_max_output_tokens
    if needed >= entry.context_window:
        yield Problem(
            (*at, "context_window"),
            f"{show_key((*at, 'context_window'))} leaves no room for input: the reply ({entry.max_output_tokens}), the "
            f"reserve ({reserve}) and a summary ({context.compaction_max_output_tokens}) take {needed} of its "
            f"{entry.context_window} tokens",
        )
    if context.compaction_max_output_tokens > entry.max_output_tokens:
        yield Problem(
            ("context", "compaction_max_output_tokens"),
            "context.compaction_max_output_tokens is larger than "
            f"{show_key((*at, 'max_output_tokens'))} ({entry.max_output_tokens})",
        )


def _timeouts(model_id: str, entry: ChatModel) -> Iterator[Problem]:
    for field in ("connect_timeout_seconds", "first_output_timeout_seconds", "idle_stream_timeout_seconds"):
        if getattr(entry, field) > entry.request_timeout_seconds:
            at = ("models", model_id, field)
            yield Problem(at, f"{show_key(at)} is longer than request_timeout_seconds, which ends the whole request")


def _capacity(settings: Settings) -> Iterator[Problem]:
    first: dict[str, str] = {}
    served: dict[tuple[str, str], str] = {}
    for model_id, entry in settings.models.items():
        at = ("models", model_id, "capacity_id")
        identity = settings.capacity_id(model_id)
        other = settings.models[first.setdefault(identity, model_id)]
        if (other.pool, other.max_in_flight) != (entry.pool, entry.max_in_flight):
            yield Problem(
                at,
                f"{show_key(at)} is shared with models.{first[identity]}, but pool or max_in_flight differ; one served "
                "model has one pool and one limit",
            )
        if isinstance(entry, ChatModel):
            same = served.setdefault((entry.base_url.rstrip("/"), entry.model), model_id)
            if settings.capacity_id(same) != identity:
                yield Problem(at, f"{show_key(at)} must equal that of models.{same}: both are the same served model")


def _pools(settings: Settings) -> Iterator[Problem]:
    for name, pool in settings.capacity_pools.items():
        at = ("capacity_pools", name)
        if not ID.fullmatch(name):
            yield Problem(at, f"{show_key(at)} is not a usable name; use letters, digits, - and _")
        if pool.foreground_reserved_slots > pool.max_in_flight:
            key = show_key((*at, "foreground_reserved_slots"))
            yield Problem(
                (*at, "foreground_reserved_slots"), f"{key} must be 1 to max_in_flight ({pool.max_in_flight})"
            )


def _decision(settings: Settings) -> Iterator[Problem]:
    name, at = settings.decision.model, ("decision", "model")
    entry = settings.models.get(name)
    if not name:
        if settings.decision.enabled:
            yield Problem(at, "decision.model is missing; decision.enabled needs a laya_systemone model")
    elif entry is None:
        yield Problem(at, f"decision.model names {show_key((name,))}, but there is no such entry in [models]")
    elif not isinstance(entry, DecisionModel):
        yield Problem(at, "decision.model must name a laya_systemone model")
    for model_id, observer in settings.models.items():
        foreground = [other for other, chat in settings.models.items() if isinstance(chat, ChatModel)]
        if isinstance(observer, DecisionModel):
            for other in foreground:
                if settings.capacity_id(other) == settings.capacity_id(model_id):
                    where = ("models", model_id, "capacity_id")
                    yield Problem(
                        where, f"{show_key(where)} is that of models.{other}; an observer never takes a model's slots"
                    )


def _money(settings: Settings) -> Iterator[Problem]:
    harness = settings.harness
    for path, currency in (
        (("harness", "currency"), harness.currency),
        *(
            (("models", i, "price_currency"), e.price_currency)
            for i, e in settings.models.items()
            if isinstance(e, ChatModel)
        ),
    ):
        if currency and not _CURRENCY.fullmatch(currency):
            yield Problem(path, f"{show_key(path)} must be a three-letter code such as EUR")
    for model_id, entry in settings.models.items():
        if isinstance(entry, ChatModel) and not entry.price_currency:
            for field in ("input_price_microunits", "output_price_microunits"):
                if getattr(entry, field):
                    at = ("models", model_id, field)
                    yield Problem(at, f"{show_key(at)} needs price_currency")
    if not harness.max_cost_microunits:
        return
    if not harness.currency:
        yield Problem(("harness", "currency"), "harness.currency is missing; harness.max_cost_microunits needs it")
    model = settings.models.get(settings.agent.model)
    if isinstance(model, ChatModel) and model.price_currency != harness.currency:
        at = ("models", settings.agent.model, "price_currency")
        yield Problem(at, f"{show_key(at)} must equal harness.currency, or the money limit cannot be counted")


def _environment(settings: Settings) -> Iterator[Problem]:
    shell, at = settings.tools.shell, ("tools", "shell")
    keys = {entry.api_key_env for entry in settings.models.values()}
    for field, names in (
        ("inherit_env", shell.inherit_env),
        ("env", tuple(shell.env)),
        ("credentials", tuple(shell.credentials)),
    ):
        for name in names:
            path = (*at, field)
            shown = show_key((name,))
            if not ENV_NAME.fullmatch(name):
                yield Problem(path, f"{show_key(path)}: {shown} is not the name of a variable")
            elif name in keys or is_reserved_variable(name):
                yield Problem(
                    path,
                    f"{show_key(path)}: {name} is reserved; it could carry a credential or change what is started",
                )
    for name, value in shell.env.items():
        if is_secret_name(name) and value:
            yield Problem(
                (*at, "env", name),
                f"tools.shell.env: {show_key((name,))} names a secret; only plain values belong here",
            )
        elif name == "PATH" and any(not part.startswith("/") for part in value.split(":")):
            yield Problem((*at, "env", name), "tools.shell.env: PATH may hold absolute folders only")
        elif "\0" in value:
            yield Problem((*at, "env", name), f"tools.shell.env: {show_key((name,))} contains a NUL character")
        elif value.startswith((CREDENTIAL_MARK, INHERITED_MARK)):
            yield Problem(
                (*at, "env", name),
                f"tools.shell.env: {show_key((name,))} is written like a reference; references belong in "
                "tools.shell.credentials and names to inherit in tools.shell.inherit_env",
            )
    yield from _credentials(settings)


def _credentials(settings: Settings) -> Iterator[Problem]:
    shell = settings.tools.shell
    for name, reference in shell.credentials.items():
        path = ("tools", "shell", "credentials", name)
        if not _CREDENTIAL_REF.fullmatch(reference):
            yield Problem(path, f"{show_key(path)} must be the name of an entry in auth.toml, never the secret itself")
        for field, others in (("env", tuple(shell.env)), ("inherit_env", shell.inherit_env)):
            if name in others:
                yield Problem(path, f"{show_key(path)} is in tools.shell.{field} too; a variable has one source")


def is_reserved_variable(name: str) -> bool:
    """True for variables that load code into programs, reach an agent's socket or hold a provider's key."""
    return name not in _HARMLESS and (name in _RESERVED or name.startswith(_RESERVED_PREFIXES))


def _commands(settings: Settings) -> Iterator[Problem]:
    for index, argv in enumerate(settings.verification.commands):
        path = ("verification", "commands", index)
        if not argv or not argv[0]:
            yield Problem(path, f"{show_key(path)} is empty; give a program and its arguments")
        elif any("\0" in part for part in argv):
            yield Problem(path, f"{show_key(path)} contains a NUL character")
    for index, grant in enumerate(settings.policy.grants):
        yield from _grant(("policy", "grants", index), grant)


def _grant(path: tuple[str | int, ...], grant: StandingGrant) -> Iterator[Problem]:
    if bool(grant.argv) == bool(grant.script):
        yield Problem(path, f"{show_key(path)} needs either argv or script")
    if any("\0" in part for part in (*grant.argv, grant.script, grant.cwd)) or (grant.argv and not grant.argv[0]):
        yield Problem(path, f"{show_key(path)} is not a command that can be started")
    if not grant.cwd or grant.cwd.startswith("/") or ".." in grant.cwd.split("/"):
        yield Problem((*path, "cwd"), f"{show_key((*path, 'cwd'))} must be a folder inside the workspace, such as .")
