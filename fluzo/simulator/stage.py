"""A model server for a person: many scenes, of which each task plays the one that its text names.

Invariant: a task's first request chooses the scene, and the requests after it play that scene's steps in their order,
strictly. What no scene foresees (a text of the person's own, a message typed in between) is answered by the scene
`free`, which says what it is; it is noted in `surprises` where a scene expected something else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fluzo.simulator import check
from fluzo.simulator.scenario import Part, Reply, Scenario, Step
from fluzo.simulator.server import RecordedRequest, Simulator

FREE = "free"
SUMMARY = "summary"
"""The scenes for what is in no scene: any other text, and the request for a summary of the conversation."""

_BEGINNING_ENDS = "</context>"
"""How the message that begins an attempt ends: with facts of the workspace. What is queued later has none."""
_BYTES_PER_TOKEN = 3.5


class Stage(Simulator):
    """Plays `scenes`, two of which are `free` and `summary`, on an ephemeral port of 127.0.0.1.

    With a pace an answer comes word by word, `pace_seconds` apart, so that a person sees it come.
    """

    def __init__(self, scenes: Sequence[Scenario], pace_seconds: float = 0.0) -> None:
        self._scenes = {scene.name: scene for scene in scenes}
        self.surprises: list[str] = []
        every = tuple(step for scene in scenes for step in scene.steps)
        super().__init__(replace(self._scenes[FREE], steps=every), pace_seconds)  # The barriers of all scenes.
        self.scenario = self._scenes[FREE]

    def accept(self, request: RecordedRequest, problems: list[str]) -> Step | None:
        with self._lock:
            self.requests.append(request)
            if problems:
                request.problems = problems
                self._problems.append(self._diagnostic(request))
                return None
            step = self._scripted(request)
            request.step = step.id
            return replace(step, respond=_spoken(step.respond, request)) if isinstance(step.respond, Reply) else step

    def _scripted(self, request: RecordedRequest) -> Step:
        if not check.tool_names(request.body):
            return self._scenes[SUMMARY].steps[0]
        begun = _beginning(request.body)
        if begun:
            self.scenario, self._next = self._scene_of(begun), 0
        tried: list[str] = []
        step = self._match(request, None, tried)
        if step is None and self._next < len(self.scenario.steps):
            self.surprises += tried
        return step or self._scenes[FREE].steps[0]

    def _scene_of(self, text: str) -> Scenario:
        found = (scene for scene in self._scenes.values() if scene.prompt and text.startswith(scene.prompt))
        return max(found, key=lambda scene: len(scene.prompt), default=self._scenes[FREE])


def _beginning(body: Mapping[str, Any]) -> str:
    """The text that begins an attempt when the request is its first one, else empty."""
    last = body["messages"][-1]
    text = check.message_text(last)
    return text if last.get("role") == "user" and text.endswith(_BEGINNING_ENDS) else ""


def _spoken(reply: Reply, request: RecordedRequest) -> Reply:
    """The answer in words, and with figures in proportion to what was sent and said, where the script has none."""
    parts = tuple(word for part in reply.parts for word in _words(part))
    said = sum(len(part.text + part.reasoning) for part in parts)
    said += sum(len(part.tool_call.arguments) for part in parts if part.tool_call)
    counted = {
        "prompt_tokens": int(len(request.raw) / _BYTES_PER_TOKEN),
        "completion_tokens": int(said / _BYTES_PER_TOKEN) + 1,
    }
    return replace(reply, parts=parts, usage=counted if reply.usage is None else reply.usage)


def _words(part: Part) -> Sequence[Part]:
    text = part.text or part.reasoning
    if not text or part.times > 1:
        return (part,)
    words = [word for word in text.replace(" ", " \0").split("\0") if word]
    return [Part(text=word) if part.text else Part(reasoning=word) for word in words]
