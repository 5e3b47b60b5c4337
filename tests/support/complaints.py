"""What every refusal of the command line owes the person and the script: checked in one place."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.project import DEADLINE_SECONDS, FLUZO

Done = subprocess.CompletedProcess[bytes]


def fluzo_in(
    where: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    program: Sequence[str] = (FLUZO,),
) -> Done:
    """Run the installed command in any directory; `without` names variables that are not set."""
    environment = {**os.environ, **(env or {})}
    for name in without:
        environment.pop(name, None)
    return subprocess.run(
        [*program, *arguments],
        cwd=where,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def complaint(done: Done, code: str, status: int) -> str:
    """The message of a refusal, after checking its form: a sentence, its code last, a next step, no traceback."""
    words = done.stderr.decode()
    assert done.returncode == status, words
    assert "Traceback" not in words
    assert "Exception ignored" not in words
    message, hint = _last_error(words)
    assert message.endswith(f"  [{code}]"), words
    assert hint.strip(), f"no next step: {words}"
    return message.removesuffix(f"  [{code}]") + "\n" + hint


def only_object(done: Done) -> dict[str, Any]:
    """The one JSON object on stdout."""
    (line,) = done.stdout.split(b"\n")[:-1]
    assert line.isascii()
    value: dict[str, Any] = json.loads(line)
    return value


def error_object(done: Done, code: str, status: int) -> str:
    """The same message as `complaint`, which in a JSON form is also the only object on stdout."""
    words = complaint(done, code, status)
    value = only_object(done)
    assert set(value) == {"schema_version", "type", "error"}
    assert (value["schema_version"], value["type"]) == (1, "error")
    assert set(value["error"]) == {"code", "message", "hint", "detail"}
    assert value["error"]["code"] == code
    assert value["error"]["message"].split("\n")[-1] in words
    return words


def _last_error(words: str) -> tuple[str, str]:
    """The error message, whose last line has the code, and the indented lines below it."""
    lines = words.rstrip("\n").split("\n")
    end = max(number for number, line in enumerate(lines) if line.startswith("error: "))
    rest = lines[end:]
    body = next(number for number, line in enumerate(rest) if line.endswith("]"))
    return "\n".join(rest[: body + 1]).removeprefix("error: "), "\n".join(rest[body + 1 :])
