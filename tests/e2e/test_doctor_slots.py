from pathlib import Path

from support.project import configure
from support.workspaces import make_repository

MORE = """\
[models.alias]
provider = "openai_compatible"
base_url = "http://127.0.0.1:9/v1"
model = "scripted"
capacity_id = "main"

[models.alias.compat]
stops_on_disconnect = true

[capacity_pools.local_server]
max_in_flight = 3
queue_capacity = 4
queue_timeout_seconds = 7.5
"""


def test_doctor_shows_the_ceilings_of_pools_and_models_and_claims_nothing_about_other_processes(tmp_path: Path) -> None:
    project = configure(make_repository(tmp_path / "r", {"a.txt": "a\n"}), "http://127.0.0.1:9/v1", more=MORE)
    told: dict[str, list[str]] = {}
    for check in project.json("doctor", "--slots")["checks"]:
        told.setdefault(check["name"], []).append(check["message"])
    assert told["pool"] == ["local_server: 3 requests at a time, 4 more may wait for 7.5 s; 2 for observations"]
    assert told["slot"] == [
        "main: 1 request at a time in local_server, shared with alias; a request that was given up on keeps it",
        "alias: 1 request at a time in local_server, shared with main; a request that was given up on frees it",
    ]
    assert "every Fluzo process counts for itself" in told["slots"][0]
    assert "slots" not in {check["name"] for check in project.json("doctor")["checks"]}
