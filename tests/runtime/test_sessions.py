import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.hosted import start, workspace
from support.project import call, say, scripted

from fluzo.core.errors import FluzoError
from fluzo.core.port import EventPage, OtherSession, OtherSessions, RenameSession, SessionList
from fluzo.host import HostOptions, open_host
from fluzo.runtime.elsewhere import MAX_FOLDERS
from fluzo.simulator.server import Simulator
from fluzo.storage import consent

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


# --- other folders ------------------------------------------------------------------------------------------------


SHM = "state.sqlite3-shm"


def written_in(folder: Path, base_url: str) -> dict[str, Any]:
    """A folder with one session; its row as it stands in the list there."""
    workspace(folder, base_url)
    with open_host(HostOptions(folder)) as host:
        start(host, "say hello", yolo=True).finish()
        row: dict[str, Any] = host.port.query(SessionList()).result(60).data["sessions"][0]
    return row


def everything(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) for path in files}


def test_sessions_of_other_folders_are_listed_and_read_and_nothing_there_is_changed(tmp_path: Path) -> None:
    with Simulator(scripted(say("Hello."))) as simulator:
        row = written_in(tmp_path / "other", simulator.base_url)
    here = workspace(tmp_path / "here", "http://127.0.0.1:9/v1")
    workspace(tmp_path / "empty", "http://127.0.0.1:9/v1")
    shutil.rmtree(tmp_path / "empty")
    before = everything(tmp_path / "other")
    with open_host(HostOptions(here)) as host:
        found = host.port.query(OtherSessions()).result(60).data
        assert found == {"sessions": [{**row, "folder": str(tmp_path / "other")}], "folders": [], "left_out": 0}
        told = host.port.query(OtherSession(str(tmp_path / "other"), str(row["id"]))).result(60).data
        assert [message["text"] for message in told["messages"]][-1] == "Hello."
        assert told["session"]["folder"] == str(tmp_path / "other")
        assert [task["state"] for task in told["tasks"]] == ["completed"]
        json.dumps([found, told])
        for folder, session_id in ((str(tmp_path / "other"), "s_none"), (str(tmp_path), str(row["id"]))):
            with pytest.raises(FluzoError) as caught:
                host.port.query(OtherSession(folder, session_id)).result(60)
            assert caught.value.code == "not_found"
        assert host.port.query(SessionList()).result(60).data["sessions"] == []
    assert everything(tmp_path / "other") == before


def test_a_folder_that_is_owned_is_read_and_its_running_task_is_not_called_interrupted(tmp_path: Path) -> None:
    with Simulator(scripted(HELD)) as simulator:
        other = workspace(tmp_path / "other", simulator.base_url)
        here = workspace(tmp_path / "here", "http://127.0.0.1:9/v1")
        with open_host(HostOptions(other)) as busy, open_host(HostOptions(here)) as host:
            running = start(busy, "say hello")
            running.until_event("TurnStarted")
            (row,) = host.port.query(OtherSessions()).result(60).data["sessions"]
            assert row["state"] == "running"
            simulator.release("gate")
            running.finish()
            (row,) = host.port.query(OtherSessions()).result(60).data["sessions"]
            assert row["state"] == "completed"


def test_the_log_of_a_store_that_was_cut_off_stays_as_it_was_left(tmp_path: Path) -> None:
    cut = workspace(tmp_path / "cut", "http://127.0.0.1:9/v1")
    here = workspace(tmp_path / "here", "http://127.0.0.1:9/v1")
    with Simulator(scripted(say("Hello."))) as simulator:
        other = workspace(tmp_path / "other", simulator.base_url)
        with open_host(HostOptions(other)) as host:
            start(host, "say hello", yolo=True).finish()
            # As a killed writer leaves it.
            shutil.copytree(other / ".fluzodrive", cut / ".fluzodrive", ignore=lambda _, names: set(names) & {SHM})
    before = everything(cut)
    assert before[f"{cut}/.fluzodrive/state.sqlite3-wal"][0]
    with open_host(HostOptions(here)) as host:
        rows = host.port.query(OtherSessions()).result(60).data["sessions"]
        row = next(row for row in rows if row["folder"] == str(cut))
        told = host.port.query(OtherSession(str(cut), str(row["id"]))).result(60).data
    assert [message["text"] for message in told["messages"]][-1] == "Hello."
    after = everything(cut)
    after.pop(f"{cut}/.fluzodrive/{SHM}", None)  # Memory that those who look share, made from the log.
    assert after == before


def test_a_store_of_another_schema_a_damaged_one_and_another_folder_are_told_and_left_alone(tmp_path: Path) -> None:
    names = ("newer", "older", "damaged", "replaced")
    with Simulator(scripted(say("Hello."))) as simulator:
        written_in(tmp_path / "newer", simulator.base_url)
    for name in names[1:]:
        workspace(tmp_path / name, "http://127.0.0.1:9/v1")
        shutil.copytree(tmp_path / "newer/.fluzodrive", tmp_path / name / ".fluzodrive")
    for name, step in (("newer", 1), ("older", -1)):
        with sqlite3.connect(tmp_path / name / ".fluzodrive/state.sqlite3") as db:
            db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0] + step}")
        db.close()
    (tmp_path / "damaged/.fluzodrive/state.sqlite3").write_bytes(b"no database" * 100)
    shutil.copytree(tmp_path / "replaced", tmp_path / "copy", symlinks=True)
    shutil.rmtree(tmp_path / "replaced")
    (tmp_path / "copy").rename(tmp_path / "replaced")
    before = {name: everything(tmp_path / name) for name in names}
    here = workspace(tmp_path / "here", "http://127.0.0.1:9/v1")
    with open_host(HostOptions(here)) as host:
        found = host.port.query(OtherSessions()).result(60).data
    assert found["sessions"] == []
    assert {Path(item["folder"]).name: item["code"] for item in found["folders"]} == {
        "newer": "schema_too_new",
        "older": "storage_failed",
        "damaged": "store_damaged",
        "replaced": "workspace_changed",
    }
    assert all(item["problem"] and item["hint"] for item in found["folders"])
    assert {name: everything(tmp_path / name) for name in names} == before


def test_no_more_folders_are_looked_at_than_a_list_can_wait_for(tmp_path: Path) -> None:
    here = workspace(tmp_path / "here", "http://127.0.0.1:9/v1")
    records = consent.folder() / "consent.json"
    known = json.loads(records.read_text())
    known["workspaces"] |= {f"1:{number}:{tmp_path}/gone{number}": {} for number in range(MAX_FOLDERS + 7)}
    records.write_text(json.dumps(known))
    with open_host(HostOptions(here)) as host:
        found = host.port.query(OtherSessions()).result(60).data
    assert found == {"sessions": [], "folders": [], "left_out": 7}
