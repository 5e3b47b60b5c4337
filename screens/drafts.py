"""Drafts and prompts that outlive the screen, in private files beside the store: one draft a session, and history.

Invariant: no key waits for a disk. Files are read and written by one thread of their own, whole and in order, mode
0600, and only once the runtime owns the folder, so that two screens never write the same file.
"""

import hashlib
import json
import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .chips import MAX_SENT_BYTES, Chip, Part, from_plain, to_plain, whole_text

if TYPE_CHECKING:
    from .app import Screen

KEEP_SECONDS = 1.0
"""After the last key; somebody who never pauses is kept up with every `LATEST_SECONDS`."""
LATEST_SECONDS = 5.0
MAX_DRAFTS = 50
MAX_PROMPTS = 1000
MAX_HISTORY_BYTES = 16_000_000
MAX_FOLDERS = 100
CLOSE_SECONDS = 2.0
DRAFTS, PROMPTS, PASTES, FOLDERS = "drafts.json", "prompts.jsonl", "pastes", "folders.json"


# --- files ----------------------------------------------------------------------------------------------------


def write_private(path: Path, data: bytes) -> None:
    """Replace a file by this content; nobody but the owner can ever read it, also while it is written."""
    staged = path.with_name(f"{path.name}.{os.getpid()}.new")
    staged.unlink(missing_ok=True)
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    staged.replace(path)


def read_drafts(folder: Path) -> tuple[dict[str, list[Part]], str]:
    """The drafts by session and which of them is the newest; nothing of a file that cannot be read."""
    try:
        stored = json.loads((folder / DRAFTS).read_bytes())
        kept = {str(session): from_plain(_loaded(folder, parts)) for session, parts in stored["drafts"].items()}
        return {session: parts for session, parts in kept.items() if parts}, str(stored["newest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}, ""


def write_drafts(folder: Path, drafts: Mapping[str, list[Part]], newest: str) -> None:
    """Keep these drafts and no others; pastes too long for the one file have files of their own."""
    wanted: set[str] = set()
    plain = {session: _stored(folder, parts, wanted) for session, parts in drafts.items()}
    path = folder / DRAFTS
    if plain:
        write_private(path, json.dumps({"schema": 1, "newest": newest, "drafts": plain}).encode())
    else:
        path.unlink(missing_ok=True)
    pastes = folder / PASTES
    for kept in pastes.iterdir() if pastes.is_dir() else ():
        if kept.name not in wanted:
            kept.unlink(missing_ok=True)


def _stored(folder: Path, parts: list[Part], wanted: set[str]) -> list[Any]:
    found: list[Any] = []
    for part, value in zip(parts, to_plain(parts), strict=True):
        data = part.text.encode("utf-8", "replace") if isinstance(part, Chip) else b""
        if len(data) > MAX_SENT_BYTES:
            name = f"{hashlib.sha256(data).hexdigest()[:32]}.txt"
            wanted.add(name)
            (folder / PASTES).mkdir(mode=0o700, exist_ok=True)
            if not (folder / PASTES / name).exists():
                write_private(folder / PASTES / name, data)
            value = {**value, "text": "", "file": name}
        found.append(value)
    return found


def _loaded(folder: Path, values: list[Any]) -> list[Any]:
    found = []
    for value in values:
        name = value.get("file") if isinstance(value, dict) else None
        if isinstance(name, str) and name == Path(name).name:
            try:
                value = {**value, "text": (folder / PASTES / name).read_text(encoding="utf-8", errors="replace")}
            except OSError:
                continue
        found.append(value)
    return found


def read_prompts(folder: Path) -> list[list[Part]]:
    """What was sent from a folder, oldest first; a line that cannot be read is left out."""
    try:
        lines = (folder / PROMPTS).read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines[-MAX_PROMPTS:]:
        try:
            parts = from_plain(json.loads(line))
        except ValueError:
            continue
        if parts:
            found.append(parts)
    return found


def append_prompt(folder: Path, parts: list[Part]) -> None:
    path = folder / PROMPTS
    line = json.dumps(to_plain(parts)).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(line)


def masked(parts: list[Part], redact: Callable[[str], str]) -> list[Part]:
    return [redact(part) if isinstance(part, str) else part._replace(text=redact(part.text)) for part in parts]


def trim_prompts(folder: Path) -> None:
    """Bound the file: its newest entries stay."""
    path = folder / PROMPTS
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError:
        return
    kept = lines[-MAX_PROMPTS:]
    while kept and sum(map(len, kept)) > MAX_HISTORY_BYTES:
        kept = kept[len(kept) // 10 + 1 :]
    if len(kept) < len(lines):
        write_private(path, b"".join(kept))


def known_folders(base: Path) -> list[str]:
    """The private folders of every workspace that a screen was opened in, newest first."""
    try:
        names = json.loads((base / FOLDERS).read_bytes())
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def note_folder(base: Path, folder: Path) -> None:
    names = known_folders(base)
    if names[:1] != [str(folder)]:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = [str(folder), *(name for name in names if name != str(folder))][:MAX_FOLDERS]
        write_private(base / FOLDERS, json.dumps(kept).encode())


def state_home(environ: Mapping[str, str]) -> Path | None:
    """Where Fluzo keeps what belongs to the user and no folder; None when there is no such place."""
    state, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if state.startswith("/"):  # The XDG base directory specification has relative paths ignored.
        return Path(state) / "fluzo"
    return Path(home) / ".local/state/fluzo" if home.startswith("/") else None


class FileThread:
    """Does one thing after the other, off the screen's loop; what a disk refuses is left undone."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fluzo-drafts", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except OSError:
                continue  # A full or broken disk must not end the screen; the store tells about it.

    def close(self) -> None:
        """Finish what was asked for, and no more; a disk that hangs does not keep the screen."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join(CLOSE_SECONDS)


# --- the screen's drafts --------------------------------------------------------------------------------------


class Drafts:
    """What the composer holds, kept for its session; the sessions' other drafts wait here."""

    def __init__(self, screen: "Screen") -> None:
        self._screen = screen
        self._folder: Path | None = None
        self._base = state_home(screen.options.environ)
        self._others: dict[str, list[Part]] = {}
        self._due: Any = None
        self._first_at = 0.0
        self._last_at = 0.0
        self._saved: tuple[str, list[Part]] | None = None
        self.files = FileThread()

    # --- opening

    def opened(self, folder: str) -> None:
        """The runtime owns this private folder now: read what it keeps. Without one nothing is kept."""
        if not folder:
            self._read_tasks()
        elif self._folder is None:
            path, on_loop = Path(folder), self._screen.intake.on_loop

            def read() -> None:
                trim_prompts(path)
                on_loop(self._read, path, read_drafts(path), read_prompts(path))
                if self._base is not None:
                    note_folder(self._base, path)

            self.files.do(read)

    def _read(self, folder: Path, drafts: tuple[dict[str, list[Part]], str], prompts: list[list[Part]]) -> None:
        screen, (kept, newest) = self._screen, drafts
        self._folder = folder
        screen.composer.load_history(prompts)
        if not prompts:
            self._read_tasks()
        here = screen.state.session_id or screen.options.session
        session = here if here in kept or here else newest
        draft = kept.pop(session, None)
        self._others = {**kept, **self._others}
        if draft is None:
            pass
        elif screen.composer.empty:
            screen.composer.put(draft)
            screen.say("Your unsent draft is back; Ctrl+C clears it")
        else:
            screen.composer.remember(whole_text(draft))
            screen.say("Your unsent draft of before is in history: Up brings it back")
        self.keep()

    def _read_tasks(self) -> None:
        link, on_loop, load = self._screen.link, self._screen.intake.on_loop, self._screen.composer.load_history
        if link is not None:
            link.read_history(lambda texts: on_loop(load, [[text] for text in texts]))

    # --- keeping

    def changed(self) -> None:
        """The draft changed: keep it soon, an empty one at once."""
        loop, now = self._screen.loop, self._screen.now()
        if self._folder is None or loop is None:
            return
        if self._screen.composer.empty:
            self.keep()
            return
        self._last_at = now
        if self._due is None:
            self._first_at = now
            self._due = loop.call_later(KEEP_SECONDS, self._ripe)

    def _ripe(self) -> None:
        now = self._screen.now()
        at = min(self._last_at + KEEP_SECONDS, self._first_at + LATEST_SECONDS)
        loop, self._due = self._screen.loop, None
        if now < at and loop is not None:
            self._due = loop.call_later(at - now, self._ripe)
        else:
            self.keep()

    def keep(self) -> None:
        """Have the draft of now written, and those of other sessions with it."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        folder, session, parts = self._folder, self._screen.state.session_id, self._screen.composer.draft
        if folder is None or self._saved == (session, parts):
            return
        self._saved = (session, parts)
        drafts = dict(self._others)
        if parts:
            drafts[session] = parts
        drafts = dict(list(drafts.items())[-MAX_DRAFTS:])
        self.files.do(lambda: write_drafts(folder, drafts, session))

    def switch(self, before: str, after: str) -> None:
        """Another session is shown: its own draft takes the place of the one that is there."""
        composer = self._screen.composer
        here = composer.swap(self._others.pop(after, []))
        if here:
            self._others.pop(before, None)
            self._others[before] = here
        if here:
            self._screen.say("Your draft stays with the session it was written in")
        self.keep()

    def remembered(self, parts: list[Part]) -> None:
        """History took a prompt; what is kept of it holds no secret that the runtime knows."""
        folder, link = self._folder, self._screen.link
        if folder is not None and link is not None:
            self.files.do(lambda: append_prompt(folder, masked(parts, link.redact)))

    def all_prompts(self, taken: Callable[[list[list[Part]]], None]) -> None:
        """What was sent from every folder but this one, newest first; `taken` is called on the loop."""
        base, here, on_loop = self._base, self._folder, self._screen.intake.on_loop
        if base is None:
            taken([])
            return

        def read() -> None:
            others = [Path(name) for name in known_folders(base) if Path(name) != here]
            on_loop(taken, [parts for folder in others for parts in reversed(read_prompts(folder))])

        self.files.do(read)

    def close(self) -> None:
        """Keep the last keys and wait until they are written."""
        self.keep()
        self.files.close()
