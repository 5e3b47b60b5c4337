"""Becoming the owner of a workspace, and reaching the one that is: part of the composition root (fluzo.host).

Nothing is opened for writing before the workspace is owned, and waiting for it waits on the lock alone.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fluzo.core.errors import WorkspaceError
from fluzo.workspace import identity
from fluzo.workspace.identity import Ownership, Root

if TYPE_CHECKING:
    from fluzo.control_client import ControlClient

WAIT_POLL_SECONDS = 0.1
REACH_SECONDS = 2.0
"""How long an owner may take from its lock to its control socket, which it opens once it can do what is asked there."""
REACH_POLL_SECONDS = 0.02


def own(
    root: Root, store: Path, wait_seconds: float, waiting: Callable[[WorkspaceError], None]
) -> tuple[Ownership, bool]:
    """Take the workspace and its store, waiting for them up to `wait_seconds`; also says whether there was any waiting.

    `waiting` is called once, with the refusal that it would otherwise have been. Raises WorkspaceError.
    """
    deadline = time.monotonic() + wait_seconds
    waited = False
    while True:
        try:
            return identity.acquire(root, {}, store=store), waited
        except WorkspaceError as refused:
            left = deadline - time.monotonic()
            if refused.code != "workspace_owned" or left <= 0:
                raise
            if not waited:
                waited = True
                waiting(refused)
        time.sleep(min(WAIT_POLL_SECONDS, left))


def reach(root: Root) -> "ControlClient | None":
    """Connect to the process that owns the workspace; None when none does.

    Raises WorkspaceError: `owner_unreachable` or `owner_unverified`.
    """
    from fluzo.control_client import ControlClient

    deadline = time.monotonic() + REACH_SECONDS
    while True:
        owner = identity.owner(root)
        if owner is None:
            return None
        try:
            return ControlClient(identity.control_path(root), owner.get("instance", ""))
        except WorkspaceError:
            # It may be opening or closing, or have given way to another one while we looked.
            if time.monotonic() >= deadline:
                raise
        time.sleep(REACH_POLL_SECONDS)
