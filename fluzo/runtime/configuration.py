"""The settings while the runtime is open: shown with their sources, saved by an act of the user, given to what comes.

Invariant: nothing is in force that was not read, checked as a whole and either saved by the user or there at the start.
A task that runs keeps what it began with, until the user applies other limits to it; flags win throughout (PRD 26.2).
Only the port leads here: no tool has it, and the file itself is protected from tools.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fluzo.core.contracts import Storage
from fluzo.core.errors import ConfigError, FluzoError, StorageError, UsageError
from fluzo.core.events import ConfigurationChanged, Event, Scope
from fluzo.core.named import NamedTuple
from fluzo.core.port import Ack, ApplyConfigToActiveWork, SaveConfig
from fluzo.core.redact import Redactor
from fluzo.core.settings import Settings, check_settings, describe, main_model, plain, set_value
from fluzo.core.settings_entries import names_entry
from fluzo.core.settings_rows import TASK_LIMITS, InForce, changes, config_rows, entry_rows, public_values
from fluzo.runtime.recorder import redact_payload
from fluzo.storage import settings_file
from fluzo.storage.settings_file import LoadedSettings

if TYPE_CHECKING:
    from fluzo.runtime.services import Services
    from fluzo.runtime.tasks import Tasks


class ConfigurationParts(NamedTuple):
    """`renewed` makes services of other settings from those before them; `missing_consent` names what is missing."""

    path: Path
    tasks: "Tasks"
    storage: Storage
    publish: Callable[[tuple[Event, ...]], None]
    redact: Redactor
    renewed: "Callable[[LoadedSettings, Services], Services]"
    missing_consent: Callable[[Settings], list[str]]


class Configuration:
    """Handles SaveConfig and ApplyConfigToActiveWork and answers ConfigDetail, on the runtime's loop."""

    def __init__(self, parts: ConfigurationParts, loaded: LoadedSettings) -> None:
        self._parts = parts
        self._loaded = loaded
        self._started = loaded.settings
        self._saving = asyncio.Lock()

    async def handle(self, command: SaveConfig | ApplyConfigToActiveWork) -> Ack:
        """Carry out one command; what cannot be saved or applied is refused with its code, and nothing has changed."""
        try:
            if isinstance(command, SaveConfig):
                return await self._save(command)
            return await self._apply(command)
        except StorageError:
            raise
        except FluzoError as error:
            code = "config_changed" if error.code == "configuration_conflict" else error.code
            return Ack(False, code=code, message=error.message)

    async def detail(self) -> Mapping[str, Any]:
        """The data of a ConfigDetail."""
        file = await asyncio.to_thread(_look, self._parts.path, self._loaded.flags)
        missing: list[str] = []
        with suppress(StorageError):  # Then a task is refused when it begins, with that very reason.
            missing = self._parts.missing_consent(self._loaded.settings)
        in_force = InForce(self._loaded.settings, self._loaded.data, self._loaded.flags, self._started)
        return {
            "path": str(self._parts.path),
            "fingerprint": file.fingerprint,
            "in_force": self._loaded.version,
            "problem": file.problem,
            "hint": file.hint,
            "consent": missing,
            "rows": config_rows(in_force, file.data, file.settings),
            "entries": entry_rows(),
        }

    async def _save(self, command: SaveConfig) -> Ack:
        async with self._saving:
            loaded = await asyncio.to_thread(self._write, command)
            await self._parts.tasks.renew(lambda services: self._parts.renewed(loaded, services))
            old, self._loaded = self._loaded, loaded
            changed = changes(old.settings, loaded.settings)
            event = ConfigurationChanged(loaded.version, "user", changed, public_values(loaded.settings))
            payload = redact_payload(event, self._parts.redact)
            committed = await self._parts.storage.commit(events=((Scope(), payload),))
            self._parts.publish(committed)
            return Ack(True, cursor=committed[0].seq - 1)

    def _write(self, command: SaveConfig) -> LoadedSettings:
        """On a thread of the pool: the disk may be slow."""
        current = settings_file.read(self._parts.path)
        if current.version != command.fingerprint:
            raise settings_file.conflict(self._parts.path)
        flags = self._loaded.flags
        if not command.values:
            loaded = settings_file.loaded(current, settings_file.parse(current), flags)
            main_model(loaded.settings)
            return loaded
        for key, value in command.values.items():
            if value is not None or not names_entry(key):
                describe(key)
        from fluzo.storage import settings_edit

        edits = {key: plain(value) for key, value in command.values.items()}
        return settings_edit.save_checked(current, edits, flags, main_model)

    async def _apply(self, command: ApplyConfigToActiveWork) -> Ack:
        """Other limits for the running task, checked as if they stood in the file."""
        data = dict(self._loaded.data)
        for key, given in self._loaded.flags.items():
            data = set_value(data, key, given)
        for name, value in command.limits.items():
            key = f"harness.{name}"
            if name not in TASK_LIMITS:
                raise UsageError(f"{name} is not a limit of a task; the limits are: {', '.join(TASK_LIMITS)}.")
            if key in self._loaded.flags:
                raise UsageError(
                    f"{key} was given on the command line, which holds for this run.", code="config_locked"
                )
            data = set_value(data, key, value)
        settings, problems = check_settings(data)
        if settings is None:
            raise ConfigError("\n".join(problem.sentence for problem in problems))
        return await self._parts.tasks.apply_limits(command.task_id, dict(command.limits))


class _Look(NamedTuple):
    fingerprint: str
    data: Mapping[str, object] | None
    settings: Settings | None
    problem: str
    hint: str


def _look(path: Path, flags: Mapping[str, object]) -> _Look:
    """The file as it stands now; what is wrong with it names line and key."""
    fingerprint = ""
    try:
        file = settings_file.read(path)
        fingerprint = file.version
        data = settings_file.parse(file)
        return _Look(fingerprint, data, settings_file.loaded(file, data, flags).settings, "", "")
    except ConfigError as error:
        return _Look(fingerprint, None, None, error.message, error.hint)
