"""Settings while the runtime is open: shown, saved, taken over, and given to a running task by an act of the user."""

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hosted import Running, scripted, start, workspace
from support.project import call, say

from fluzo.core.errors import FluzoError, UsageError
from fluzo.core.events import Event, event_from_json
from fluzo.core.port import (
    Ack,
    AnswerPermission,
    ApplyConfigToActiveWork,
    ConfigDetail,
    EventPage,
    SaveConfig,
    StartTask,
)
from fluzo.host import Host, HostOptions, open_host, open_keeper
from fluzo.simulator.server import Simulator

ASK = call("run", {"argv": ["true"]})
NOBODY = "http://127.0.0.1:9/v1"
MORE = "# limits of mine\n[harness]\nmax_turns = 5  # few\n"


def detail(host: Host) -> Mapping[str, Any]:
    return host.port.query(ConfigDetail()).result(60).data


def row(host: Host, key: str) -> Mapping[str, Any]:
    return next(item for item in detail(host)["rows"] if item["key"] == key)


def save(host: Host, values: Mapping[str, Any], fingerprint: str | None = None) -> Ack:
    seen = detail(host)["fingerprint"] if fingerprint is None else fingerprint
    return host.port.dispatch(SaveConfig(values, seen)).result(60)


def apply(running: Running, **limits: float) -> Ack:
    return running.tell(ApplyConfigToActiveWork(running.ack.task_id, limits))


def changes(host: Host) -> list[Event]:
    page = host.port.query(EventPage(limit=1000)).result(60).data["events"]
    return [event for event in map(event_from_json, page) if event.type == "ConfigurationChanged"]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Host]:
    with open_host(HostOptions(workspace(tmp_path / "w", NOBODY, more=MORE))) as host:
        yield host


def file_of(host: Host) -> Path:
    return host.root / ".fluzo"


# --- shown ------------------------------------------------------------------------------------------------------


def test_every_setting_is_a_row_with_its_values_and_where_they_come_from(opened: Host) -> None:
    turns, calls = row(opened, "harness.max_turns"), row(opened, "harness.max_tool_calls")
    assert (turns["saved"], turns["effective"], turns["source"], turns["default"]) == (5, 5, "file", 30)
    assert (turns["low"], turns["high"], turns["unit"], turns["group"]) == (1, 100_000, "turns", "Limits")
    assert (calls["saved"], calls["effective"], calls["source"]) == (100, 100, "default")
    assert row(opened, "models.main.context_window")["group"] == "Models"
    assert row(opened, "capacity_pools.local_server.max_in_flight")["applies"] == "next task"
    assert row(opened, "tui.theme")["choices"] == ["default", "high-contrast"]
    assert row(opened, "tui.theme")["applies"] == "live"
    assert row(opened, "telemetry.export_enabled")["applies"] == "restart"


def test_a_broken_file_is_told_with_line_and_key_and_never_written(opened: Host) -> None:
    path = file_of(opened)
    broken = path.read_text().replace("max_turns = 5", "max_turn = 5")
    path.write_text(broken)
    seen = detail(opened)
    assert "line 10: harness.max_turn is not a setting; did you mean harness.max_turns?" in seen["problem"]
    assert row(opened, "harness.max_turns")["effective"] == 5
    assert row(opened, "harness.max_turns")["saved"] is None
    ack = save(opened, {"harness.max_tool_calls": 7})
    assert (ack.accepted, ack.code) == (False, "configuration_invalid")
    assert path.read_text() == broken


# --- saved ------------------------------------------------------------------------------------------------------


def test_a_saved_value_is_in_the_file_with_comments_kept_and_counts_for_the_next_task(tmp_path: Path) -> None:
    with Simulator(scripted(call("list_files", {"path": "."}), say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more=MORE)
        with open_host(HostOptions(root)) as host:
            assert save(host, {"harness.max_turns": 1}).accepted
            assert "# limits of mine\n[harness]\nmax_turns = 1  # few\n" in (root / ".fluzo").read_text()
            assert (row(host, "harness.max_turns")["saved"], row(host, "harness.max_turns")["effective"]) == (1, 1)
            ended = start(host).finish()
        with open_host(HostOptions(root)) as again:
            assert row(again, "harness.max_turns")["effective"] == 1
    assert ended["task"]["limits"]["max_turns"] == 1
    assert ended["task"]["reason"] == "budget_exhausted"


def test_none_takes_a_value_back_to_its_default(opened: Host) -> None:
    assert save(opened, {"harness.max_turns": None}).accepted
    turns = row(opened, "harness.max_turns")
    assert (turns["saved"], turns["effective"], turns["source"], turns["in_file"]) == (30, 30, "default", False)
    assert "max_turns" not in file_of(opened).read_text()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"harness.max_turns": 0}, "harness.max_turns must be a whole number from 1 to 100000"),
        ({"harness.max_turns": "many"}, "harness.max_turns must be a whole number"),
        ({"harness.max_turn": 3}, "did you mean harness.max_turns?"),
        ({"models.main.max_output_tokens": 40_000}, "leaves no room for input"),
        ({"harness.max_turns": 9, "tui.theme": "pink"}, "tui.theme must be"),
        ({"agent.model": "other"}, "agent.model names other"),
        ({"agent.model": None}, "No model is set up"),
        ({"models.main.model": "sk-abcdefghijklmnopqrstuvwx"}, "looks like a literal secret"),
        ({"models.main.base_url": None}, "models.main.base_url is missing"),
    ],
)
def test_values_are_checked_together_and_nothing_of_a_bad_set_is_saved(
    opened: Host, values: Mapping[str, Any], words: str
) -> None:
    before, effective = file_of(opened).read_bytes(), row(opened, "harness.max_turns")["effective"]
    ack = save(opened, values)
    assert not ack.accepted and words in ack.message
    assert "sk-abc" not in ack.message
    assert file_of(opened).read_bytes() == before
    assert row(opened, "harness.max_turns")["effective"] == effective
    assert changes(opened) == []


def test_two_values_that_are_only_valid_together_are_saved_together(opened: Host) -> None:
    wanted = {"models.main.context_window": 9000, "models.main.max_output_tokens": 2048}
    assert not save(opened, {"models.main.context_window": 6000}).accepted
    assert save(opened, wanted).accepted
    assert {key: row(opened, key)["effective"] for key in wanted} == wanted


def test_entries_are_described_added_and_removed_as_one_with_what_names_them(opened: Host) -> None:
    kinds = {(kind["table"], kind["listed"], len(kind["rows"]) > 2) for kind in detail(opened)["entries"]}
    assert kinds == {("models", False, True), ("capacity_pools", False, True), ("policy.grants", True, True)}
    assert row(opened, "models.main.provider")["choices"] == ["openai_compatible"]

    refused = save(opened, {"models.main": None})
    assert (refused.accepted, refused.code) == (False, "configuration_invalid")
    assert "agent.model names main, but there is no [models.main]" in refused.message
    unknown = save(opened, {"models.main.nothing": None})
    assert (unknown.accepted, unknown.code) == (False, "usage")

    new = {"provider": "openai_compatible", "base_url": NOBODY, "model": "other"}
    values = {f"models.other.{name}": value for name, value in new.items()}
    assert save(opened, {"models.main": None, "agent.model": "other", **values}).accepted
    assert row(opened, "models.other.model")["effective"] == "other"
    assert not [item for item in detail(opened)["rows"] if item["key"].startswith("models.main.")]
    assert detail(opened)["consent"] == ["endpoint:other"]


def test_a_file_that_moved_is_not_written_over(opened: Host) -> None:
    seen = detail(opened)["fingerprint"]
    path = file_of(opened)
    outside = path.read_text() + "max_tool_calls = 50\n"
    path.write_text(outside)
    ack = save(opened, {"harness.max_turns": 9}, seen)
    assert (ack.accepted, ack.code) == (False, "config_changed")
    assert path.read_text() == outside
    assert row(opened, "harness.max_tool_calls")["effective"] == 100


def test_edits_go_on_top_of_the_file_as_it_is_now_and_outside_changes_survive(opened: Host) -> None:
    path = file_of(opened)
    path.write_text(path.read_text() + "max_tool_calls = 50\n")
    assert save(opened, {"harness.max_turns": 9}).accepted
    assert "max_turns = 9  # few\nmax_tool_calls = 50\n" in path.read_text()
    assert row(opened, "harness.max_tool_calls")["effective"] == 50


def test_without_values_the_file_is_taken_over_as_it_stands(opened: Host) -> None:
    path = file_of(opened)
    outside = path.read_text().replace("max_turns = 5", "max_turns = 8")
    path.write_text(outside)
    turns = row(opened, "harness.max_turns")
    assert (turns["saved"], turns["effective"]) == (8, 5)
    assert detail(opened)["in_force"] != detail(opened)["fingerprint"]
    assert save(opened, {}).accepted
    assert row(opened, "harness.max_turns")["effective"] == 8
    assert path.read_text() == outside


def test_a_failed_write_leaves_file_and_runtime_as_they_were(opened: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = file_of(opened).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ack = save(opened, {"harness.max_turns": 9})
    assert not ack.accepted and "could not be saved: No space left on device" in ack.message
    assert file_of(opened).read_bytes() == before
    assert row(opened, "harness.max_turns")["effective"] == 5


def test_a_file_that_is_gone_is_not_made_anew(opened: Host) -> None:
    file_of(opened).unlink()
    assert detail(opened)["fingerprint"] == ""
    ack = save(opened, {"harness.max_turns": 9})
    assert (ack.accepted, ack.code) == (False, "configuration_required")
    assert not file_of(opened).exists()


def test_a_flag_stays_in_force_whatever_is_saved(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more=MORE)
        with open_host(HostOptions(root, sets=("harness.max_turns=80",))) as host:
            locked = row(host, "harness.max_turns")
            assert (locked["saved"], locked["effective"], locked["source"], locked["flag"]) == (5, 80, "flag", "--set")
            assert save(host, {"harness.max_turns": 9}).accepted
            locked = row(host, "harness.max_turns")
            assert (locked["saved"], locked["effective"], locked["source"]) == (9, 80, "flag")
            assert start(host).finish()["task"]["limits"]["max_turns"] == 80


def test_what_needs_a_restart_is_saved_and_not_yet_in_force(opened: Host) -> None:
    assert save(opened, {"telemetry.otlp_endpoint": "http://127.0.0.1:9999"}).accepted
    endpoint = row(opened, "telemetry.otlp_endpoint")
    assert (endpoint["saved"], endpoint["effective"]) == ("http://127.0.0.1:9999", "http://127.0.0.1:4318")


def test_a_save_never_consents(opened: Host) -> None:
    assert detail(opened)["consent"] == []
    assert save(opened, {"models.main.base_url": "http://127.0.0.1:10/v1"}).accepted
    assert detail(opened)["consent"] == ["endpoint:main"]
    with pytest.raises(FluzoError) as refused:
        opened.port.dispatch(StartTask("r", "go")).result(60)
    assert refused.value.code == "consent_required"


def test_a_change_is_on_record_and_private_values_are_not(opened: Host) -> None:
    save(opened, {"harness.max_turns": 9, "models.main.model": "hidden-name"})
    (event,) = changes(opened)
    told = event.payload._asdict()
    assert told["changes"] == (
        {"key": "models.main.model", "private": True},
        {"key": "harness.max_turns", "old": 5, "new": 9},
    )
    assert told["effective"]["harness.max_turns"] == 9
    assert told["version"] == detail(opened)["fingerprint"]
    assert "hidden-name" not in str(told)


# --- given to a running task ------------------------------------------------------------------------------------


def deny(running: Running, pending: Mapping[str, Any]) -> None:
    running.tell(AnswerPermission(running.ack.task_id, pending["operation_id"], pending["fingerprint"], "deny"))


def test_a_save_leaves_the_running_task_alone_and_counts_for_the_next(tmp_path: Path) -> None:
    with Simulator(scripted(ASK, say("done"), say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more=MORE)
        with open_host(HostOptions(root)) as host:
            running = start(host, interactive=True)
            pending = running.pending()
            assert save(host, {"harness.max_turns": 1, "harness.max_tool_calls": 50}).accepted
            deny(running, pending)
            ended = running.finish()["task"]
            assert (ended["state"], ended["limits"]["max_turns"]) == ("completed", 5)
            assert start(host).finish()["task"]["limits"]["max_tool_calls"] == 50


def test_limits_are_given_to_the_running_task_by_an_act_of_their_own(tmp_path: Path) -> None:
    with Simulator(scripted(ASK, say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more="[harness]\nmax_turns = 1\n")
        with open_host(HostOptions(root)) as host:
            running = start(host, interactive=True)
            pending = running.pending()
            used = running.task()["task"]["consumption"]
            assert apply(running, max_turns=3).accepted
            after = running.task()["task"]
            assert after["limits"]["max_turns"] == 3
            assert after["consumption"]["turns"] == used["turns"] == 1
            assert after["consumption"]["input_tokens"] == used["input_tokens"]
            deny(running, pending)
            ended = running.finish()["task"]
            told = [event.payload._asdict() for event in running.events() if event.type == "LimitsExtended"]
            assert row(host, "harness.max_turns")["saved"] == 1
    assert (ended["state"], ended["consumption"]["turns"]) == ("completed", 2)
    assert told == [{"limit": "max_turns", "old": 1, "new": 3, "by": "user"}]


def test_a_limit_below_what_is_used_up_ends_the_task_as_used_up(tmp_path: Path) -> None:
    again = call("list_files", {"path": "."}, "call_2")
    with Simulator(scripted(again, ASK)) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more=MORE)
        with open_host(HostOptions(root)) as host:
            running = start(host, interactive=True)
            pending = running.pending()
            assert apply(running, max_turns=1).accepted
            deny(running, pending)
            ended = running.finish()["task"]
    assert (ended["state"], ended["reason"]) == ("blocked", "budget_exhausted")
    assert ended["consumption"]["turns"] == 2
    assert len(simulator.requests) == 2


@pytest.mark.parametrize(
    ("sets", "limits", "code", "words"),
    [
        ((), {"max_turns": 0}, "configuration_invalid", "from 1 to 100000"),
        ((), {"shell_timeout_seconds": 5}, "usage", "not a limit of a task"),
        ((), {"max_total_tokens": 2000}, "configuration_invalid", "more than one reply may take"),
        ((), {"max_cost_microunits": 5}, "configuration_invalid", "harness.currency is missing"),
        (("harness.max_turns=7",), {"max_turns": 9}, "config_locked", "command line"),
    ],
)
def test_a_limit_that_cannot_hold_is_refused_and_the_task_keeps_its_own(
    tmp_path: Path, sets: tuple[str, ...], limits: Mapping[str, float], code: str, words: str
) -> None:
    with Simulator(scripted(ASK, say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more=MORE)
        with open_host(HostOptions(root, sets=sets)) as host:
            running = start(host, interactive=True)
            pending = running.pending()
            before = running.task()["task"]["limits"]
            ack = apply(running, **limits)
            assert (ack.accepted, ack.code) == (False, code) and words in ack.message
            assert running.task()["task"]["limits"] == before
            deny(running, pending)
            running.finish()


def test_a_task_that_is_over_gets_no_limits(tmp_path: Path) -> None:
    with Simulator(scripted(say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url)
        with open_host(HostOptions(root)) as host:
            running = start(host)
            running.finish()
            assert apply(running, max_turns=9).code == "not_found"


# --- who can reach it -------------------------------------------------------------------------------------------


def test_a_host_without_settings_refuses_all_of_it(tmp_path: Path) -> None:
    root = workspace(tmp_path / "w", NOBODY)
    with open_host(HostOptions(root)):
        pass
    for host in (open_host(HostOptions(root, read_only=True)), open_keeper(HostOptions(root))):
        with host:
            for answer in (host.port.query(ConfigDetail()), host.port.dispatch(SaveConfig({}, "f"))):
                with pytest.raises(UsageError):
                    answer.result(60)


def test_a_tool_cannot_write_the_settings(tmp_path: Path) -> None:
    write = call("write_file", {"path": ".fluzo", "content": "schema_version = 1\n"})
    with Simulator(scripted(write, say("done"))) as simulator:
        root = workspace(tmp_path / "w", simulator.base_url, more=MORE)
        before = (root / ".fluzo").read_bytes()
        with open_host(HostOptions(root)) as host:
            running = start(host, yolo=True)
            running.finish()
            refusals = [
                event.payload._asdict()["code"] for event in running.events() if event.type == "OperationRefused"
            ]
    assert (root / ".fluzo").read_bytes() == before
    assert refusals
