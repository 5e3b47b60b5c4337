"""The text of a complete `.fluzo`: every setting with its value, in the order of the registry, explained.

Invariant: reading the text back gives equal settings. It is written once, when the file is created; later changes
edit the file that is there, so a person's comments and order stay.
"""

from collections.abc import Iterator, Mapping

from fluzo.core.settings_model import Node, Settings, StandingGrant
from fluzo.core.settings_registry import ordered_fields, plain, render

_HEADER = """\
# Settings of Fluzo for this folder. This file is data: reading it starts nothing and grants nothing.
# It can reveal names and addresses of your servers; whether to commit it is your decision.
# Change it here, or with: fluzo config edit. Meaning of every key: fluzo config schema
"""

_GRANTS = """\
# A command that may run without asking, exactly as written (then run: fluzo config trust):
#   [[policy.grants]]
#   argv = ["make", "lint"]
"""


def settings_document(settings: Settings) -> str:
    """The complete document for `settings`, without any secret (settings hold none)."""
    return _HEADER + "\n" + "\n".join(_table(settings, "")).rstrip() + "\n"


def _table(node: Node, name: str) -> Iterator[str]:
    children: list[tuple[str, Node]] = []
    lines: list[str] = []
    for field in ordered_fields(type(node)):
        value = getattr(node, field)
        path = f"{name}.{field}" if name else field
        if isinstance(value, Node):
            children.append((path, value))
        elif isinstance(value, Mapping) and field not in ("env", "credentials"):
            children += [(f"{path}.{entry}", child) for entry, child in value.items()]
        elif field == "grants":
            children += [(f"[{path}]", grant) for grant in value]
        else:
            unit = type(node).fields[field].notes["unit"]
            lines.append(f"{field} = {render(plain(value))}" + (f"  # {unit}" if unit and unit not in field else ""))
    if name and lines:
        yield from _comment(node)
        yield f"[{name}]"
    yield from _used(node, lines)
    if lines:
        yield ""
    if name == "policy" and not any(isinstance(child, StandingGrant) for _, child in children):
        yield _GRANTS
    for path, child in children:
        yield from _table(child, path)


def _comment(node: Node) -> Iterator[str]:
    if type(node).title:
        yield f"# {type(node).title}"


def _used(node: Node, lines: list[str]) -> list[str]:
    """Without what a grant leaves out: it has either an argument vector or a script."""
    return [line for line in lines if not (isinstance(node, StandingGrant) and line in ("argv = []", 'script = ""'))]
