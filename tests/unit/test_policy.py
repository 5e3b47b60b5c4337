import pytest

from fluzo.core.records import FileVersion, Operation
from fluzo.policy.engine import PolicyRules, RulePolicy
from fluzo.policy.scope import exact_scope_of, fingerprint, process_operation, scope_of

EDIT = Operation("edit_file", "edit", "write", "a.py +1 -1", paths=("a.py",), versions=(("a.py", FileVersion("d1")),))
RUN = process_operation(("cargo", "test"))
COMMIT = Operation("git", "git_commit", "execute", "", ("a.py",), argv=("git", "commit", "-m", "x", "--", "a.py"))
PUSH = Operation("git", "git_push", "execute", "", argv=("git", "push"), destination="https://a.example/p.git")


def verdict(operation: Operation, rules: PolicyRules | None = None) -> tuple[str, str]:
    decision = RulePolicy(rules or PolicyRules()).evaluate(operation)
    return decision.verdict, decision.reason


def test_commands_are_asked_for_and_reading_is_not() -> None:
    assert verdict(RUN) == ("ask", "policy_shell")
    assert verdict(Operation("read_file", "read", "read", "a.py", paths=("a.py",)))[0] == "allow"
    assert verdict(Operation("git", "git_read", "read", "status"))[0] == "allow"


def test_a_denied_kind_stays_denied() -> None:
    assert verdict(RUN, PolicyRules(shell="deny")) == ("deny", "policy_shell")
    assert verdict(EDIT, PolicyRules(edit="deny")) == ("deny", "policy_edit")
    assert verdict(COMMIT, PolicyRules(git_commit="deny")) == ("deny", "policy_git_commit")
    assert verdict(PUSH, PolicyRules(git_push="deny")) == ("deny", "policy_git_push")


def test_commits_and_pushes_follow_their_own_rules() -> None:
    assert verdict(COMMIT, PolicyRules(shell="deny", git_push="deny")) == ("ask", "policy_git_commit")
    assert verdict(PUSH, PolicyRules(shell="deny", git_commit="deny")) == ("ask", "policy_git_push")


def test_where_a_push_goes_is_part_of_its_scope() -> None:
    elsewhere = PUSH._replace(destination="https://b.example/p.git")
    assert fingerprint(scope_of(PUSH, "w")) != fingerprint(scope_of(elsewhere, "w"))


@pytest.mark.parametrize(
    "path", [".git/config", ".git", ".fluzo", ".fluzodrive/state.sqlite3", "sub/.git/hooks/pre-commit", ".GIT/config"]
)
def test_protected_paths_are_denied_whatever_the_rules_say(path: str) -> None:
    operation = Operation("write_file", "write", "write", path, paths=(path,))
    assert verdict(operation, PolicyRules(edit="allow")) == ("deny", "protected_path")


@pytest.mark.parametrize("path", [".env", "deploy/id_rsa", "certs/server.pem"])
def test_credential_files_are_denied(path: str) -> None:
    assert verdict(Operation("read_file", "read", "read", path, paths=(path,))) == ("deny", "secret_file")
    assert verdict(COMMIT._replace(paths=(path,))) == ("deny", "secret_file")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ".."])
def test_paths_that_lead_out_are_denied_before_anything_is_tried(path: str) -> None:
    assert verdict(Operation("read_file", "read", "read", path, paths=(path,))) == ("deny", "outside_workspace")


def test_a_file_the_user_had_changed_is_asked_for() -> None:
    touched = Operation("edit_file", "edit", "write", "a.py", paths=("a.py",), touches_user_changes=True)
    assert verdict(touched) == ("ask", "user_changes")
    assert verdict(EDIT) == ("allow", "policy_edit")


@pytest.mark.parametrize(
    "other",
    [
        process_operation(("cargo", "test", "--all")),
        process_operation(("cargo",)),
        process_operation(("cargo test",)),
        process_operation(script="cargo test"),
        process_operation(("cargo", "test"), cwd="sub"),
        process_operation(("cargo", "test"), env=(("A", "1"),)),
        process_operation(("cargo", "test", "&&", "rm", "-rf", "x")),
    ],
)
def test_only_the_exact_command_is_covered(other: Operation) -> None:
    assert fingerprint(scope_of(RUN, "w")) != fingerprint(scope_of(other, "w"))


def test_a_grant_is_bound_to_its_workspace_and_backend() -> None:
    prints = {fingerprint(scope_of(RUN, "w")), fingerprint(scope_of(RUN, "v")), fingerprint(scope_of(RUN, "w", "x"))}
    assert len(prints) == 3


def test_the_exact_scope_moves_with_version_and_content_and_the_task_scope_does_not() -> None:
    newer = Operation("edit_file", "edit", "write", "", paths=("a.py",), versions=(("a.py", FileVersion("d2")),))
    other = Operation("edit_file", "edit", "write", "", paths=("a.py",), versions=EDIT.versions, preview="-x\n+y\n")
    assert exact_scope_of(EDIT, "w") != exact_scope_of(newer, "w")
    assert exact_scope_of(EDIT, "w") != exact_scope_of(other, "w")
    assert scope_of(EDIT, "w") == scope_of(newer, "w") == scope_of(other, "w")


def test_over_user_changes_even_a_task_grant_is_bound_to_the_seen_version() -> None:
    one = Operation("edit_file", "edit", "write", "", ("a",), (("a", FileVersion("d1")),), touches_user_changes=True)
    two = Operation("edit_file", "edit", "write", "", ("a",), (("a", FileVersion("d2")),), touches_user_changes=True)
    assert scope_of(one, "w") != scope_of(two, "w")


def test_a_scope_never_holds_the_value_of_an_environment_variable() -> None:
    operation = process_operation(("x",), env=(("TOKEN", "very-secret-value"),))
    assert "very-secret-value" not in str(scope_of(operation, "w"))
