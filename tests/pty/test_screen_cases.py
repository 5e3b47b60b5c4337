"""Inputs that broke other programs' screens: a recorded paste, floods, Ctrl+C anywhere, long sessions."""

import asyncio
import os
from pathlib import Path

from support.project import call, make_project, scripted
from support.screen import user_at
from support.screen_inside import ScriptedScreen, begin_task, feed, inside

from fluzo.core.events import TextDelta
from fluzo.simulator.server import Simulator

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
WAIT = ["python3", "-c", "open('begun', 'w').close(); open('gate').read()"]


def test_a_recorded_paste_is_one_block_with_its_tab_and_is_not_sent() -> None:
    async def paste(shown: ScriptedScreen) -> None:
        shown.draw()
        shown.keys((CASES / "t01-paste.keys").read_bytes().decode())
        assert shown.screen.composer.text == "line one\nline two\nline three\n\tindented\n"
        assert shown.screen.state.waiting_submit is None
        assert "    indented" in "\n".join(shown.draw())
        shown.keys("\x1f")
        assert shown.screen.composer.text == "", "one undo takes the whole paste back"

    inside(paste)


def test_twenty_thousand_lines_move_nothing_for_one_who_reads_further_up() -> None:
    async def read(shown: ScriptedScreen) -> None:
        begin_task(shown)
        text = "\n\n".join(f"Paragraph {number}." for number in range(60))
        feed(shown, [TextDelta("t_1", 1, 0, text)])
        shown.draw()
        shown.keys("\x1b[5~\x1b[5~")
        top = shown.draw()[1:18]
        offset = len(text)
        for number in range(200):
            more = "".join(f"\n\nline {number * 100 + line}" for line in range(100))
            feed(shown, [TextDelta("t_1", 1, offset, more)])
            offset += len(more)
            assert shown.draw()[1:18] == top
        shown.screen.renderer.rendered = 0
        shown.keys("x")
        assert "> x" in "\n".join(shown.draw())
        assert shown.screen.renderer.rendered == 0, "a key waits for no rendering of the flood"

    inside(read)


def test_control_c_stops_an_answer_and_a_tool_and_leaves_with_the_session_kept(tmp_path: Path) -> None:
    steps = ({"respond": {"parts": [{"text": "Thinking aloud"}, {"hold": "gate"}]}}, call("run", {"argv": WAIT}))
    with Simulator(scripted(*steps)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url)
        os.mkfifo(project.root / "gate")
        with user_at(cwd=project.root, env=os.environ) as user:
            user.sees("Type a task")
            user.types("a draft")
            user.sees("> a draft")
            user.presses("ctrl-c")
            user.sees("Draft cleared")
            user.types("first\r")
            user.sees("Thinking aloud")
            user.presses("ctrl-c")
            user.sees("Cancelled by you")
            user.types("/new\r")
            user.sees("New session")
            user.types("/slots free\r")
            user.sees("The slots are free again.")
            user.types("second\r")
            user.sees("Permission 1 of 1")
            user.chooses(2)
            user.presses("enter")
            user.waits_for((project.root / "begun").exists)
            user.sees("running")
            user.presses("ctrl-c")
            user.sees("Cancelled by you")
            user.quits()
            assert user.leaves() == 0
        with user_at("sessions", "list", cwd=project.root, env=os.environ) as user:
            user.sees("first")
            user.sees("second")
            assert user.leaves() == 0


def test_a_session_of_five_thousand_messages_opens_on_one_page(tmp_path: Path) -> None:
    from fluzo.core.port import SessionDetail

    def message(number: int) -> dict[str, object]:
        return {
            "id": f"m_{number}",
            "task_id": "t_1",
            "turn": number,
            "position": number,
            "at": "",
            "role": "user",
            "text": f"Message {number}. " + "word " * 40,
            "reasoning": "",
            "tool_calls": [],
            "tool_call_id": "",
            "incomplete": False,
        }

    page = {
        "session": {"id": "s_9", "title": "Long"},
        "tasks": [],
        "messages": [message(number) for number in range(4800, 5000)],
        "more": True,
    }

    async def open_it(shown: ScriptedScreen) -> None:
        assert shown.screen.link is not None
        shown.screen.link.read_page("s_9")
        while not shown.screen.state.session_id:
            await asyncio.sleep(0)
        shown.screen.renderer.rendered = 0
        assert "Message 4999." in "\n".join(shown.draw())
        assert shown.screen.renderer.rendered <= 20
        asked = [query for query in shown.port.queries if isinstance(query, SessionDetail)]
        assert asked == [SessionDetail("s_9", 200, 0)], "no page but the newest is read"

    inside(open_it, answers={SessionDetail: page})
