"""What a grant covers, exactly (PRD 12.1): two scopes are the same authorization only when they are equal.

There are no prefixes, wildcards or judgements of harmlessness here. A scope is plain JSON data, its
fingerprint the SHA-256 of its canonical form.
"""

import hashlib
import json
from collections.abc import Mapping

from fluzo.core.records import Operation


def scope_of(operation: Operation, workspace: str, backend: str = "local") -> dict[str, object]:
    """The scope that a task grant or a standing grant must equal.

    A process is its exact argument vector or script, directory and explicit environment, a push also where it goes.
    A file operation is its kind and paths; over changes that the user had made before, also the versions that were
    seen.
    """
    scope: dict[str, object] = {
        "tool": operation.tool,
        "action": operation.action,
        "workspace": workspace,
        "backend": backend,
    }
    if operation.effect == "execute":
        if operation.script:
            scope["script"] = operation.script
        else:
            scope["argv"] = list(operation.argv)
        scope["cwd"] = operation.cwd
        scope["env"] = {name: _digest(value) for name, value in operation.env}
    if operation.destination:
        scope["destination"] = operation.destination
    if operation.paths:
        scope["paths"] = list(operation.paths)
    if operation.touches_user_changes:
        scope["versions"] = {path: version.digest for path, version in operation.versions}
    return scope


def exact_scope_of(operation: Operation, workspace: str, backend: str = "local") -> dict[str, object]:
    """The scope of this one operation and no other: versions and proposed content included."""
    return {
        **scope_of(operation, workspace, backend),
        "versions": {path: version.digest for path, version in operation.versions},
        "content": _digest(operation.preview),
    }


def fingerprint(scope: Mapping[str, object]) -> str:
    """Hex digest of a scope; equal scopes and only those share it."""
    return _digest(json.dumps(scope, sort_keys=True, ensure_ascii=True, separators=(",", ":")))


def process_operation(
    argv: tuple[str, ...] = (), script: str = "", cwd: str = ".", env: tuple[tuple[str, str], ...] = ()
) -> Operation:
    """The operation that the `run` tool describes for this command: what `--allow` and settings grant."""
    return Operation(
        tool="run", action="execute", effect="execute", summary="", argv=argv, script=script, cwd=cwd, env=env
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
