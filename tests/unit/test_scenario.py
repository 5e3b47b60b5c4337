import json
from pathlib import Path
from typing import Any

import pytest

from fluzo.core.errors import ConfigError
from fluzo.simulator import library
from fluzo.simulator.scenario import Reply, load_scenario, parse_scenario

STEP = {"id": "a", "expect": {"last_role": "user"}, "respond": {"parts": [{"text": "x"}]}}
GOOD: dict[str, Any] = {"schema_version": 1, "name": "n", "title": "t", "model": "m", "steps": [STEP]}


def test_a_scenario_is_read_whole() -> None:
    scenario = parse_scenario(GOOD)
    assert scenario.steps[0].expect.last_role == "user"
    assert isinstance(scenario.steps[0].respond, Reply)
    assert scenario.steps[0].respond.parts[0].text == "x"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "scenario.schema_version must be 1, not 2"),
        ({"name": ""}, "scenario.name must be a text"),
        ({"speed": 1}, "scenario has an unknown key 'speed'"),
        ({"steps": []}, "scenario.steps must not be empty"),
        ({"steps": [STEP, STEP]}, "every step needs an id of its own"),
        ({"steps": [{**STEP, "expects": {}}]}, "steps[0] has an unknown key 'expects'"),
        ({"steps": [{**STEP, "expect": {"last_rol": "x"}}]}, "steps[0].expect has an unknown key 'last_rol'"),
        ({"steps": [{**STEP, "expect": {"stream": 1}}]}, "steps[0].expect.stream must be true or false"),
        ({"steps": [{**STEP, "expect": {"messages": True}}]}, "steps[0].expect.messages must be a whole number"),
        ({"steps": [{**STEP, "expect": {"tools": "x"}}]}, "steps[0].expect.tools must be a list"),
        ({"steps": [{**STEP, "respond": None}]}, "steps[0].respond must be an object"),
        ({"steps": [{**STEP, "respond": {"parts": [{}]}}]}, "steps[0].respond.parts[0] must be exactly one of"),
        ({"steps": [{**STEP, "respond": {"parts": [{"disconnect": "x"}]}}]}, "must be close or reset"),
        ({"steps": [{**STEP, "respond": {"status": 200, "text": "", "json": {}}}]}, "more than one body: json, text"),
        ({"steps": [{**STEP, "respond": {"status": 200, "file": "../x"}}]}, "must be the name of a file beside"),
    ],
)
def test_a_mistake_in_a_scenario_is_named_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario({**GOOD, **change}, directory=Path("/nonexistent"))
    assert said in caught.value.message


def test_a_file_that_is_not_json_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"broken\.json is not a readable scenario file"):
        load_scenario(path)


@pytest.mark.parametrize("name", library.scenario_names())
def test_every_scenario_that_ships_is_valid_and_bears_its_name(name: str) -> None:
    scenario = load_scenario(library.scenario_path(name))
    assert scenario.name == name
    assert scenario.prompt
    if scenario.demo is not None:
        assert library.fixture_path(scenario.demo.fixture).is_dir()


@pytest.mark.parametrize("name", ["python-interval", "rust-interval"])
def test_a_repair_is_played_as_its_specification_says(name: str) -> None:
    spec = json.loads(library.spec_path(name).read_text())
    scenario = load_scenario(library.scenario_path(name))
    assert scenario.prompt == spec["prompt"]
    assert scenario.demo is not None
    assert scenario.demo.fixture == spec["fixture"]["path"]
    assert [list(command) for command in scenario.demo.verify] == spec["permissions"]["verification"]
    assert len(scenario.steps) <= spec["budgets"]["max_turns"]
