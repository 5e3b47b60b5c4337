"""Completion in the composer: commands after `/`, files after `@`. Short, from memory.

A mention is a name: what is sent is `@path`, `@path:10-40` or `@folder/` as it is shown; the agent reads it with its
own tools and under the same rules as everything else.
"""

import asyncio
import re
import shlex
import stat
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .chips import READ_BYTES, Chip, size_text
from .keys import Action
from .palette import best_score, score
from .sanitize import visible_text

MAX_SHOWN = 40
MAX_PATH = 4096
_MENTION = re.compile(r"@(?P<path>[^:]+)(?P<lines>:[0-9]+(?:-[0-9]+)?)?\Z")
_SLOW = 2000
"""Names from which on matching is left to another thread."""
_CHANGED, _RECENT = 60, 30


class Found(NamedTuple):
    """What a folder holds: sizes in bytes by name, folders with their last slash and no size."""

    sizes: dict[str, int]
    folders: tuple[str, ...] = ()


class FileIndex:
    """Names of the workspace's files as the runtime knows them, ignore rules held; their sizes, read by a thread."""

    def __init__(self) -> None:
        self._found = Found({})
        self._root = ""
        self._asked = False
        self.ask: Callable[[Callable[[Sequence[str]], None], Callable[[str], None]], None] | None = None
        """Asks the runtime for the names: one of the two is called, on a thread of the runtime's."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._found.sizes)

    def knows(self, name: str) -> bool:
        return name in self._found.sizes

    @property
    def folders(self) -> tuple[str, ...]:
        return self._found.folders

    def size(self, name: str) -> int:
        """Bytes of a file when the folder was last read, -1 for one that was not seen."""
        return self._found.sizes.get(name, -1)

    def refresh(self, root: str = "") -> None:
        """Ask for the names, or ask again, in the background; what is known stays until they are there."""
        self._root = root or self._root
        if self._root and self.ask is not None and not self._asked:
            self._asked = True
            self.ask(self._named, self._unnamed)

    def _named(self, names: Sequence[str]) -> None:
        threading.Thread(target=self._read, args=(self._root, names), name="fluzo-files", daemon=True).start()

    def _unnamed(self, message: str) -> None:
        self._asked = False

    def look(self, name: str, taken: Callable[[str, int, bool], object]) -> None:
        """Find out about one path, in the background: `taken` gets its name here, its size and whether it lies outside
        the folder; nothing is called when there is no such file."""
        threading.Thread(target=_look, args=(self._root, name, taken), name="fluzo-file", daemon=True).start()

    def _read(self, root: str, names: Sequence[str]) -> None:
        folders: set[str] = set()
        for name in names:
            # Upwards until a folder that is known already.
            while (name := name.rpartition("/")[0]) and f"{name}/" not in folders:
                folders.add(f"{name}/")
        sizes = {name: size for name in names if (size := _size(Path(root, name))) is not None}
        self._found = Found(sizes, tuple(sorted(folders)))
        self._asked = False


def _size(path: Path) -> int | None:
    """Bytes of a regular file; None for what is none, or is no longer there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _look(root: str, name: str, taken: Callable[[str, int, bool], object]) -> None:
    path = Path(root) / Path(name).expanduser()
    try:
        if not path.is_file():
            return
        size = path.stat().st_size
        inside = path.resolve().is_relative_to(Path(root).resolve())
    except (OSError, ValueError, RuntimeError):
        return
    shown = str(path.relative_to(root)) if inside and path.is_relative_to(root) else name
    taken(shown, size, not inside)


def path_of(pasted: str) -> str:
    """The one path that a pasted text is, as a terminal or a file manager gives it; empty when it is none."""
    text = pasted.strip().removeprefix("file://")
    if "\n" in text or len(text) > MAX_PATH or not ("/" in text or "." in text):
        return ""
    try:
        words = shlex.split(text)
    except ValueError:
        return ""
    return words[0] if len(words) == 1 and "@" not in words[0] and not words[0].endswith("/") else ""


def mentioned(before: str) -> str:
    """The mention that ends at the cursor, with its `@`; empty when there is none."""
    word = re.split(r"[\s\U00100000-\U0010fffd]", before)[-1]
    return word if word.startswith("@") else ""


def file_chip(files: FileIndex, mention: str) -> Chip | None:
    """The chip of a mention of a known file, with or without lines; None for anything else."""
    match = _MENTION.match(mention)
    if match is None or not files.knows(match["path"]):
        return None
    return Chip("file", mention_of(match["path"], match["lines"] or ""), size=files.size(match["path"]))


def mention_of(path: str, lines: str = "") -> str:
    """What is sent for a file."""
    return f'@"{path}"{lines}' if re.search(r"\s", path) else f"@{path}{lines}"


def completes(before: str) -> bool:
    """Whether there may be something to offer behind this text."""
    return _names_command(before) or bool(mentioned(before))


def _names_command(before: str) -> bool:
    return before.startswith("/") and " " not in before and "\n" not in before


class ComposerCompleter(Completer):
    """`commands` are the actions with their titles of now; `changed` and `recent` name the files that come first;
    `idle` says why a command would do nothing now."""

    def __init__(
        self,
        commands: Callable[[], Sequence[Action]],
        files: FileIndex,
        changed: Callable[[], frozenset[str]],
        recent: Callable[[], Sequence[str]] = tuple,
        idle: Callable[[str], str] = lambda action_id: "",
    ) -> None:
        self._commands_now = commands
        self._files = files
        self._changed = changed
        self._recent = recent
        self._idle = idle

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        found: Iterable[Completion]
        if mentioned(document.text_before_cursor) and len(self._files.names) > _SLOW:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(None, lambda: list(self.get_completions(document, complete_event)))
        else:
            found = self.get_completions(document, complete_event)
        for item in found:
            yield item

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if _names_command(before):
            yield from self._commands(before)
            return
        word = mentioned(before)
        if word == "@":
            self._files.refresh()
        if word:
            yield from self._paths(word)

    def _commands(self, typed: str) -> Iterator[Completion]:
        ranked = [
            (max(2 * score(typed[1:], action.slash[1:]), best_score(typed, action)), action)
            for action in self._commands_now()
        ]
        for found, action in sorted(ranked, key=lambda item: -item[0]):
            if found:
                told = f"{action.title}  {self._idle(action.id) or (action.keys[0] if action.keys else '')}".rstrip()
                more = " " if action.argument else ""
                yield Completion(action.slash + more, -len(typed), display=action.slash, display_meta=told)

    def _paths(self, word: str) -> Iterator[Completion]:
        wanted, colon, lines = word[1:].partition(":")
        changed, recent = self._changed(), frozenset(self._recent())
        beneath = wanted.rpartition("/")[0]
        ranked = []
        for name in (*self._files.names, *self._files.folders):
            found = score(wanted, name)
            if not found or (beneath and name == f"{beneath}/"):
                continue
            # Within a folder what lies in it comes before what lies deeper; else the shortest name.
            depth = name[len(beneath) + 1 :].rstrip("/").count("/") if beneath and name.startswith(beneath) else 0
            found += _CHANGED * (name in changed) + _RECENT * (name in recent)
            ranked.append((-found, depth, len(name), name))
        for *_, name in sorted(ranked)[:MAX_SHOWN]:
            text = f"@{name}" + (colon + lines if not name.endswith("/") else "")
            yield Completion(text, -len(word), display=visible_text(text), display_meta=self._told(name, changed))

    def _told(self, name: str, changed: frozenset[str]) -> str:
        size = self._files.size(name)
        told = [size_text(size)] if size >= 0 else []
        told += ["read in parts"] if size > READ_BYTES else []
        return "  ".join([*told, *(["changed"] if name in changed else [])])
