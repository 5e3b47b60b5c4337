import json
from pathlib import Path

import pytest
from support.tool_bench import is_plain

from fluzo.core.errors import ToolError
from fluzo.core.records import ToolCall
from fluzo.tools.registry import ARGUMENTS, Registry, build_tools
from fluzo.tools.shared import SeenFiles, ToolLimits

INSTRUCTIONS = Path(__file__).parents[2] / "fluzo" / "context" / "instructions.md"
NAMES = [
    "read_file",
    "list_files",
    "search",
    "edit_file",
    "write_file",
    "delete_file",
    "move_file",
    "run",
    "git",
    "ask_user",
    "update_plan",
]


def registry():
    return Registry(build_tools(SeenFiles(), ToolLimits()))


def prepare(name, arguments):
    return registry().prepare(ToolCall("c1", name, arguments))[1]


def refusal(name, arguments):
    with pytest.raises(ToolError) as caught:
        prepare(name, arguments)
    assert is_plain(caught.value.message)
    return caught.value


def test_the_model_sees_these_tools_in_this_order():
    assert [spec.name for spec in registry().specs()] == NAMES
    assert registry().specs() == registry().specs()


def test_instructions_and_schemas_stay_small():
    tools = [
        {"type": "function", "function": {"name": s.name, "description": s.description, "parameters": s.parameters}}
        for s in registry().specs()
    ]
    size = len(json.dumps(tools)) + len(json.dumps(INSTRUCTIONS.read_text("utf-8")))
    assert size <= 5.6 * 1024


def test_schemas_are_plain_and_complete():
    for spec in registry().specs():
        properties = spec.parameters["properties"]
        assert set(spec.parameters) <= {"type", "properties", "required"}
        assert set(properties) == set(ARGUMENTS[spec.name].fields)
        for schema in properties.values():
            assert set(schema) <= {"type", "description", "enum", "items"}
    plan = next(spec for spec in registry().specs() if spec.name == "update_plan")
    assert plan.parameters["properties"]["steps"]["items"]["required"] == ["step", "status"]


def test_a_good_call_gets_its_defaults():
    assert prepare("read_file", '{"path": "a.py"}') == {"path": "a.py", "offset": 1, "limit": None}


@pytest.mark.parametrize("text", ["", "  ", "null", "{}", '""', '"{}"', '"null"'])
def test_no_arguments_mean_an_empty_object(text):
    assert prepare("list_files", text) == {"path": ".", "depth": 2}


def test_an_object_inside_a_string_is_unwrapped_once():
    assert prepare("read_file", json.dumps('{"path": "a.txt"}'))["path"] == "a.txt"
    assert refusal("read_file", json.dumps(json.dumps('{"path": "a.txt"}'))).code == "tool_arguments"


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "rm -rf build',
        '{"path": "a"',
        '{"path": "a"}}',
        '{"path": "a"}{"path": "b"}',
        '["a"]',
        "7",
        "true",
        '{"path": NaN}',
        '{"path": "a", "path": "b"}',
        "{'path': 'a'}",
        "[" * 100_000,
        '{"offset": ' + "9" * 5_000 + "}",
    ],
)
def test_anything_but_one_json_object_is_refused_and_never_repaired(text):
    assert refusal("read_file", text).code == "tool_arguments"


def test_a_cut_off_call_is_told_to_be_sent_again():
    message = refusal("run", '{"script": "rm -rf build').message
    assert "nothing was run" in message
    assert "send the whole call again" in message


def test_raw_line_ends_inside_a_string_are_accepted():
    assert prepare("write_file", '{"path": "a", "content": "x\n\ty"}')["content"] == "x\n\ty"


def test_a_null_argument_counts_as_not_given():
    assert prepare("read_file", '{"path": "a", "limit": null, "offset": null}')["offset"] == 1
    assert "path is missing" in refusal("read_file", '{"path": null}').message


def test_numbers_and_lists_sent_as_text_are_understood():
    assert prepare("read_file", '{"path": "a", "offset": "5"}')["offset"] == 5
    assert prepare("run", '{"argv": "[\\"cargo\\", \\"test\\"]"}')["argv"] == ["cargo", "test"]
    assert (
        prepare("edit_file", '{"path":"a","old_text":"b","new_text":"c","replace_all":"true"}')["replace_all"] is True
    )


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("edit_file", {"path": "a", "old": "b", "new_text": "c"}, "old_text is missing"),
        ("edit_file", {"path": "a", "old_text": "b", "new_text": "c", "why": "x"}, "why is not an argument"),
        ("read_file", {"path": "a", "offset": "five"}, "offset should be a valid integer"),
        ("read_file", {"path": "a", "offset": True}, "offset should be a number, got True"),
        ("read_file", {"path": "a", "offset": 0}, "offset should be greater than or equal to 1"),
        ("read_file", {"path": 5}, "path should be a valid string, got 5"),
        ("run", {"argv": "cargo test"}, "argv should be a valid list, got 'cargo test'"),
        ("run", {"argv": ["a"], "timeout_seconds": -1}, "timeout_seconds should be greater than 0"),
        ("git", {"subcommand": "stash"}, "'status', 'diff'"),
        ("update_plan", {"steps": [{"step": "a", "status": "maybe"}]}, "steps.0.status should be"),
        ("search", {"pattern": ""}, "pattern should"),
        ("write_file", {"path": "a", "content": {"\ud835": 1}}, "content should be a valid string"),
    ],
)
def test_a_complaint_names_the_argument_and_what_the_tool_takes(name, arguments, part):
    message = refusal(name, json.dumps(arguments)).message
    assert part in message
    assert f"{name} takes: " in message


def test_known_arguments_are_listed_with_the_optional_ones_marked():
    assert refusal("read_file", '{"file": "a"}').message.endswith("read_file takes: path, offset?, limit?")


def test_an_unknown_tool_names_the_ones_there_are():
    error = refusal("bash\x1b[31m", "{}")
    assert error.code == "unknown_tool"
    assert "\x1b" not in error.message
    assert error.message.endswith(", ".join(NAMES))


def test_a_complaint_about_long_input_stays_short():
    assert len(refusal("run", json.dumps({"argv": "x" * 100_000})).message) < 400
