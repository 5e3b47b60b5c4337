"""Policy: one pure function from a proposed operation to Allow, Deny or AskUser (PRD 12, 42).

The strictest rule wins. Grants and YOLO are not seen here: they can settle a question, never a denial.
"""

from typing import Literal

from fluzo.core.named import NamedTuple
from fluzo.core.paths import is_protected_path, is_secret_path
from fluzo.core.records import Decision, Operation

Rule = Literal["allow", "ask", "deny"]


class PolicyRules(NamedTuple):
    """The `[policy]` table: what the user wants done with each kind of effect."""

    edit: Rule = "allow"
    shell: Rule = "ask"
    git_commit: Rule = "ask"
    git_push: Rule = "ask"


class RulePolicy:
    def __init__(self, rules: PolicyRules) -> None:
        self._rules = rules

    def evaluate(self, operation: Operation) -> Decision:
        """Decide one operation. Deterministic; the same operation under the same rules gets the same answer."""
        return (
            self._boundary(operation)
            or self._process(operation)
            or self._change(operation)
            or Decision("allow", "within_workspace")
        )

    def _boundary(self, operation: Operation) -> Decision | None:
        for path in operation.paths:
            if path.startswith("/") or ".." in path.split("/"):
                return Decision("deny", "outside_workspace", f"{path} leads out of the workspace")
            if is_protected_path(path):
                return Decision("deny", "protected_path", f"{path} is protected; Git and Fluzo's own files stay closed")
            if is_secret_path(path):
                return Decision("deny", "secret_file", f"{path} looks like a credential file; it stays closed")
        return None

    def _process(self, operation: Operation) -> Decision | None:
        if operation.effect != "execute":
            return None
        match operation.action:
            case "git_commit":
                return _by_rule(self._rules.git_commit, "git_commit", f"a commit in your name; {_PROGRAMS_RUN}")
            case "git_push":
                return _by_rule(self._rules.git_push, "git_push", f"a push with your rights; {_PROGRAMS_RUN}")
            case _:
                return _by_rule(self._rules.shell, "shell", "nobody has allowed exactly this command yet")

    def _change(self, operation: Operation) -> Decision | None:
        if operation.effect != "write":
            return None
        decision = _by_rule(self._rules.edit, "edit", "a change of a file in the workspace")
        if operation.touches_user_changes and decision.verdict == "allow":
            return Decision("ask", "user_changes", "you had changed this file before the task began")
        return decision


_PROGRAMS_RUN = "hooks, filters and other programs that your Git settings name run with it, unsandboxed"


def _by_rule(rule: Rule, name: str, text: str) -> Decision:
    if rule == "deny":
        return Decision("deny", f"policy_{name}", f'policy.{name} = "deny"')
    return Decision(rule, f"policy_{name}", text)
