"""The composition root: load settings, open, quiesce and close; `fluzo.composition` chooses the implementations.

The runtime gets a loop on a thread of its own; front ends meet it in the port alone. Implementations are imported
inside the functions that choose them, so that a read-only command never pays for what only a run needs.
"""

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from fluzo.composition import missing_consent, new_id, services, utc_now
from fluzo.core.errors import WorkspaceError
from fluzo.core.named import NamedTuple
from fluzo.core.port import Port
from fluzo.core.redact import Redactor, make_redactor

if TYPE_CHECKING:
    from fluzo.control import ControlServer
    from fluzo.control_client import ControlClient
    from fluzo.core.settings import Settings
    from fluzo.storage.journal import Journal
    from fluzo.storage.settings_file import LoadedSettings
    from fluzo.workspace.git import Git
    from fluzo.workspace.identity import Ownership, Root

T = TypeVar("T")

DRIVE_NAME = ".fluzodrive"
FILE_NAME = ".fluzo"
CANCEL_SECONDS = 2.0
"""How long questions that nobody can answer any more may take to end when the runtime does."""


class HostOptions(NamedTuple):
    """What an invocation chose. `sets` are `key=value` texts of `--set`; `workspace` need not be the root itself.

    Who wants to be the owner waits `wait_seconds` for another one; `waiting` is then called once, with the refusal
    that there would have been without. `at_once` says that a task will follow; else call `prepare_requests` when one
    does.
    """

    workspace: Path
    config: Path | None = None
    sets: tuple[str, ...] = ()
    read_only: bool = False
    wait_seconds: float = 0.0
    waiting: Callable[[WorkspaceError], None] = lambda _refused: None
    at_once: bool = True


class RuntimeThread:
    """An asyncio loop on its own thread, so that nothing the runtime does delays whoever owns the terminal."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fluzo-runtime", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it here."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        """End the thread; who still waits for an answer gets a cancellation."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_the_rest())


async def _cancel_the_rest() -> None:
    await asyncio.sleep(0)  # What was asked for just before the stop begins now.
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=CANCEL_SECONDS)


class Host:
    """An open workspace: `port` for front ends, and the settings in force (None when there are none to read). `redact`
    masks the secrets of this run."""

    def __init__(
        self,
        root: Path,
        port: Port,
        loaded: "LoadedSettings | None",
        close: Callable[[], None],
        reach: "Callable[[], ControlClient | None]" = lambda: None,
    ) -> None:
        self.root = root
        self.port = port
        self.loaded = loaded
        self.redact: Redactor = make_redactor()
        self._close = close
        self._reach = reach

    @property
    def settings(self) -> "Settings | None":
        return self.loaded.settings if self.loaded else None

    def compacts_at(self) -> int:
        """Tokens of a conversation with the main model at which it is compacted; 0 without settings."""
        from fluzo.composition import window_rules
        from fluzo.context.window import Window
        from fluzo.core.settings import main_model

        settings = self.settings
        return Window(window_rules(settings, main_model(settings)[1])).threshold if settings is not None else 0

    def owner(self) -> "ControlClient | None":
        """For a read-only host: a connection to the process that owns the workspace, None when none does.

        Raises WorkspaceError: `owner_unreachable` or `owner_unverified`.
        """
        return self._reach()

    def close(self) -> None:
        """Cancel what runs, wait until its end is committed, release everything; safe to call twice."""
        close, self._close = self._close, _nothing
        close()

    def __enter__(self) -> "Host":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_host(options: HostOptions) -> Host:
    """Open the workspace around `options.workspace`.

    Read-only hosts create nothing and answer queries alone. Others own the workspace until they are closed.
    Raises ConfigError, WorkspaceError and StorageError before anything has begun.
    """
    from fluzo.workspace.identity import resolve_root

    if options.read_only:
        return _open_reader(resolve_root(options.workspace))
    # Git is waited for in another thread than the one that loads modules. Two that load would take the interpreter from
    # each other at every file, a thousand times.
    with ThreadPoolExecutor(1, "fluzo-git") as beside:
        found = beside.submit(resolve_root, options.workspace)
        if options.at_once:
            _load_requests()
        root = found.result()
        checked = beside.submit(_checked, root)
        loaded = load_settings(root.path, options)
        if options.at_once:
            _load_for_task()
        git = checked.result()
    return _open_owner(root, options, loaded, git)


def prepare_requests() -> None:
    """Load what a task needs up to its first request. Returns at once."""
    if "fluzo.models.transport" not in sys.modules:
        threading.Thread(target=_load_requests_and_task, name="fluzo-loader", daemon=True).start()


_FOR_TASK = (
    "fluzo.runtime.tasks",
    "fluzo.storage.journal",
    "fluzo.runtime.application",
    "fluzo.control",
    "fluzo.runtime.recovery",
    "fluzo.models.gateway",
    "fluzo.tools.files",
    "fluzo.tools.git",
    "fluzo.tools.process",
    "fluzo.tools.search",
)


def _load_requests() -> None:
    from fluzo.models import transport

    asyncio.run(transport.load_all())


def _load_for_task() -> None:
    for name in _FOR_TASK:
        importlib.import_module(name)


def _load_requests_and_task() -> None:
    _load_requests()
    _load_for_task()


def _checked(root: "Root") -> "Git":
    """Git of this working tree, in which the store is one that Git leaves alone. Raises StorageError."""
    from fluzo.workspace.git import Git

    git = Git(root)
    git.check_store(root.path / DRIVE_NAME)
    return git


def load_settings(root: Path, options: HostOptions) -> "LoadedSettings":
    """The settings in force for an invocation. Raises ConfigError (`configuration_required` without a file)."""
    from fluzo.storage.settings_file import load

    flags = dict(_assignment(text) for text in options.sets)
    return load(options.config or root / FILE_NAME, flags)


def _open_reader(root: "Root") -> Host:
    from fluzo.ownership import reach
    from fluzo.runtime.application import Application
    from fluzo.runtime.feed import Feed
    from fluzo.runtime.queries import Queries
    from fluzo.storage.journal import Journal
    from fluzo.workspace.identity import is_owned

    thread = RuntimeThread()
    try:
        journal = thread.call(Journal.open(root.path / DRIVE_NAME, new_id=new_id, now=utc_now, read_only=True))
        queries = Queries(journal, lambda: is_owned(root))
        port = Application(thread.loop, journal, Feed(), queries, None)
    except BaseException:
        thread.close()
        raise

    return Host(root.path, port, None, _closer(thread, journal.close), lambda: reach(root))


def _open_owner(root: "Root", options: HostOptions, loaded: "LoadedSettings", git: "Git") -> Host:
    from fluzo.ownership import own

    ownership, waited = own(root, root.path / DRIVE_NAME, options.wait_seconds, options.waiting)
    thread = RuntimeThread()
    try:
        if waited:
            loaded = load_settings(root.path, options)
        path = options.config or root.path / FILE_NAME
        # What was just read of Git's configuration still holds for a task that follows at once, not for one in an hour.
        known = git if options.at_once and not waited else None
        opened = thread.call(_start(thread.loop, root, loaded, ownership, path, known))
    except BaseException:
        thread.close()
        ownership.release()
        raise

    host = Host(root.path, opened.port, loaded, _closer(thread, lambda: _stop(opened), ownership))
    host.redact = opened.redact
    return host


def open_keeper(options: HostOptions) -> Host:
    """Own the workspace to put its records in order: no settings, no model, no consent, and nothing runs.

    The port cancels tasks that nobody runs. Raises WorkspaceError and StorageError before anything has begun.
    """
    from fluzo.ownership import own
    from fluzo.workspace.git import check_store
    from fluzo.workspace.identity import resolve_root

    root = resolve_root(options.workspace)
    check_store(root, root.path / DRIVE_NAME)
    ownership, _ = own(root, root.path / DRIVE_NAME, options.wait_seconds, options.waiting)
    thread = RuntimeThread()
    try:
        journal, port = thread.call(_start_keeper(thread.loop, root))
    except BaseException:
        thread.close()
        ownership.release()
        raise

    return Host(root.path, port, None, _closer(thread, journal.close, ownership))


async def _start_keeper(loop: asyncio.AbstractEventLoop, root: "Root") -> "tuple[Journal, Port]":
    from fluzo.runtime import recovery
    from fluzo.runtime.application import Application
    from fluzo.runtime.feed import Feed
    from fluzo.runtime.keeper import Keeper
    from fluzo.runtime.queries import Queries
    from fluzo.storage.journal import Journal

    journal = await Journal.open(root.path / DRIVE_NAME, new_id=new_id, now=utc_now)
    try:
        await recovery.reopen(journal, utc_now)
    except BaseException:
        await journal.close()
        raise
    feed = Feed()
    queries = Queries(journal, lambda: True)
    return journal, Application(loop, journal, feed, queries, Keeper(journal, feed.publish, make_redactor(), utc_now))


class _Opened(NamedTuple):
    """What an owner closes again, in the order of `_stop`."""

    journal: "Journal"
    port: Port
    quiesce: Callable[[], Coroutine[Any, Any, None]]
    control: "ControlServer"
    redact: Redactor


async def _start(
    loop: asyncio.AbstractEventLoop,
    root: "Root",
    loaded: "LoadedSettings",
    ownership: "Ownership",
    path: Path,
    git: "Git | None",
) -> _Opened:
    from fluzo.control import ControlServer
    from fluzo.runtime import recovery
    from fluzo.runtime.application import Application
    from fluzo.runtime.configuration import Configuration, ConfigurationParts
    from fluzo.runtime.feed import Feed
    from fluzo.runtime.queries import Queries
    from fluzo.runtime.tasks import Tasks
    from fluzo.storage.journal import Journal

    journal = await Journal.open(root.path / DRIVE_NAME, new_id=new_id, now=utc_now)
    try:
        await recovery.reopen(journal, utc_now)
        feed = Feed()
        first = services(root, loaded, journal, feed, ownership.describe, git=git)
        tasks = Tasks(first)
        parts = ConfigurationParts(
            path=path,
            tasks=tasks,
            storage=journal,
            publish=feed.publish,
            redact=first.redact,
            renewed=lambda other, before: services(root, other, journal, feed, ownership.describe, before),
            missing_consent=lambda settings: missing_consent(root, settings),
        )
        configuration = Configuration(parts, loaded)
        queries = Queries(journal, lambda: True, tasks, configuration)
        port = Application(loop, journal, feed, queries, tasks, configuration)
        control = await ControlServer.start(port, ownership.control, ownership.instance)
    except BaseException:
        await journal.close()
        raise
    return _Opened(journal, port, tasks.quiesce, control, first.redact)


def _closer(
    thread: RuntimeThread, stop: Callable[[], Coroutine[Any, Any, None]], ownership: "Ownership | None" = None
) -> Callable[[], None]:
    """What closes a host: whatever `stop` meets, such as a full disk, thread and workspace are given up after it."""

    def close() -> None:
        try:
            thread.call(stop())
        finally:
            thread.close()
            if ownership is not None:
                ownership.release()

    return close


async def _stop(opened: _Opened) -> None:
    """The control socket goes on until nothing runs: a stop that takes long can be forced through it."""
    try:
        await opened.quiesce()
    finally:
        await opened.control.close()
        await opened.journal.close()


def _assignment(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _nothing() -> None:
    return None
