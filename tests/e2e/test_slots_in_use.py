from pathlib import Path

from support.hosted import start, workspace
from support.project import Project, call, say, scripted

from fluzo.core.port import CancelTask, CapacityStatus, ResetCapacity
from fluzo.host import HostOptions, open_host
from fluzo.simulator.server import Simulator

HELD = {"respond": {"parts": [{"text": "half"}, {"hold": "gate"}, {"text": "more"}]}}


def test_a_slot_that_may_still_be_used_is_shown_and_freed_only_by_the_user(tmp_path: Path) -> None:
    with Simulator(scripted(HELD, say("free again"))) as simulator:
        project = Project(workspace(tmp_path, simulator.base_url))
        with open_host(HostOptions(tmp_path)) as host:
            first = start(host)
            assert simulator.wait_until_held("gate")
            first.tell(CancelTask(first.ack.task_id))
            first.finish()
            blocked = start(host, "again").finish()
            assert blocked["task"]["reason"] == "capacity_full"
            shown = project.fluzo("doctor", "--slots").stdout.decode()
            assert "pool local_server: 1 of 1 in use, 1 uncertain" in shown
            asked = project.fluzo("doctor", "--reset-slots")
            assert asked.returncode == 2 and b"confirmation_required" in asked.stderr
            freed = project.fluzo("doctor", "--reset-slots", "--yes").stdout.decode()
            assert "1 uncertain slots were freed" in freed
            slots = host.port.query(CapacityStatus()).result(60).data["slots"]
            assert {use["uncertain"] for use in slots} == {0}
            assert start(host, "again").finish()["task"]["state"] == "completed"
            assert host.port.dispatch(ResetCapacity()).result(60).message == "0"


def test_without_a_running_fluzo_there_is_nothing_to_free(tmp_path: Path) -> None:
    with Simulator(scripted(call("read_file", {"path": "README.md"}))) as simulator:
        project = Project(workspace(tmp_path, simulator.base_url))
        done = project.fluzo("doctor", "--reset-slots", "--yes")
    assert b"no Fluzo runs in this workspace" in done.stdout
