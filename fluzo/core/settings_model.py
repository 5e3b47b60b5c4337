"""The typed tree of every persistent setting: names, types, units, defaults, ranges and their one-line meaning.

Invariant: this is the only place where a setting is defined. The registry, the generated document, the
configuration reference, the wizard and the screens read it from here. Every value is concrete (no null, because
TOML has none): zero or an empty text stands for "off", and its description says so.

Sources: PRD 27, 29.3.1, 43.1 and 43.3; architecture 10.1. The trees are frozen; a change makes a new tree.
"""

from typing import Annotated, Any, ClassVar, Literal

from fluzo.core.checked import REQUIRED, Checked, Tagged, bounds, field

Privacy = Literal["public", "private", "secret_reference"]
"""`private` values may reveal infrastructure; a `secret_reference` names a secret and never holds one."""

Apply = Literal["live", "next_task", "explicit", "restart"]
"""When a saved value takes effect. `explicit`: running work keeps its value until the user applies the new one."""

LOCAL_POOL = "local_server"

# A TOML reader returns lists; everything else has exactly the type that is declared.
Texts = Annotated[tuple[str, ...], bounds(strict=False)]
Commands = Annotated[tuple[Texts, ...], bounds(strict=False)]


class Node(Checked):
    """A TOML table."""

    strict: ClassVar[bool] = True
    title: ClassVar[str] = ""


def setting(
    default: Any,
    description: str,
    *,
    unit: str = "",
    privacy: Privacy = "public",
    apply: Apply = "next_task",
    ge: float | None = None,
    le: float | None = None,
) -> Any:
    """A field with its registry metadata."""
    return field(default, description, notes={"unit": unit, "privacy": privacy, "apply": apply}, ge=ge, le=le)


def table(kind: type[Node]) -> Any:
    return field(factory=kind.of_defaults)


class Project(Node):
    title: ClassVar[str] = "What this folder is called in lists and titles."
    name: str = setting("", "Name shown in lists; empty uses the folder's name", apply="live")


class Agent(Node):
    title: ClassVar[str] = "Who does the work."
    runtime: Literal["native"] = setting("native", "Agent implementation")
    model: str = setting("", "Entry of [models] that the agent uses; empty means no model is set up yet")


class Compat(Node):
    title: ClassVar[str] = "What this server understands; `fluzo init --probe` finds out."
    stream: bool = setting(True, "Ask for streamed replies")
    usage_in_stream: bool = setting(True, "Send stream_options so that a streamed reply ends with its token counts")
    parallel_tool_calls: bool | Literal["omit"] = setting("omit", "Value of parallel_tool_calls; omit leaves it out")
    output_limit_parameter: Literal["max_tokens", "max_completion_tokens", "omit"] = setting(
        "max_tokens", "Name under which the output limit is sent; omit sends none"
    )
    tool_call_ids: Literal["any", "mistral"] = setting(
        "any", "Form of the ids of tool calls: any up to 40 characters, or mistral for exactly 9 letters and digits"
    )
    send_reasoning: bool = setting(False, "Send earlier reasoning text back to the model")
    reasoning_field: Literal["reasoning_content", "reasoning"] = setting(
        "reasoning_content", "Field in which reasoning text is sent back; it is read from either"
    )
    text_tool_calls: bool = setting(False, "Read tool calls written as text, for models without native tool calls")
    stops_on_disconnect: bool = setting(
        False,
        "The server is known to stop working on a reply when its connection closes, so that a cancelled or timed-out "
        "request frees its slot at once",
    )


class ModelEntry(Node):
    auth: Literal["none", "env", "credential"] = setting(
        "none",
        "How requests are authenticated: not at all, by an environment variable, by an entry of auth.toml",
        apply="explicit",
    )
    api_key_env: str = setting(
        "",
        'Name of the environment variable that holds the key (auth = "env")',
        privacy="secret_reference",
        apply="explicit",
    )
    credential_ref: str = setting(
        "",
        'Name of the entry in the user\'s auth.toml (auth = "credential")',
        privacy="secret_reference",
        apply="explicit",
    )
    allow_insecure_http: bool = setting(
        False,
        "Accept plain http to an address outside this machine: prompts and keys travel unencrypted",
        apply="explicit",
    )
    capacity_id: str = setting(
        "", "Name of the served model behind this entry; aliases share it; empty uses the entry's own name"
    )
    pool: str = setting(LOCAL_POOL, "Entry of [capacity_pools] that this model's requests count against")
    max_in_flight: int = setting(
        1, "Requests of this process to the model at the same time", unit="requests", apply="explicit", ge=1, le=1024
    )
    connect_timeout_seconds: float = setting(
        10, "Longest wait for a connection", unit="seconds", apply="explicit", ge=0.1, le=3600
    )


class ChatModel(ModelEntry):
    title: ClassVar[str] = "A model behind an OpenAI-compatible Chat Completions server."
    provider: Literal["openai_compatible"] = setting(REQUIRED, "Kind of server behind the entry")
    base_url: str = setting(
        REQUIRED,
        "Address of an openai_compatible server with its version, for example http://127.0.0.1:8080/v1",
        privacy="private",
        apply="explicit",
    )
    model: str = setting(REQUIRED, "Model name sent to the server", privacy="private")
    context_window: int = setting(
        32768, "Context window of the model as it is served", unit="tokens", apply="explicit", ge=1024, le=100_000_000
    )
    max_output_tokens: int = setting(
        4096,
        "Longest reply asked for, and reserved in the window",
        unit="tokens",
        apply="explicit",
        ge=1,
        le=10_000_000,
    )
    first_output_timeout_seconds: float = setting(
        90, "Longest wait for the first output", unit="seconds", apply="explicit", ge=0.1, le=86400
    )
    idle_stream_timeout_seconds: float = setting(
        30, "Longest silence within a streamed reply", unit="seconds", apply="explicit", ge=0.1, le=86400
    )
    request_timeout_seconds: float = setting(
        180, "Longest whole request", unit="seconds", apply="explicit", ge=0.1, le=86400
    )
    price_currency: str = setting("", "Currency of the two prices, for example EUR; empty means no price data")
    input_price_microunits: int = setting(
        0, "Price of a million input tokens", unit="microunits", ge=0, le=1_000_000_000_000
    )
    output_price_microunits: int = setting(
        0, "Price of a million output tokens", unit="microunits", ge=0, le=1_000_000_000_000
    )
    compat: Compat = table(Compat)


class DecisionModel(ModelEntry):
    title: ClassVar[str] = "A Laya decision service, used for observations only."
    provider: Literal["laya_systemone"] = setting(REQUIRED, "Kind of server behind the entry")
    endpoint: str = setting(
        REQUIRED,
        "Whole address of a laya_systemone service, ending in /v1/systemone",
        privacy="private",
        apply="explicit",
    )


class CapacityPool(Node):
    title: ClassVar[str] = "How many requests this process sends to one server at the same time."
    max_in_flight: int = setting(
        1, "Requests of this process to the pool at the same time", unit="requests", apply="explicit", ge=1, le=1024
    )
    foreground_reserved_slots: int = setting(
        1, "Slots that observations never take", unit="slots", apply="explicit", ge=1, le=1024
    )
    queue_capacity: int = setting(8, "Requests that may wait", unit="requests", apply="explicit", ge=0, le=10_000)
    queue_timeout_seconds: float = setting(
        30, "Longest wait for a slot", unit="seconds", apply="explicit", ge=0.1, le=86400
    )


class DecisionSettings(Node):
    title: ClassVar[str] = "Optional observer: it records recommendations and never acts."
    enabled: bool = setting(False, "Send decision points to the observer", apply="explicit")
    mode: Literal["shadow"] = setting("shadow", "Observation only; nothing waits for it or follows it")
    model: str = setting("", "Entry of [models] that observes; needed when enabled")
    timeout_seconds: float = setting(
        5, "Longest whole observation; never retried", unit="seconds", apply="explicit", ge=0.1, le=3600
    )
    max_observations_per_task: int = setting(30, "Observations sent per task", unit="requests", ge=1, le=100_000)
    failure_pause_threshold: int = setting(
        3, "Failures in a row after which the observer pauses", unit="failures", ge=1, le=1000
    )


class HarnessSettings(Node):
    title: ClassVar[str] = "Limits of one task. Reaching one stops the task; only you can extend it."
    max_turns: int = setting(30, "Model replies per task", unit="turns", apply="explicit", ge=1, le=100_000)
    max_active_seconds: int = setting(
        1200,
        "Working time per task; waiting for you does not count",
        unit="seconds",
        apply="explicit",
        ge=1,
        le=2_592_000,
    )
    shell_timeout_seconds: int = setting(
        120, "Longest run of one command", unit="seconds", apply="explicit", ge=1, le=604_800
    )
    provider_retries: int = setting(
        2, "Further attempts after a passing failure of one request", unit="attempts", apply="explicit", ge=0, le=10
    )
    max_tool_calls: int = setting(
        100, "Tool calls per task, verification included", unit="calls", apply="explicit", ge=1, le=1_000_000
    )
    max_total_tokens: int = setting(
        200_000, "Input and output tokens per task", unit="tokens", apply="explicit", ge=1024, le=1_000_000_000_000
    )
    max_cost_microunits: int = setting(
        0,
        "Money per task in millionths of the currency; 0 is off",
        unit="microunits",
        apply="explicit",
        ge=0,
        le=10**15,
    )
    currency: str = setting("", "Currency of the money limit, for example EUR")
    same_call_limit: int = setting(
        3, "Same call with the same result before it counts as a loop; 0 is off", unit="calls", ge=0, le=1000
    )
    same_failure_limit: int = setting(
        4, "Same failure of a command before it counts as a loop; 0 is off", unit="failures", ge=0, le=1000
    )


class ShellSettings(Node):
    title: ClassVar[str] = "What a started command gets. Its environment is built, never copied."
    stdin: Literal["closed"] = setting("closed", "Commands never read from the terminal")
    termination_grace_seconds: float = setting(
        5, "Time between asking a command to end and forcing it", unit="seconds", apply="explicit", ge=0, le=600
    )
    inherit_env: Texts = setting((), "Names of further variables passed on from your environment", privacy="private")
    env: dict[str, str] = field(
        description="Further variables with plain, non-secret values",
        factory=dict,
        notes={"unit": "", "privacy": "private", "apply": "next_task"},
    )
    credentials: dict[str, str] = field(
        description="Further variables with secret values, each with the name of its entry in the user's auth.toml",
        factory=dict,
        notes={"unit": "", "privacy": "secret_reference", "apply": "next_task"},
    )


class ToolSettings(Node):
    shell: ShellSettings = table(ShellSettings)


class StandingGrant(Node):
    title: ClassVar[str] = "A command that runs without asking, exactly as written; it needs your consent."
    argv: Texts = setting((), "Program and arguments, exactly")
    script: str = setting("", "Shell script text, exactly; instead of argv")
    cwd: str = setting(".", "Folder it runs in, relative to the workspace")


Grants = Annotated[tuple[StandingGrant, ...], bounds(strict=False)]


class PolicySettings(Node):
    title: ClassVar[str] = "What the agent may do. `deny` always wins; nothing here can allow commands unasked."
    edit: Literal["allow", "ask", "deny"] = setting(
        "allow", "Edits of workspace files; files you had changed before always ask"
    )
    shell: Literal["ask", "deny"] = setting("ask", "Commands")
    tool_network: Literal["deny"] = setting("deny", "Network access by tools; not a firewall for started commands")
    git_commit: Literal["ask", "deny"] = setting("ask", "Commits")
    git_push: Literal["ask", "deny"] = setting("ask", "Pushes")
    grants: Grants = setting((), "Commands that run without asking; each needs your consent (fluzo config trust)")


class VerificationSettings(Node):
    title: ClassVar[str] = "Commands that must pass before a task counts as completed."
    commands: Commands = setting(
        (), "Argument vectors, run in order in the workspace; an empty list declares no contract", apply="next_task"
    )


class ContextSettings(Node):
    title: ClassVar[str] = "How much the model is shown."
    compaction_threshold: float = setting(
        0.8, "Share of the input capacity at which the conversation is summarized", unit="fraction", ge=0.1, le=1
    )
    compaction_max_output_tokens: int = setting(
        2048, "Longest summary", unit="tokens", apply="explicit", ge=64, le=10_000_000
    )
    safety_reserve_tokens: int = setting(
        1024, "Input tokens kept free; the greater of the two reserves counts", unit="tokens", ge=0, le=10_000_000
    )
    safety_reserve_fraction: float = setting(
        0.05, "Share of the window kept free; the greater of the two reserves counts", unit="fraction", ge=0, le=0.5
    )
    tool_context_max_bytes: int = setting(
        65_536, "Largest tool result shown to the model", unit="bytes", ge=1024, le=16_777_216
    )
    tool_capture_max_bytes: int = setting(
        2_097_152, "Largest output kept of one tool call", unit="bytes", ge=1024, le=1_073_741_824
    )
    instruction_files: Texts = setting(
        ("AGENTS.md",), "Names of instruction files, at the root and in folders; CLAUDE.md only when named here"
    )
    skills: Texts = setting((), "Skill files of the workspace that every task is given")


class StorageSettings(Node):
    title: ClassVar[str] = "The history in .fluzodrive. Nothing is deleted unless you ask."
    auto_expire: Literal[False] = setting(False, "History is kept until you delete it")
    session_max_bytes: int = setting(
        10_737_418_240, "Sessions and artifacts; at the limit new work waits", unit="bytes", ge=1_048_576, le=2**50
    )
    diagnostic_max_bytes: int = setting(
        2_147_483_648, "Local diagnostics; at the limit new ones are dropped", unit="bytes", ge=0, le=2**50
    )
    min_free_bytes: int = setting(1_073_741_824, "Free disk space to leave", unit="bytes", ge=0, le=2**50)


class TelemetrySettings(Node):
    title: ClassVar[str] = "Export to a collector of yours. Off unless you turn it on."
    export_enabled: bool = setting(False, "Send traces, metrics and logs to the collector", apply="restart")
    otlp_protocol: Literal["http/protobuf"] = setting("http/protobuf", "Protocol of the export", apply="restart")
    otlp_endpoint: str = setting(
        "http://127.0.0.1:4318", "Address of the collector", privacy="private", apply="restart"
    )
    capture_content: bool = setting(False, "Include prompts, replies and tool text in the export", apply="restart")


class Notifications(Node):
    title: ClassVar[str] = "Notices in the corner of the screen."
    desktop_enabled: bool = setting(False, "Also tell the desktop when a task needs you", apply="live")
    duration_seconds: int = setting(5, "How long a notice stays", unit="seconds", apply="live", ge=1, le=30)
    max_visible: int = setting(3, "Notices shown at the same time", unit="notices", apply="live", ge=1, le=5)


class TuiFlags(Node):
    title: ClassVar[str] = "Developer switches of the screen; they change nothing but the picture."
    render_diagnostics: bool = setting(False, "Show redraw counts and frame times", apply="live")


class TuiSettings(Node):
    title: ClassVar[str] = "The full screen."
    theme: Literal["default", "high-contrast"] = setting("default", "Colours", apply="live")
    animation_fps: int = setting(
        60, "Upper bound of the logo's motion; 0 is still", unit="frames per second", apply="live", ge=0, le=60
    )
    reduced_motion: bool = setting(False, "No motion at all", apply="live")
    dev_menu: bool = setting(False, "Offer the developer menu", apply="live")
    notifications: Notifications = table(Notifications)
    flags: TuiFlags = table(TuiFlags)


AnyModel = Annotated[ChatModel | DecisionModel, Tagged("provider")]


class Settings(Node):
    """The whole configuration of one workspace, validated; values are effective (defaults filled in)."""

    schema_version: Literal[1] = setting(REQUIRED, "Version of this file's format", apply="restart")
    project: Project = table(Project)
    agent: Agent = table(Agent)
    models: dict[str, AnyModel] = field(factory=dict)
    capacity_pools: dict[str, CapacityPool] = field(factory=lambda: {LOCAL_POOL: CapacityPool.of_defaults()})
    decision: DecisionSettings = table(DecisionSettings)
    verification: VerificationSettings = table(VerificationSettings)
    harness: HarnessSettings = table(HarnessSettings)
    tools: ToolSettings = table(ToolSettings)
    policy: PolicySettings = table(PolicySettings)
    context: ContextSettings = table(ContextSettings)
    storage: StorageSettings = table(StorageSettings)
    telemetry: TelemetrySettings = table(TelemetrySettings)
    tui: TuiSettings = table(TuiSettings)

    def capacity_id(self, model_id: str) -> str:
        """Identity under which the entry's requests are counted; aliases of one served model share it."""
        return self.models[model_id].capacity_id or model_id
