from pathlib import Path

import pytest
from support.hosted import start, workspace
from support.project import call, say, scripted

from fluzo.core.port import EventPage, RenameSession, SessionList
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

WRITE = call("write_file", {"path": "new.txt", "content": "a\nb\n"}, "w1")
HELD = {"respond": {"parts": [{"text": "Half"}, {"hold": "gate"}, {"text": " and half."}]}}


def test_the_list_of_sessions_says_what_each_came_to(tmp_path: Path) -> None:
    with Simulator(scripted(WRITE, say("It is written."))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            task = start(host, "write it", yolo=True).finish()["task"]
            (row,) = host.port.query(SessionList()).result(60).data["sessions"]
    assert (row["id"], row["title"], row["state"], row["reason"]) == (task["session_id"], "write it", "completed", "")
    assert (row["tasks"], row["turns"], row["tokens"]) == (1, 2, task["tokens"])
    assert (row["first"], row["last"]) == ("write it", "It is written.")
    assert (row["paths"], row["added"], row["removed"]) == (["new.txt"], 2, 0)
    assert (row["branch"], row["verdict"]) == ("main", "unverified")
    assert task["verdict"] == "unverified"


def test_a_session_gets_another_title_with_an_event(tmp_path: Path) -> None:
    with Simulator(scripted(say("Hello."))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, "say hello")
            running.finish()
            ack = host.port.dispatch(RenameSession(running.ack.session_id, "  A better\n title ")).result(60)
            assert (ack.accepted, ack.session_id, ack.message) == (True, running.ack.session_id, "A better title")
            events = host.port.query(EventPage(after=ack.cursor)).result(60).data["events"]
            assert [(event["type"], event["data"]) for event in events] == [
                ("SessionRenamed", {"title": "A better title", "old": "say hello"})
            ]
        with open_host(HostOptions(tmp_path)) as host:
            (row,) = host.port.query(SessionList()).result(60).data["sessions"]
            assert row["title"] == "A better title"


@pytest.mark.parametrize("title", ["", " \n "])
def test_a_session_keeps_its_title_when_the_new_one_is_empty(tmp_path: Path, title: str) -> None:
    with Simulator(scripted(say("Hello."))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, "say hello")
            running.finish()
            before = host.port.query(EventPage()).result(60).data["events"]
            ack = host.port.dispatch(RenameSession(running.ack.session_id, title)).result(60)
            assert (ack.accepted, ack.code) == (False, "usage")
            assert host.port.query(EventPage()).result(60).data["events"] == before


def test_a_session_whose_task_runs_is_not_renamed_and_one_that_is_not_there_neither(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, "say hello")
            running.until_event("TurnStarted")
            refused = host.port.dispatch(RenameSession(running.ack.session_id, "new")).result(60)
            unknown = host.port.dispatch(RenameSession("s_none", "new")).result(60)
            simulator.release("gate")
            running.finish()
            (row,) = host.port.query(SessionList()).result(60).data["sessions"]
    assert (refused.accepted, refused.code) == (False, "workspace_owned")
    assert (unknown.accepted, unknown.code) == (False, "not_found")
    assert row["title"] == "say hello"
