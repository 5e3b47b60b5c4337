"""What the lists of commands know beside the registry: other words for an action, and why it does nothing now. Pure.

Invariant: an action that does nothing now is still listed, with the reason, and never carried out from a list.
"""

from .keys import Action
from .state import State

ALIASES = {
    "help": "shortcuts bindings hotkeys",
    "interrupt": "stop abort",
    "kill": "terminate end",
    "quit": "exit close leave",
    "session.new": "clear reset start",
    "resume": "continue",
    "sessions": "history conversations open",
    "tasks": "jobs running queue",
    "changes": "diff verification checks review files",
    "diagnostics": "budget tokens cost context usage status events trace",
    "settings": "configuration preferences options advanced permissions grants checks observer developer",
    "settings.models": "configuration endpoint provider",
    "settings.limits": "configuration budget turns time tokens",
    "settings.storage": "configuration disk retention quota",
    "settings.telemetry": "configuration export otlp opentelemetry",
    "settings.notifications": "configuration notices desktop",
    "find": "search",
    "copy.reply": "clipboard yank",
    "raw": "plain export text",
    "notices": "notifications messages",
    "permissions": "decisions grants denied",
    "yolo.on": "unattended automatic session",
    "yolo.off": "permission safe",
    "theme": "colours colors contrast dark",
    "motion": "animation fps on off toggle",
    "mouse": "on off toggle pointer",
    "sidebar": "show hide toggle panel",
    "retry": "again",
    "config.edit": "configuration file toml",
    "slots.free": "capacity",
    "editor": "vim compose",
    "history.find": "previous prompts",
    "queue.show": "pending messages",
}
"""Words that people look for and that the title and the command do not say."""


SWITCHES = {
    "sidebar": "Sidebar",
    "yolo.on": "YOLO, which asks nothing",
    "theme": "Theme",
    "motion": "Reduced motion",
    "mouse": "Mouse",
}
"""What stands before the state of an action that switches something."""


def titled(action: Action, now: str) -> Action:
    """The action with what is so now in its title, as `Mouse: off`."""
    return action._replace(title=f"{SWITCHES[action.id]}: {now}") if now else action


def idle_reason(state: State, action_id: str) -> str:
    """Why an action would do nothing now, in a few words; empty when it would do something."""
    nothing = {
        "answer": (not state.requests, "nothing is asked"),
        "deny": (not state.requests, "nothing is asked"),
        "kill": (not state.running, "no task runs"),
        "queue.back": (not state.queued, "nothing is queued"),
        "queue.show": (not state.queued, "nothing is queued"),
        "copy.reply": (not len(state.blocks), "nothing is here yet"),
        "find": (not len(state.blocks), "nothing is here yet"),
        "raw": (not len(state.blocks), "nothing is here yet"),
        "resume": (not state.session_id, "no session is open"),
        "yolo.on": (state.yolo, "it is on"),
        "yolo.off": (not state.yolo, "it asks already"),
    }
    holds, reason = nothing.get(action_id, (False, ""))
    return reason if holds else ""
