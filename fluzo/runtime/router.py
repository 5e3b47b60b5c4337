"""Routing: which agent and model a task gets. The MVP has one of each."""

from fluzo.core.contracts import Route
from fluzo.core.records import Task


class FixedRouter:
    """Every task goes to the one configured model; pure."""

    def __init__(self, agent: str, model: str) -> None:
        self._route = Route(agent, model)

    def route(self, task: Task) -> Route:
        return self._route
