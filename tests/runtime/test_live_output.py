import asyncio
import os
from pathlib import Path

import pytest
from support.hosted import Running, start, workspace
from support.project import call, say, scripted

from fluzo.core.events import OutputProgress
from fluzo.core.redact import MASK, GrowingRedactor
from fluzo.host import HostOptions, open_host
from fluzo.runtime.live_output import EDGE_CHARACTERS, TAIL_CHARACTERS, WINDOW_BYTES, LiveOutput
from fluzo.simulator.server import Simulator
from fluzo.storage import consent

WAITS = "printf 'one\\ntwo\\033[31m red\\n'; read line < gate; echo three"
KEY = "value-of-the-credential"


def shown(running: Running, wanted: str) -> OutputProgress:
    """The next live output that holds the text; it comes while the command runs or never."""
    found = running.until(lambda update: isinstance(update, OutputProgress) and wanted in update.tail)
    assert isinstance(found, OutputProgress)
    return found


def test_what_a_command_prints_is_seen_before_it_ends_and_is_never_durable(tmp_path: Path) -> None:
    run = call("run", {"shell": True, "script": WAITS}, "c1")
    with Simulator(scripted(run, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        os.mkfifo(tmp_path / "gate")
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, yolo=True)
            update = shown(running, "red")
            (ran,) = [item for item in running.task()["operations"] if item["tool"] == "run"]
            assert ran["state"] == "intent_committed", "the command had not ended"
            (tmp_path / "gate").write_text("\n")
            detail = running.finish()
            names = set(running.event_names())
    assert update.tail == "one\ntwo\x1b[31m red\n"
    assert update.operation_id == ran["id"]
    assert update.total_bytes == len(update.tail)
    assert detail["task"]["state"] == "completed"
    assert "OutputProgress" not in names


def test_an_injected_credential_is_masked_in_live_output(tmp_path: Path, isolation: Path) -> None:
    folder = consent.folder()
    folder.mkdir(parents=True)
    (folder / "auth.toml").write_text(f'[credentials.deploy]\ntool = true\nvalue = "{KEY}"\n')
    (folder / "auth.toml").chmod(0o600)
    run = call("run", {"shell": True, "script": 'echo "token $TOKEN."; printf %.9s "$TOKEN"; read line < gate'}, "c1")
    with Simulator(scripted(run, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url, more='[tools.shell]\ncredentials = { TOKEN = "deploy" }\n')
        os.mkfifo(tmp_path / "gate")
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, yolo=True)
            update = shown(running, MASK)
            (tmp_path / "gate").write_text("\n")
            running.finish()
    assert update.tail == f"token {MASK}.\n"


def told(chunks: list[bytes], secrets: tuple[str, ...] = ()) -> tuple[str, int]:
    """What is shown after these chunks came in one go."""

    async def work() -> tuple[str, int]:
        answer: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
        live = LiveOutput(GrowingRedactor(secrets), lambda tail, total: answer.set_result((tail, total)))
        for chunk in chunks:
            live.add(chunk)
        return await answer

    return asyncio.run(work())


@pytest.mark.parametrize("secret", ["hunter2hunter2", "sk-abcdefghijklmnopqrstuv", "ghp_0123456789abcdefghijABC"])
def test_no_beginning_of_a_secret_is_shown_while_its_rest_is_still_to_come(secret: str) -> None:
    for size in range(1, len(secret)):
        tail, _ = told([f"key {secret[:size]}".encode()], (secret,))
        assert secret[:size] not in tail or size < 3
    assert told([f"key {secret}\n".encode()], (secret,))[0] == f"key {MASK}\n"


def test_a_secret_that_the_window_has_cut_is_not_shown_in_part() -> None:
    secret = "k" * 3 + "-long-" * 900
    noise = b"x" * (WINDOW_BYTES - len(secret) + 40)
    tail, total = told([secret.encode(), noise], (secret,))
    assert "-long-" not in tail
    assert total == len(secret) + len(noise)
    # What follows is masked to almost nothing, so the cut part comes close to the end of what is left.
    other = "another-" * 700
    tail, _ = told([f"{secret}{other}{other}".encode()], (secret, other))
    assert "-long-" not in tail


def test_the_end_of_a_flood_is_shown_in_bounded_size_and_a_character_is_never_cut() -> None:
    tail, _ = told([b"flood\n" * 100_000, "the end \N{SNOWMAN}".encode()[:-1]])
    assert tail.endswith("the end ")
    assert len(tail) <= TAIL_CHARACTERS < EDGE_CHARACTERS < WINDOW_BYTES


def test_nothing_is_shown_after_the_command_has_ended() -> None:
    async def work() -> list[str]:
        found: list[str] = []
        live = LiveOutput(GrowingRedactor(), lambda tail, total: found.append(tail))
        live.add(b"late\n")
        live.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return found

    assert asyncio.run(work()) == []
