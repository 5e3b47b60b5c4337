"""A task that is cut off in the middle and goes on: what the model wants before and after, and where it is asked."""

from pathlib import Path

from support.project import call, say, scripted

from fluzo import setup_services as setup
from fluzo.core.settings import render
from fluzo.simulator.scenario import Scenario

COMMAND = ("sh", "-c", "echo run >> ran")
"""Each time it runs, it leaves a line in `ran`."""
EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
RUN = call("run", {"argv": list(COMMAND)}, "c1")


def second_part() -> Scenario:
    """The agent wants the same command again, whatever became of the first, and is then done."""
    again = call("run", {"argv": list(COMMAND)}, "c9")
    return scripted(again, *({**say(text), "optional": True} for text in ("went on", ".", ".", ".")))


def point_at(root: Path, base_url: str, more: str = "") -> None:
    """Have the workspace use another server from now on, with the user's consent to it."""
    (root / ".fluzo").write_text(
        'schema_version = 1\n[agent]\nmodel = "main"\n[models.main]\nprovider = "openai_compatible"\n'
        f'base_url = {render(base_url)}\nmodel = "scripted"\n{more}'
    )
    setup.record_consent(setup.load_settings(root / ".fluzo").settings, root)
