import http.client
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fluzo.simulator import library
from fluzo.simulator.scenario import Scenario, load_scenario, parse_scenario
from fluzo.simulator.stage import FREE, SUMMARY, Stage

TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
CONTEXT = "\n\n<context>\non main\n</context>"


def scene(name: str, prompt: str, *steps: dict[str, Any]) -> Scenario:
    return parse_scenario(
        {"schema_version": 1, "name": name, "title": "t", "model": "m", "prompt": prompt, "steps": list(steps)}
    )


def says(name: str, text: str, **expect: Any) -> dict[str, Any]:
    return {"id": name, "expect": expect, "respond": {"parts": [{"text": text}]}}


SCENES = (
    scene("count", "Count.", says("one", "one two"), says("two", "three", last_role="user")),
    scene("longer", "Count. And more.", says("more", "more")),
    scene(FREE, "", says("free", "a script")),
    scene(SUMMARY, "", says("summary", "## Goal")),
)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def asks(stage: Stage, *messages: dict[str, Any], tools: Sequence[object] = TOOLS, stream: bool = False) -> Any:
    """What the stage answers: an object, or the events of a stream."""
    body: dict[str, Any] = {"model": "m", "messages": messages, "stream": stream}
    if tools:
        body["tools"] = tools
    if stream:
        body["stream_options"] = {"include_usage": True}
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(stage.base_url).port)
    connection.request("POST", "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    if stream:
        events = raw.decode().split("\n\n")
        return [json.loads(event.removeprefix("data: ")) for event in events if event and "[DONE]" not in event]
    found = json.loads(raw)
    return found["choices"][0]["message"]["content"] if answer.status == 200 else found["error"]["message"]


def test_a_task_plays_the_scene_that_its_text_names_and_may_play_it_again() -> None:
    with Stage(SCENES) as stage:
        for _ in range(2):
            first = user(f"Count.{CONTEXT}")
            assert asks(stage, first) == "one two"
            assert asks(stage, first, assistant("one two"), user("go on")) == "three"
        assert asks(stage, user(f"Count. And more.{CONTEXT}")) == "more"
        assert stage.surprises == []


def test_what_no_scene_foresees_is_told_that_this_is_a_demo() -> None:
    with Stage(SCENES) as stage:
        assert asks(stage, user(f"Who are you?{CONTEXT}")) == "a script"
        first = user(f"Count. And more.{CONTEXT}")
        assert asks(stage, first) == "more"
        assert asks(stage, first, assistant("more"), user("and now?")) == "a script"
        assert stage.surprises == []


def test_a_scene_that_goes_otherwise_than_written_is_noted() -> None:
    strict = scene("strict", "Be strict.", says("a", "a", any_contains=["what is not there"]))
    with Stage((strict, *SCENES)) as stage:
        assert asks(stage, user(f"Be strict.{CONTEXT}")) == "a script"
        assert "what is not there" in stage.surprises[0]


def test_a_request_that_breaks_the_protocol_is_refused_and_the_next_one_is_not() -> None:
    with Stage(SCENES) as stage:
        assert "the last message is of role 'assistant'" in asks(stage, user("x"), assistant("y"))
        assert asks(stage, user(f"Count.{CONTEXT}")) == "one two"


def test_a_request_without_tools_is_answered_by_a_summary() -> None:
    with Stage(SCENES) as stage:
        asks(stage, user(f"Count.{CONTEXT}"))
        assert asks(stage, user("Conversation, part 1 of 1"), tools=()) == "## Goal"
        assert asks(stage, user("Count."), assistant("one two"), user("go on")) == "three"


def test_an_answer_comes_in_words_and_with_figures_of_its_size() -> None:
    with Stage(SCENES) as stage:
        events = asks(stage, user(f"Count.{CONTEXT}"), stream=True)
        words = [event["choices"][0]["delta"].get("content") for event in events if event["choices"]]
        assert [word for word in words if word] == ["one ", "two"]
        usage = events[-1]["usage"]
        assert usage["completion_tokens"] == 3
        assert usage["prompt_tokens"] == int(len(stage.requests[0].raw) / 3.5)


def test_a_paced_answer_is_cut_when_the_client_leaves() -> None:
    with Stage(SCENES, pace_seconds=60.0) as stage:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(stage.base_url).port)
        body = {"model": "m", "messages": [user(f"Count.{CONTEXT}")], "tools": TOOLS, "stream": True}
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        connection.close()
        assert stage.wait_until_answered(1)
        assert stage.requests[0].outcome == "left"


@pytest.mark.parametrize("path", library.scene_paths(), ids=lambda path: path.stem)
def test_every_scene_that_ships_is_valid(path: Path) -> None:
    scenario = load_scenario(path)
    assert path.stem in (scenario.name, f"{scenario.scene.number:02}-{scenario.name}" if scenario.scene else "")
    assert bool(scenario.prompt) == (scenario.name not in (FREE, SUMMARY))


def test_the_scenes_are_numbered_and_no_text_begins_like_another() -> None:
    scenarios = [load_scenario(path) for path in library.scene_paths()]
    numbers = [scenario.scene.number for scenario in scenarios if scenario.scene]
    assert numbers == list(range(1, len(numbers) + 1))
    prompts = [scenario.prompt for scenario in scenarios if scenario.prompt]
    assert not [(one, two) for one in prompts for two in prompts if one is not two and one.startswith(two)]
