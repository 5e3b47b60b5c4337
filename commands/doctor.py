"""`fluzo doctor`: what this machine and this workspace have and lack, and how to repair it.

Local and read-only: no server is contacted unless `--probe` asks for it, and nothing is created or changed, except
that `--repair` gives a damaged store another name.
"""

import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from fluzo import setup_services as setup
from fluzo.core.errors import Cancelled, ConfigError, FluzoError, UsageError
from fluzo.core.paths import STORE_NAME
from fluzo.core.port import CapacityStatus, HistoryUsage, ResetCapacity
from fluzo.core.redact import make_redactor, printable
from fluzo.core.settings import ChatModel, Settings, main_model, render
from fluzo.host import HostOptions, open_host

from .opening import open_to_look
from .options import GlobalOptions, global_options
from .output import PlainOutputOption, check_form, emit_json, emit_lines, pad

Status = Literal["ok", "warn", "fail"]

_OLDEST_PYTHON = (3, 11)
_GIT_TIMEOUT_SECONDS = 10
_redact = make_redactor()

_EPILOG = """\b
Examples:
  fluzo doctor
  fluzo doctor --probe
  fluzo doctor --repair
  fluzo doctor --slots
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `hint` says how to repair it, `code` is the error code that a run would end with."""

    name: str
    status: Status
    message: str
    hint: str = ""
    code: str = ""


@app.command(epilog=_EPILOG)
def doctor(
    ctx: typer.Context,
    *,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Also contact the model server: list its models, and ask for a few tiny replies."),
    ] = False,
    slots: Annotated[
        bool, typer.Option("--slots", help="Also show how many requests may run and wait, by pool and model.")
    ] = False,
    reset_slots: Annotated[
        bool,
        typer.Option("--reset-slots", help="Free slots of the running Fluzo whose requests were given up on."),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Give a damaged store another name, so that a new one can begin.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --repair and --reset-slots: do it without asking.")] = False,
    output: PlainOutputOption = "text",
) -> int:
    """Check this machine and workspace, and say what to repair."""
    form = check_form(output)
    options = global_options(ctx)
    repaired = list(_repair(setup.workspace_root(options.workspace), yes=yes)) if repair else []
    freed = list(_reset_slots(ctx, yes=yes)) if reset_slots else []
    checks = repaired + freed + list(examine(options, probe=probe, slots=slots or reset_slots))
    if slots or reset_slots:
        checks += _guarded("slots", lambda: _slots_in_use(ctx))
    ok = all(check.status != "fail" for check in checks)
    if form == "json":
        emit_json({"schema_version": 1, "type": "doctor", "ok": ok, "checks": [asdict(check) for check in checks]})
    else:
        emit_lines(line for check in checks for line in check_lines(check))
    return 0 if ok else 1


def check_lines(check: Check) -> list[str]:
    """The finding for people: status, name, sentence, and the repair on a line of its own."""
    code = f"  [{check.code}]" if check.code else ""
    first, *more = check.message.split("\n")
    lines = [f"{check.status:<4}  {pad(check.name, 12)}  {printable(first)}{'' if more else code}"]
    if more:
        *between, last = [f"{'':<20}{printable(line)}" for line in more]
        lines += [*between, f"{last}{code}"]
    return lines + [f"{'':<20}{printable(line)}" for line in check.hint.split("\n") if line]


def examine(options: GlobalOptions, *, probe: bool, slots: bool = False) -> Iterator[Check]:
    """Every finding, from the machine to the model; what depends on a failed one is left out."""
    yield _python()
    yield _sqlite()
    yield _git()
    yield from _guarded("confinement", _confinement)
    try:
        root = setup.workspace_root(options.workspace)
    except FluzoError as exc:
        yield _failed("workspace", exc)
        return
    damage = setup.store_damage(root)
    if damage is not None and damage.code in _HINTS:
        yield Check("store", "fail", damage.message, _HINTS[damage.code] or damage.hint, damage.code)
    else:
        yield from _guarded("workspace", lambda: _workspace(root))
    yield from _exclude(root)
    settings = None
    try:
        settings = setup.load_settings(setup.settings_path(root, options.config), options.sets).settings
        path = printable(str(setup.settings_path(root, options.config)), keep_newlines=False)
        yield Check("settings", "ok", f"{path} is valid")
    except FluzoError as exc:
        yield _failed("settings", exc)
    if settings is not None:
        yield from _guarded("model", lambda: _model(settings))
        yield from _guarded("consent", lambda: _consent(settings, root))
        yield _verification(settings)
        if slots:
            yield from _slots(settings)
        if probe:
            yield from _guarded("server", lambda: _server(settings))


def _guarded(name: str, examined: "Callable[[], Iterator[Check]]") -> Iterator[Check]:
    try:
        yield from examined()
    except FluzoError as exc:
        yield _failed(name, exc)


def _failed(name: str, error: FluzoError) -> Check:
    return Check(name, "fail", error.message, error.hint, error.code)


# --- the machine ------------------------------------------------------------------------------------------------


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Check("python", "fail", f"Python {version} is too old", "Install Python 3.11 or later.")
    return Check("python", "ok", f"Python {version} on {platform.system()} {platform.release()}")


def _sqlite() -> Check:
    return Check("sqlite", "ok", f"SQLite {sqlite3.sqlite_version}")


def _git() -> Check:
    try:
        done = subprocess.run(
            ["git", "--version"], capture_output=True, text=True, timeout=_GIT_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return Check("git", "fail", "Git does not run", "Install Git; a workspace is a Git repository.")
    return Check("git", "ok", done.stdout.strip())


def _confinement() -> Iterator[Check]:
    setup.require_confinement()
    yield Check("confinement", "ok", "the kernel keeps file access inside the workspace (openat2)")


# --- the workspace ----------------------------------------------------------------------------------------------


def _workspace(root: Path) -> Iterator[Check]:
    with open_host(HostOptions(root, read_only=True)) as host:
        yield Check("workspace", "ok", printable(str(host.root), keep_newlines=False))
        usage = host.port.query(HistoryUsage()).result().data["usage"]
        store = root / STORE_NAME
        place = store if store.is_dir() else root
        if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
            hint = "Make it writable for your user, or work in another clone."
            yield Check("store", "fail", f"{place} cannot be written", hint, "storage_failed")
        elif usage.get("events"):
            kept = (("session", usage["sessions"]), ("task", usage["tasks"]), ("event", usage["events"]))
            yield Check("store", "ok", ", ".join(f"{count} {one}{'' if count == 1 else 's'}" for one, count in kept))
        else:
            yield Check("store", "ok", "nothing is stored yet")


_HINTS = {
    "store_damaged": "Put a backup of yours in its place, or keep it under another name and begin a new one with:\n"
    "fluzo doctor --repair",
    "schema_too_new": "",
}
"""What a store that cannot be read is answered with; empty for what the error itself advises."""


def _repair(root: Path, *, yes: bool) -> Iterator[Check]:
    """Set a damaged store aside after the user's word. Raises UsageError, Cancelled, StorageError, WorkspaceError."""
    damage = setup.store_damage(root)
    if damage is None:
        yield Check("repair", "ok", "the store needs no repair")
        return
    if damage.code != "store_damaged":
        raise damage
    if not yes:
        _confirm(damage)
    aside = setup.set_store_aside(root)
    yield Check(
        "repair",
        "ok",
        f"the damaged store is now {printable(str(aside), keep_newlines=False)}\n"
        "nothing was deleted; artifacts are where they were, and the next run begins a new store",
    )


def _confirm(damage: FluzoError) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{damage.message}\nGiving it another name needs your confirmation.",
            code="confirmation_required",
            hint="Repeat the command with --yes. Nothing is deleted; past tasks are then no longer listed.",
        )
    typer.echo(printable(damage.message), err=True)
    if not typer.confirm("Give it another name and begin a new one? Nothing is deleted.", default=False, err=True):
        raise Cancelled("Nothing was changed.")


def _exclude(root: Path) -> Iterator[Check]:
    match setup.exclude_state(root):
        case "no_git":
            return  # The workspace has failed already, and that says why.
        case "ignored":
            yield Check("exclude", "ok", f"Git ignores {STORE_NAME}/")
        case "tracked":
            hint = f"Run: git rm -r --cached {STORE_NAME}"
            yield Check("exclude", "fail", f"{STORE_NAME}/ is tracked by Git", hint, "storage_unprotected")
        case "not_ignored":
            hint = f"Run: fluzo init, or add /{STORE_NAME}/ to .git/info/exclude"
            yield Check("exclude", "fail", f"Git does not ignore {STORE_NAME}/", hint, "storage_unprotected")


# --- the settings -----------------------------------------------------------------------------------------------


def _model(settings: Settings) -> Iterator[Check]:
    name, model = main_model(settings)
    yield Check("model", "ok", f"{name}: {model.model} at {_redact(model.base_url)}, auth {model.auth}")
    if model.auth != "none":
        _endpoint(model).token()
        yield Check("credential", "ok", "the key that the model entry refers to is there")


def _consent(settings: Settings, root: Path) -> Iterator[Check]:
    missing = setup.missing_consent(settings, root)
    if missing:
        raise ConfigError(
            f"You have not consented yet to: {', '.join(missing)}.",
            code="consent_required",
            hint="See what it covers and agree: fluzo config trust",
        )
    yield Check("consent", "ok", "you have consented to these settings in this workspace")


def _verification(settings: Settings) -> Check:
    count = len(settings.verification.commands)
    if not count:
        hint = 'Declare them: fluzo config set verification.commands \'[["make", "test"]]\''
        return Check("checks", "warn", "no checks are declared; results will be unverified", hint)
    return Check("checks", "ok", f"{count} declared")


def _slots(settings: Settings) -> Iterator[Check]:
    """The configured ceilings. What is in use is known to the process that uses it, and to no other (PRD 43.3)."""
    for name, pool in settings.capacity_pools.items():
        spare = pool.max_in_flight - pool.foreground_reserved_slots
        said = (
            f"{_requests(pool.max_in_flight)}, {pool.queue_capacity} more may wait for {pool.queue_timeout_seconds:g} s"
        )
        yield Check("pool", "ok", f"{name}: {said}; {spare} for observations")
    for name, model in settings.models.items():
        shared = [other for other in settings.models if settings.capacity_id(other) == settings.capacity_id(name)]
        alias = f", shared with {', '.join(other for other in shared if other != name)}" if len(shared) > 1 else ""
        freed = "frees it" if isinstance(model, ChatModel) and model.compat.stops_on_disconnect else "keeps it"
        said = f"{_requests(model.max_in_flight)} in {model.pool}{alias}"
        yield Check("slot", "ok", f"{name}: {said}; a request that was given up on {freed}")
    yield Check(
        "slots", "ok", "every Fluzo process counts for itself; a new one, such as this, starts with all slots free"
    )


def _slots_in_use(ctx: typer.Context) -> Iterator[Check]:
    """What the Fluzo that owns this workspace holds now, where one runs."""
    with open_to_look(ctx) as host:
        owner = host.owner()
        if owner is None:
            return
        with owner:
            uses = owner.query(CapacityStatus()).data["slots"]
    for use in uses:
        status: Literal["ok", "warn"] = "warn" if use["uncertain"] else "ok"
        said = f"{use['occupied']} of {use['limit']} in use, {use['uncertain']} uncertain, {use['queued']} waiting"
        hint = "When the server is certainly idle: fluzo doctor --reset-slots" if use["uncertain"] else ""
        yield Check("in use", status, f"{use['kind']} {use['name']}: {said}", hint)


def _reset_slots(ctx: typer.Context, *, yes: bool) -> Iterator[Check]:
    if not yes:
        raise UsageError(
            "Freeing slots needs your confirmation: a request that still runs on the server would get company.",
            code="confirmation_required",
            hint="When the server is certainly idle, repeat the command with --yes.",
        )
    with open_to_look(ctx) as host:
        owner = host.owner()
        if owner is None:
            yield Check("slots", "ok", "no Fluzo runs in this workspace, so no slot is held")
            return
        with owner:
            yield Check("slots", "ok", f"{owner.dispatch(ResetCapacity()).message} uncertain slots were freed")


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'} at a time"


def _endpoint(model: ChatModel) -> setup.Endpoint:
    return setup.Endpoint(model.base_url, model.auth, model.api_key_env, model.credential_ref)


def _server(settings: Settings) -> Iterator[Check]:
    name, model = main_model(settings)
    served = [entry.id for entry in setup.discover(_endpoint(model))]
    if model.model not in served:
        hint = f"It lists: {', '.join(served[:10])}"
        yield Check("server", "warn", f"the server does not list the model {model.model}", hint)
    else:
        yield Check("server", "ok", f"the server lists {len(served)} models, {model.model} among them")
    result = setup.probe(_endpoint(model), model.model, name)
    for check in result.checks:
        yield Check("probe", "ok" if check.accepted else "warn", f"{check.parameter}: {check.detail}")
    for key, value in result.compat.items():
        if getattr(model.compat, key) != value:
            hint = f"Run: fluzo config set models.{name}.compat.{key} {render(value).strip(chr(34))}"
            yield Check("probe", "warn", f"the server needs another value of {key}", hint)
