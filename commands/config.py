"""`fluzo config`: show, change, check and trust the settings of this folder.

Invariant: a change is validated as a whole before it is saved, and saving never records consent; `trust` does that,
after showing what it covers.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from fluzo import setup_services as setup
from fluzo.core.errors import Cancelled, ConfigError, StorageError, UsageError
from fluzo.core.redact import make_redactor, printable
from fluzo.core.settings import ChatModel, Settings, describe, get_value, parse_value, render, values_of
from fluzo.core.settings_schema import json_schema

from .lazy import LookingGroup
from .options import global_options


class ShowingGroup(LookingGroup):
    looks = "show"


app = typer.Typer(
    cls=ShowingGroup,
    help="Show and change the settings of this folder, and consent to them.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="\b\nExamples:\n  fluzo config show\n  fluzo config set harness.max_turns 50\n  fluzo config trust --show\n",
)

_Output = Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="Form of the output.")]
_Key = Annotated[str, typer.Argument(metavar="KEY", help="For example harness.max_turns or models.coder.base_url.")]


def _place(ctx: typer.Context) -> tuple[Path, Path]:
    options = global_options(ctx)
    root = setup.workspace_root(options.workspace)
    return root, setup.settings_path(root, options.config)


def _wants_json(output: str) -> bool:
    if output not in ("text", "json"):
        raise UsageError("--output is text or json.")
    return output == "json"


def _say(text: str) -> None:
    """Text for a person: nothing in it acts on the terminal, and what looks like a secret is masked."""
    print(printable(make_redactor()(text)))


@app.command(
    epilog="\b\nExamples:\n  fluzo config show\n  fluzo --set harness.max_turns=5 config show --effective -o json"
)
def show(
    ctx: typer.Context,
    *,
    effective: Annotated[
        bool, typer.Option("--effective", help="Every value in force and where it comes from, not only the file's.")
    ] = False,
    output: _Output = "text",
) -> None:
    """Show the settings of the file, or all in force with their sources."""
    _, path = _place(ctx)
    as_json = _wants_json(output)
    loaded = setup.load_settings(path, global_options(ctx).sets)
    rows = [row for row in loaded.effective() if effective or row.source == "file"]
    if as_json:
        listed = [{"key": row.key, "value": row.value, "source": row.source} for row in rows]
        print(json.dumps({"schema_version": 1, "type": "settings", "path": str(path), "settings": listed}))
        return
    width = max((len(row.key) for row in rows), default=0)
    for row in rows:
        source = f"   ({row.source})" if effective else ""
        _say(f"{row.key.ljust(width)} = {render(row.value)}{source}")


@app.command(epilog="\b\nExample:\n  fluzo config get models.coder.base_url")
def get(ctx: typer.Context, key: _Key, output: _Output = "text") -> None:
    """Print one value in force."""
    _, path = _place(ctx)
    as_json = _wants_json(output)
    value = get_value(setup.load_settings(path, global_options(ctx).sets).settings, key)
    if as_json:
        print(json.dumps({"schema_version": 1, "type": "setting", "key": key, "value": value}))
    else:
        _say(value if isinstance(value, str) else render(value))


@app.command(
    "set",
    epilog="\b\nExamples:\n  fluzo config set harness.max_turns 50\n"
    '  fluzo config set verification.commands \'[["cargo", "test"]]\'\n'
    "  fluzo config set models.coder.context_window 8192 models.coder.max_output_tokens 2048",
)
def set_(
    ctx: typer.Context,
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY VALUE", help="Text as it is; lists and tables as in TOML. Pairs are saved together."
        ),
    ],
) -> None:
    """Change one setting in the file, or several at once. Comments and everything else stay."""
    root, path = _place(ctx)
    if len(pairs) % 2:
        raise UsageError(
            "config set takes a value for every key.", hint="For example: fluzo config set tui.dev_menu true"
        )
    edits = {key: parse_value(key, value) for key, value in zip(pairs[::2], pairs[1::2], strict=True)}
    loaded = setup.load_settings(path)
    setup.save_settings(loaded.file, edits)
    for key, value in edits.items():
        _say(f"{key} = {render(value)}   saved in {path}{_when(key)}")
    _mention_consent(root, path)


def _when(key: str) -> str:
    return {
        "live": "",
        "next_task": "; it counts from the next task on",
        "explicit": "; running work keeps the old value, the next task gets the new one",
        "restart": "; it counts after a restart",
    }[describe(key).apply]


def _mention_consent(root: Path, path: Path) -> None:
    try:
        names = setup.missing_consent(setup.load_settings(path).settings, root)
    except StorageError as exc:
        print(f"Note: {printable(exc.message)}", file=sys.stderr)  # The settings are saved all the same.
        return
    if names:
        print(f"Note: this needs your consent now ({', '.join(names)}): fluzo config trust", file=sys.stderr)


@app.command(epilog="\b\nExample:\n  fluzo config edit")
def edit(ctx: typer.Context) -> None:
    """Change settings in a form: pick one, answer, save all at once."""
    root, path = _place(ctx)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The form needs a terminal.", hint="Without one: fluzo config set KEY VALUE")
    try:
        loaded = setup.load_settings(path)
    except ConfigError as exc:
        if exc.code == "configuration_invalid":
            exc.hint = "The form opens valid settings only. Repair the file in an editor, or write it anew: fluzo init"
        raise

    from . import prompts

    try:
        saved = _edit(loaded, prompts)
    except (KeyboardInterrupt, EOFError) as exc:
        raise Cancelled("You left the form; nothing was saved.") from exc
    if not saved:
        raise Cancelled("Nothing was saved.")
    _say(f"Saved in {path}.")
    _mention_consent(root, path)


def _edit(loaded: setup.LoadedSettings, prompts: ModuleType) -> bool:
    """The form until its changes are saved or given up. What cannot be saved is told, and can be corrected."""
    values = values_of(loaded.settings)
    edits: dict[str, object] = {}
    while True:
        edits = prompts.edit_settings(values, list(values), edits)
        for key, value in edits.items():
            prompts.say(f"  {key}: {render(values[key])} -> {render(value)}")
        if not edits or not prompts.ask_yes(f"Save to {loaded.file.path}?", default=True):
            return False
        try:
            _save(loaded, edits, prompts)
            return True
        except ConfigError as exc:
            prompts.say(exc.message)


def _save(loaded: setup.LoadedSettings, edits: Mapping[str, object], prompts: ModuleType) -> None:
    try:
        setup.save_settings(loaded.file, edits)
    except ConfigError as exc:
        if exc.code != "configuration_conflict":
            raise
        prompts.say(exc.message)
        if not prompts.ask_yes("Put your changes on top of the file as it is now?", default=False):
            raise
        setup.save_settings(loaded.file, edits, rebase=True)


@app.command(epilog="\b\nExample:\n  fluzo config schema > fluzo.schema.json")
def schema() -> None:
    """Print the JSON Schema of the settings file."""
    print(json.dumps(json_schema(), indent=2))


@app.command(epilog='\b\nExample:\n  $EDITOR "$(fluzo config path)"')
def path(ctx: typer.Context) -> None:
    """Print where the settings file is, or would be."""
    print(_place(ctx)[1])


@app.command(
    short_help="See what the settings contact and run, and consent to it.",
    epilog="\b\nExamples:\n  fluzo config trust --show\n  fluzo config trust --yes",
)
def trust(
    ctx: typer.Context,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Consent without a question; for scripts.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Forget every consent for this folder.")] = False,
    show_only: Annotated[
        bool, typer.Option("--show", help="Only show what consent covers and what is missing.")
    ] = False,
) -> None:
    """Consent to what the settings would contact and run: endpoints, checks, grants, environment."""
    root, path = _place(ctx)
    if revoke:
        names = setup.revoke_consent(root)
        _say(f"Forgot your consent for {root}: {', '.join(names)}." if names else f"There was no consent for {root}.")
        return
    settings = setup.load_settings(path, global_options(ctx).sets).settings
    missing = setup.missing_consent(settings, root)
    covered = covers(settings)
    _say(f"Consent for {root} covers:" if covered else f"The settings of {root} need no consent.")
    for name, lines in covered.items():
        _say(f"  {name}: {'missing' if name in missing else 'given'}")
        for line in lines:
            _say(f"      {line}")
    if show_only or not missing:
        return
    if not yes and not _agreed():
        raise Cancelled("No consent was recorded.")
    setup.record_consent(settings, root)
    _say(f"Recorded your consent: {', '.join(missing)}.")


def _agreed() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "Consent needs your answer, and there is no terminal to ask on; nothing was recorded.",
            code="confirmation_required",
            hint="Look at it with: fluzo config trust --show\nThen consent with: fluzo config trust --yes",
        )
    return typer.confirm("Do you consent to all of this?", default=False)


def covers(settings: Settings) -> Mapping[str, list[str]]:
    """What each named consent covers, in lines for a person; the names are those of `consent_fingerprints`."""
    found: dict[str, list[str]] = {}
    for name, entry in settings.models.items():
        address = entry.base_url if isinstance(entry, ChatModel) else entry.endpoint
        keys = {"none": "without a key", "env": f"with the key in ${entry.api_key_env}"}
        found[f"endpoint:{name}"] = [f"{address} {keys.get(entry.auth, f'with the credential {entry.credential_ref}')}"]
    if settings.verification.commands:
        found["verification"] = [render(argv) for argv in settings.verification.commands]
    if settings.policy.grants:
        found["grants"] = [f"{render(grant.argv or grant.script)} in {grant.cwd}" for grant in settings.policy.grants]
    shell = settings.tools.shell
    if shell.env or shell.inherit_env or shell.credentials:
        found["environment"] = [f"{key} = {render(value)}" for key, value in shell.env.items()]
        found["environment"] += [f"{name} from your environment" for name in shell.inherit_env]
        found["environment"] += [f"{name} from the credential {ref}" for name, ref in shell.credentials.items()]
    if settings.telemetry.export_enabled:
        content = "with prompts and replies" if settings.telemetry.capture_content else "without content"
        found["export"] = [f"{settings.telemetry.otlp_endpoint}, {content}"]
    return found
