"""The real runtime in this process: open a workspace, start a task, answer what it asks, and see everything."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from support.project import FILES, scripted
from support.workspaces import make_repository

from fluzo import setup_services as setup
from fluzo.core.events import Event, event_from_json
from fluzo.core.port import Ack, Command, EventPage, PendingRequests, StartTask, Subscription, TaskDetail
from fluzo.core.settings import render
from fluzo.host import Host, HostOptions, open_host
from fluzo.simulator.scenario import Scenario
from fluzo.simulator.server import Simulator

DEADLINE_SECONDS = 60.0
"""Only keeps a hang from lasting for ever."""


def workspace(
    root: Path, base_url: str, *, files: Mapping[str, str] | None = None, more: str = "", consent: bool = True
) -> Path:
    """A Git repository with settings for the server at `base_url`, and the user's consent to them."""
    make_repository(root, FILES if files is None else files)
    with (root / ".git" / "info" / "exclude").open("a") as exclude:
        exclude.write("/.fluzo\n/.fluzodrive/\n")
    (root / ".fluzo").write_text(
        f'schema_version = 1\n[agent]\nmodel = "main"\n[models.main]\nprovider = "openai_compatible"\n'
        f'base_url = {render(base_url)}\nmodel = "scripted"\n{more}'
    )
    if consent:
        setup.record_consent(setup.load_settings(root / ".fluzo").settings, root)
    return root


@dataclass
class Running:
    """A started task of an open host."""

    host: Host
    ack: Ack
    subscription: Subscription

    def finish(self) -> Mapping[str, Any]:
        """Wait for the end; the task as a reader sees it."""
        while not self.subscription.ended:
            self.subscription.next(DEADLINE_SECONDS)
        return self.task()

    def task(self) -> Mapping[str, Any]:
        detail: Mapping[str, Any] = self.host.port.query(TaskDetail(self.ack.task_id)).result(DEADLINE_SECONDS).data
        return detail

    def until(self, wanted: Callable[[object], bool]) -> Any:
        """The next update that is wanted."""
        while True:
            update = self.subscription.next(DEADLINE_SECONDS)
            assert update is not None, "the task ended, or nothing came in time"
            if wanted(update):
                return update

    def until_event(self, name: str) -> Event:
        event: Event = self.until(lambda update: isinstance(update, Event) and update.type == name)
        return event

    def pending(self) -> Mapping[str, Any]:
        """The one question that is open once the task waits."""
        self.until(
            lambda update: (
                isinstance(update, Event)
                and update.type == "TaskStateChanged"
                and update.payload._asdict()["new"] == "waiting"
            )
        )
        answer = self.host.port.query(PendingRequests(self.ack.task_id)).result(DEADLINE_SECONDS)
        (found,) = answer.data["pending"]
        question: Mapping[str, Any] = found
        return question

    def tell(self, command: Command) -> Ack:
        return self.host.port.dispatch(command).result(DEADLINE_SECONDS)

    def events(self) -> list[Event]:
        page = self.host.port.query(EventPage(self.ack.task_id, limit=1000)).result(DEADLINE_SECONDS)
        return [event_from_json(item) for item in page.data["events"]]

    def event_names(self) -> list[str]:
        return [event.type for event in self.events()]


def start(host: Host, text: str = "do it", **more: Any) -> Running:
    ack = host.port.dispatch(StartTask(uuid4().hex, text, **more)).result(DEADLINE_SECONDS)
    assert ack.accepted, ack
    return Running(host, ack, host.port.subscribe(ack.task_id, ack.cursor))


def played(
    root: Path, scenario: Scenario, *, files: Mapping[str, str] | None = None, more: str = "", **command: Any
) -> tuple[Mapping[str, Any], list[Event], Simulator]:
    """Play a whole scenario without anybody to ask: the task at its end, its events and the simulator."""
    with Simulator(scenario) as simulator:
        workspace(root, simulator.base_url, files=files, more=more)
        with open_host(HostOptions(root)) as host:
            running = start(host, scenario.prompt or "do it", **command)
            return running.finish(), running.events(), simulator


__all__ = ["Running", "played", "scripted", "start", "workspace"]
