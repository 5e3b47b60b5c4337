"""Completion in the composer: commands after `/`, files after `@`. Short, from memory, never a process."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .keys import Registry
from .palette import score
from .sanitize import visible_text

MAX_FILES = 20_000
MAX_SHOWN = 40
_SKIPPED = {"node_modules", "target", "__pycache__", "venv", "dist", "build"}


class FileIndex:
    """The names of a folder's files, read by a thread; hidden folders and build output are left out.

    Nothing of the repository is run for it, also not Git, which may be configured to start a helper.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._thread: threading.Thread | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def refresh(self, root: str) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._read, args=(root,), name="fluzo-files", daemon=True)
            self._thread.start()

    def _read(self, root: str) -> None:
        found: list[str] = []
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
            prefix = "" if folder == root else f"{Path(folder).relative_to(root)}/"
            found += (prefix + name for name in sorted(names) if not name.startswith("."))
            if len(found) >= MAX_FILES:
                break
        self._names = tuple(found[:MAX_FILES])


class ComposerCompleter(Completer):
    def __init__(self, registry: Registry, files: FileIndex, changed: Callable[[], frozenset[str]]) -> None:
        self._registry = registry
        self._files = files
        self._changed = changed

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            yield from self._commands(before)
            return
        word = before.replace("\n", " ").rpartition(" ")[2]
        if word.startswith("@"):
            yield from self._paths(word)

    def _commands(self, typed: str) -> Iterator[Completion]:
        ranked = [(score(typed[1:], action.slash[1:]), action) for action in self._registry.commands()]
        for found, action in sorted(ranked, key=lambda item: -item[0]):
            if found:
                told = f"{action.title}  {action.keys[0] if action.keys else ''}".rstrip()
                more = " " if action.argument else ""
                yield Completion(action.slash + more, -len(typed), display=action.slash, display_meta=told)

    def _paths(self, word: str) -> Iterator[Completion]:
        wanted, changed = word[1:], self._changed()
        ranked = []
        for name in self._files.names:
            found = score(wanted, name) + (30 if name in changed else 0) if score(wanted, name) else 0
            if found:
                ranked.append((-found, len(name), name))
        for _, _, name in sorted(ranked)[:MAX_SHOWN]:
            yield Completion(f"@{name} ", -len(word), display=visible_text(f"@{name}"))
