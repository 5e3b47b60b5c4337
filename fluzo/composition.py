"""The choice of implementations: from effective settings to the services that the runtime works with.

Second half of the composition root (`fluzo.host` opens and closes). Nothing here opens, contacts or writes anything.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fluzo.core.contracts import ContextProvider
from fluzo.core.errors import ConfigError, StorageError
from fluzo.core.redact import GrowingRedactor, Redactor

if TYPE_CHECKING:
    import asyncio

    from fluzo.context.window import WindowRules
    from fluzo.core.settings import ChatModel, Settings
    from fluzo.models.endpoint import ModelEndpoint
    from fluzo.models.gateway import Gateway
    from fluzo.runtime.feed import Feed
    from fluzo.runtime.services import Services, TaskDefaults
    from fluzo.storage.journal import Journal
    from fluzo.storage.settings_file import LoadedSettings
    from fluzo.workspace.git import Git
    from fluzo.workspace.identity import Root


def new_id(prefix: str) -> str:
    """A short opaque id such as `t_8f2c31d0a9`; unique in practice, checked by the store."""
    return f"{prefix}_{secrets.token_hex(5)}"


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def services(
    root: "Root",
    loaded: "LoadedSettings",
    journal: "Journal",
    feed: "Feed",
    announce: Callable[[str], None],
    before: "Services | None" = None,
    git: "Git | None" = None,
) -> "Services":
    """The services of these settings; with those `before` them, their slots, connections and known secrets go on.

    A `git` that is at hand saves every task reading Git's configuration again.
    """
    from fluzo.context.sources import RootInstructions, Skills, WorkspaceFacts, instructions
    from fluzo.core.settings import main_model
    from fluzo.policy.engine import PolicyRules, RulePolicy
    from fluzo.runtime.agent import NativeAgent
    from fluzo.runtime.elsewhere import Elsewhere
    from fluzo.runtime.router import FixedRouter
    from fluzo.runtime.services import Services
    from fluzo.runtime.workspace import TaskWorkspace, file_names, folder_facts, observe, working_tree
    from fluzo.storage import consent
    from fluzo.tools.registry import Registry, build_tools
    from fluzo.tools.shared import SeenFiles, ToolLimits
    from fluzo.workspace.environment import child_env

    settings = loaded.settings
    model_id, model = main_model(settings)
    defaults = _defaults(settings, model)
    redact = GrowingRedactor()
    if before is not None and isinstance(before.redact, GrowingRedactor):
        redact = before.redact
    redact.learn(_secrets(settings))

    def require_consent() -> None:
        missing = missing_consent(root, settings)
        if missing:
            raise ConfigError(
                f"This workspace's settings need your consent first: {', '.join(missing)}.",
                code="consent_required",
                hint="See what they cover and agree: fluzo config trust",
                detail={"missing": missing},
            )

    async def open_workspace(cancel: "asyncio.Event") -> TaskWorkspace:
        shell = settings.tools.shell
        return await TaskWorkspace.open(
            root,
            protected=(consent.folder(),),
            env=child_env(os.environ, shell.env, shell.inherit_env),
            grace_seconds=shell.termination_grace_seconds,
            cancel=cancel,
            resolve=_resolver(settings, redact),
            repository=git,
        )

    def context(
        workspace: TaskWorkspace, checks: tuple[str, ...], skills: tuple[str, ...]
    ) -> tuple[ContextProvider, ...]:
        found = workspace.baseline
        name = settings.project.name or root.path.name
        facts = WorkspaceFacts(name, found.branch, found.head, tuple(sorted(found.user_changed)), checks)
        chosen = Skills((*settings.context.skills, *skills))
        return (facts, RootInstructions(settings.context.instruction_files), chosen)

    def make_tools() -> Registry:
        limits = ToolLimits(
            context_bytes=_result_bytes(settings, defaults.window),
            capture_bytes=settings.context.tool_capture_max_bytes,
            shell_timeout_seconds=settings.harness.shell_timeout_seconds,
        )
        return Registry(build_tools(SeenFiles(), limits, defaults.shell_env, str(root.path)))

    return Services(
        storage=journal,
        feed=feed,
        project_id=journal.project().id,
        root=str(root.path),
        workspace_identity=root.identity,
        open_workspace=open_workspace,
        observe=lambda paths: observe(root, paths),
        file_names=lambda limit: file_names(root, limit),
        folder_facts=lambda: folder_facts(root, settings.context.instruction_files),
        working_tree=lambda: working_tree(root),
        elsewhere=Elsewhere(root.identity),
        make_tools=make_tools,
        gateway=_gateway(settings, redact, before),
        policy=RulePolicy(
            PolicyRules(
                edit=settings.policy.edit,
                shell=settings.policy.shell,
                git_commit=settings.policy.git_commit,
                git_push=settings.policy.git_push,
            )
        ),
        agent=NativeAgent(),
        router=FixedRouter(settings.agent.runtime, model_id),
        instructions=instructions(),
        context=context,
        defaults=defaults,
        require_consent=require_consent,
        redact=redact,
        announce=announce,
        new_id=new_id,
        new_trace_id=lambda: secrets.token_hex(16),
        now=utc_now,
        clock=time.monotonic,
    )


def missing_consent(root: "Root", settings: "Settings") -> list[str]:
    """What of these settings the user has not consented to in this workspace. Raises StorageError."""
    from fluzo.core.settings import consent_fingerprints
    from fluzo.storage import consent

    return consent.missing(root.identity, consent_fingerprints(settings, root.identity))


def _defaults(settings: "Settings", model: "ChatModel") -> "TaskDefaults":
    from fluzo.core.records import Limits
    from fluzo.core.settings import injected_environment
    from fluzo.runtime.budget import Prices
    from fluzo.runtime.services import TaskDefaults
    from fluzo.runtime.worklog import LoopLimits

    harness = settings.harness
    limits = Limits(
        max_turns=harness.max_turns,
        max_tool_calls=harness.max_tool_calls,
        max_active_seconds=harness.max_active_seconds,
        max_total_tokens=harness.max_total_tokens,
        max_cost_microunits=harness.max_cost_microunits,
    )
    return TaskDefaults(
        limits=limits,
        verification=settings.verification.commands,
        shell_env=injected_environment(settings),
        standing_grants=tuple(dict(vars(grant)) for grant in settings.policy.grants),
        window=window_rules(settings, model),
        summary_tokens=settings.context.compaction_max_output_tokens,
        prices=Prices(model.input_price_microunits, model.output_price_microunits),
        loops=LoopLimits(harness.same_call_limit, harness.same_failure_limit),
        instruction_files=settings.context.instruction_files,
        config={"model": model.model, "agent": settings.agent.runtime, "harness": dict(vars(harness))},
    )


def window_rules(settings: "Settings", model: "ChatModel") -> "WindowRules":
    from fluzo.context.window import WindowRules

    context = settings.context
    return WindowRules(
        model.context_window,
        model.max_output_tokens,
        context.safety_reserve_tokens,
        context.safety_reserve_fraction,
        context.compaction_threshold,
    )


def _result_bytes(settings: "Settings", rules: "WindowRules") -> int:
    """Bytes of one tool result for the model: the setting, and never more than a quarter of the usable window."""
    from fluzo.context.assemble import BYTES_PER_TOKEN
    from fluzo.context.window import Window

    quarter = int(Window(rules).available * BYTES_PER_TOKEN / 4)
    return max(1024, min(settings.context.tool_context_max_bytes, quarter))


def _gateway(settings: "Settings", redact: Redactor, before: "Services | None") -> "Gateway":
    from fluzo.core.settings import ChatModel
    from fluzo.models.admission import Admission, PoolLimits
    from fluzo.models.gateway import Gateway

    chat = {name: entry for name, entry in settings.models.items() if isinstance(entry, ChatModel)}
    endpoints = [_endpoint(name, entry) for name, entry in chat.items()]
    pools = {
        name: PoolLimits(
            pool.max_in_flight, pool.queue_capacity, pool.queue_timeout_seconds, pool.foreground_reserved_slots
        )
        for name, pool in settings.capacity_pools.items()
    }
    models = {endpoint.capacity: endpoint.max_in_flight for endpoint in endpoints}
    gateway = Gateway(
        endpoints,
        {name: _authorize(name, entry) for name, entry in chat.items()},
        Admission(models, pools),
        retries=settings.harness.provider_retries,
        redact=redact,
    )
    if before is not None:
        gateway.succeed(before.gateway, models, pools)
    return gateway


def _endpoint(name: str, entry: "ChatModel") -> "ModelEndpoint":
    from fluzo.models.endpoint import ModelEndpoint

    compat = entry.compat
    parallel = compat.parallel_tool_calls
    return ModelEndpoint(
        id=name,
        base_url=entry.base_url,
        model=entry.model,
        max_output_tokens=entry.max_output_tokens,
        context_window=entry.context_window,
        connect_timeout_seconds=entry.connect_timeout_seconds,
        first_output_timeout_seconds=entry.first_output_timeout_seconds,
        idle_stream_timeout_seconds=entry.idle_stream_timeout_seconds,
        request_timeout_seconds=entry.request_timeout_seconds,
        capacity_id=entry.capacity_id,
        pool=entry.pool,
        max_in_flight=entry.max_in_flight,
        stream=compat.stream,
        usage_in_stream=compat.usage_in_stream,
        parallel_tool_calls=parallel if isinstance(parallel, str) else str(parallel).lower(),
        output_limit_parameter=compat.output_limit_parameter,
        tool_call_ids=compat.tool_call_ids,
        send_reasoning=compat.send_reasoning,
        reasoning_field=compat.reasoning_field,
        text_tool_calls=compat.text_tool_calls,
        stops_on_disconnect=compat.stops_on_disconnect,
        allow_insecure_http=entry.allow_insecure_http,
    )


def _authorize(name: str, entry: "ChatModel") -> Callable[[], str | None]:
    """Resolves the token of one dispatch; a missing one is an error before anything is sent."""

    def token() -> str | None:
        if entry.auth == "none":
            return None
        if entry.auth == "credential":
            from fluzo.storage import consent

            return consent.credential(entry.credential_ref, entry.base_url)
        value = os.environ.get(entry.api_key_env)
        if not value:
            raise ConfigError(
                f"models.{name} takes its key from the environment variable {entry.api_key_env}, which is not set.",
                code="configuration_required",
                hint=f"Set {entry.api_key_env} and run again.",
            )
        return value

    return token


def _resolver(settings: "Settings", redact: GrowingRedactor) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Turns the marks of `injected_environment` into values, for one process that is about to start.

    Raises ConfigError when a credential is not there; then no process starts.
    """
    shell = settings.tools.shell

    def resolve(given: Mapping[str, str]) -> Mapping[str, str]:
        from fluzo.storage import consent

        secrets = {name: consent.tool_credential(ref) for name, ref in shell.credentials.items() if name in given}
        redact.learn(secrets.values())
        # Inherited variables are in the base environment; `env` wins over them, as it does there.
        inherited = {name for name in shell.inherit_env if name not in shell.env}
        return {name: value for name, value in given.items() if name not in inherited} | secrets

    return resolve


def _secrets(settings: "Settings") -> list[str]:
    """Values that must never be stored or shown: what the references of models and tools resolve to now.

    A reference that does not resolve hides nothing here; its request fails when it is dispatched.
    """
    from fluzo.core.settings import ChatModel, is_secret_name
    from fluzo.storage import consent

    found = []
    for name, entry in settings.models.items():
        if isinstance(entry, ChatModel):
            with contextlib.suppress(ConfigError, StorageError):
                found.append(_authorize(name, entry)() or "")
    shell = settings.tools.shell
    for ref in shell.credentials.values():
        with contextlib.suppress(ConfigError, StorageError):
            found.append(consent.tool_credential(ref))
    return [*found, *(os.environ.get(name, "") for name in shell.inherit_env if is_secret_name(name))]
