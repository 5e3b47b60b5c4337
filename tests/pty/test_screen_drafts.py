import os
import signal
import stat
from pathlib import Path

from support.project import make_project, say, scripted
from support.screen import user_at

from fluzo.simulator.server import Simulator

PASTED = "\n".join(f"line {number} of it" for number in range(40))


def test_a_draft_with_a_paste_outlives_kill_9_and_is_gone_once_it_is_sent(tmp_path: Path) -> None:
    with Simulator(scripted(say("Read.", any_contains=["see line 0 of it", "line 39 of it now"]))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        drafts = project.root / ".fluzodrive" / "drafts.json"
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Ctrl+P commands")
            user.types("see ")
            user.pastes(PASTED)
            user.types(" now")
            user.sees("> see [paste 1: 40 lines, 0.5 kB] now")
            user.waits_for(lambda: drafts.exists() and b" now" in drafts.read_bytes())
            user.signals(signal.SIGKILL)
            assert user.leaves() == -signal.SIGKILL
        assert stat.S_IMODE(drafts.stat().st_mode) == 0o600
        assert simulator.requests == []
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("> see [paste 1: 40 lines, 0.5 kB] now")
            user.sees("Your unsent draft is back")
            user.presses("enter")
            user.sees("done in")
            user.waits_for(lambda: not drafts.exists())
        assert simulator.finish() == []


def test_a_paste_without_marks_is_one_paste_and_its_enters_send_nothing(tmp_path: Path) -> None:
    with Simulator(scripted(say("Read.", any_contains=["line 39 of it!"]))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Ctrl+P commands")
            user.types(PASTED.replace("\n", "\r"))
            user.sees("> [paste 1: 40 lines, 0.5 kB]")
            assert simulator.requests == []
            user.types("!")
            user.presses("enter")
            user.sees("Read.")
        assert simulator.finish() == []


def test_the_conversation_is_printed_plainly_until_a_key(tmp_path: Path) -> None:
    with Simulator(scripted(say("A **plain** answer."))) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Ctrl+P commands")
            assert b"\x1b[?1002h" not in user.raw, "the mouse is off until it is asked for"
            user.types("tell me\r")
            user.sees("done in")
            user.types("a draft")
            user.presses("ctrl-p")
            user.types("/raw")
            user.sees("The conversation on the plain terminal")
            user.presses("enter")
            user.sees("fluzo: A **plain** answer.")
            user.sees("any key goes back")
            user.sees("you: tell me")
            user.types("x")
            user.sees("> a draft")
            assert "> a draftx" not in user.screen
