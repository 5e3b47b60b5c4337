"""Commits and pushes of the agent, in real repositories and to a real remote."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hosted import played, start, workspace
from support.local_bench import local_bench
from support.project import call, make_project, say, scripted
from support.tool_bench import ToolBench
from support.workspaces import git

from fluzo.core.events import OperationDecided
from fluzo.core.port import AnswerPermission
from fluzo.core.records import Operation
from fluzo.host import HostOptions, open_host
from fluzo.policy.scope import exact_scope_of, fingerprint, process_operation, scope_of
from fluzo.simulator.server import Simulator

FILES = {"README.md": "read me\n", "sheep.py": "COUNT = 1\n", "goat.py": "GOATS = 1\n"}
COMMIT = {"subcommand": "commit", "message": "Count again", "paths": ["sheep.py"]}
PUSH = {"subcommand": "push", "remote": "origin", "branch": "main"}


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    with local_bench(tmp_path / "p") as made:
        root = tmp_path / "p"
        for name, text in FILES.items():
            (root / name).write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-qm", "begin")
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "p"


def remote(root: Path) -> Path:
    """A bare repository that `origin` leads to; it has what the workspace has."""
    bare = root.parent / "remote.git"
    git(root, "init", "-q", "--bare", str(bare))
    git(root, "remote", "add", "origin", str(bare))
    git(root, "push", "-q", "origin", "main")
    return bare


def hook(root: Path, name: str, script: str) -> None:
    path = root / ".git" / "hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def subjects(root: Path) -> list[str]:
    return git(root, "log", "--format=%s").decode().splitlines()


def in_commit(root: Path) -> list[str]:
    names = git(root, "show", "--format=", "--name-only", "-z", "HEAD").split(b"\0")
    return sorted(os.fsdecode(name) for name in names if name)


def status(root: Path) -> list[str]:
    return [os.fsdecode(line) for line in git(root, "status", "--porcelain", "-z").split(b"\0") if line]


# --- commit ---------------------------------------------------------------------------------------------------


def test_a_commit_holds_the_named_files_alone_and_leaves_what_else_is_staged(bench: ToolBench, root: Path) -> None:
    (root / "sheep.py").write_text("COUNT = 2\n")
    (root / "goat.py").write_text("GOATS = 2\n")
    git(root, "add", "goat.py")
    (root / "goat.py").write_text("GOATS = 3\n")
    (root / "README.md").write_text("changed\n")
    result = bench.call("git", **COMMIT)
    assert result.ok
    assert subjects(root) == ["Count again", "begin"]
    assert in_commit(root) == ["sheep.py"]
    assert status(root) == [" M README.md", "MM goat.py"]
    assert git(root, "show", ":goat.py") == b"GOATS = 2\n"
    assert result.text.startswith(f"committed {git(root, 'rev-parse', 'HEAD').decode().strip()}\n")
    assert result.detail["commit"] == git(root, "rev-parse", "HEAD").decode().strip()
    assert git(root, "log", "-1", "--format=%an <%ae>").decode().strip() == "Test Person <test@example.invalid>"


def test_new_and_deleted_files_are_committed_by_name(bench: ToolBench, root: Path) -> None:
    (root / "new.py").write_text("N = 1\n")
    (root / "other.py").write_text("N = 2\n")
    (root / "goat.py").unlink()
    args = {**COMMIT, "paths": ["new.py", "goat.py"]}
    operation = bench.describe("git", **args)
    assert operation.preview == "new        new.py\ndeleted    goat.py\n"
    assert bench.execute(operation, **args).ok
    assert in_commit(root) == ["goat.py", "new.py"]
    assert status(root) == ["?? other.py"]


def test_the_first_commit_of_a_repository_can_be_made(tmp_path: Path) -> None:
    with local_bench(tmp_path / "q") as bench:
        (tmp_path / "q" / "a").write_text("a")
        assert bench.call("git", subcommand="commit", message="begin", paths=["a"]).ok
        assert in_commit(tmp_path / "q") == ["a"]


@pytest.mark.parametrize(
    "name",
    ["a b.py", "s*r.py", "s?r.py", "[ab].py", 'q"uote', "back\\slash", "测试.txt", "line\nend", "caf\udce9", "what?"],
)
def test_odd_names_mean_exactly_themselves(bench: ToolBench, root: Path, name: str) -> None:
    # Git stops at an exact match; a name that sorts before it is one that a pattern would have caught.
    bystanders = ("s1r.py", "star.py", "a", "a.py", "whats")
    for bystander in bystanders:
        (root / bystander).write_text("before")
    git(root, "add", "--", *bystanders)
    git(root, "commit", "-qm", "bystanders")
    for bystander in bystanders:
        (root / bystander).write_text("not this")
    git(root, "add", "--", *bystanders)
    file = Path(f"{root}/{name}")

    def committed() -> list[str]:
        assert bench.call("git", **{**COMMIT, "paths": [name]}).ok
        return in_commit(root)

    file.write_text("one")
    assert committed() == [name]
    file.write_text("two")
    assert committed() == [name]
    file.unlink()
    assert committed() == [name]
    assert set(status(root)) == {f"M  {bystander}" for bystander in bystanders}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"paths": ["--all"]}, "tool_arguments"),
        ({"paths": ["-a"]}, "tool_arguments"),
        ({"paths": [":/"]}, "tool_arguments"),
        ({"paths": ["../p/sheep.py"]}, "tool_arguments"),
        ({"paths": []}, "tool_arguments"),
        ({"message": " "}, "tool_arguments"),
        ({"message": "a\0b"}, "tool_arguments"),
        ({"message": "\ud800"}, "tool_arguments"),
        ({"rev": "HEAD"}, "tool_arguments"),
        ({"paths": ["sheep.py", "missing.py"]}, "nothing_to_commit"),
        ({"paths": ["goat.py"]}, "nothing_to_commit"),
        ({"paths": ["*.py"]}, "nothing_to_commit"),
        ({"paths": ["gone"]}, "nothing_to_commit"),
        ({"paths": ["ignored.log"]}, "nothing_to_commit"),
        ({"paths": ["sub"]}, "is_directory"),
    ],
)
def test_what_is_not_a_changed_file_by_name_is_refused(
    bench: ToolBench, root: Path, args: Mapping[str, Any], code: str
) -> None:
    (root / "gone").mkdir()
    (root / "gone" / "x").write_text("x")
    git(root, "add", "gone/x")
    git(root, "commit", "-qm", "more")
    (root / "gone" / "x").unlink()
    (root / "gone").rmdir()
    (root / "sub").mkdir()
    (root / "sub" / "y").write_text("y")
    (root / ".git" / "info" / "exclude").write_text("*.log\n")
    (root / "ignored.log").write_text("x")
    (root / "sheep.py").write_text("COUNT = 2\n")
    before = status(root)
    assert bench.error("git", **{**COMMIT, **args}).code == code
    assert status(root) == before
    assert subjects(root) == ["more", "begin"]


def test_a_message_is_never_an_option(bench: ToolBench, root: Path) -> None:
    for number, message in enumerate(("--amend", "-a", "# not a comment\n\nbody")):
        (root / "sheep.py").write_text(f"COUNT = {number + 2}\n")
        assert bench.call("git", **{**COMMIT, "message": message}).ok
    assert len(subjects(root)) == 4
    assert git(root, "log", "-1", "--format=%B").decode().strip() == "# not a comment\n\nbody"


def test_a_hook_that_refuses_leaves_nothing_staged_and_is_heard(bench: ToolBench, root: Path) -> None:
    hook(root, "pre-commit", "echo the sheep are unhappy >&2; exit 1")
    (root / "new.py").write_text("N = 1\n")
    (root / "sheep.py").write_text("COUNT = 2\n")
    before = status(root)
    result = bench.call("git", **{**COMMIT, "paths": ["new.py", "sheep.py"]})
    assert (result.ok, result.code) == (False, "git_failed")
    assert "git commit failed" in result.text and "the sheep are unhappy" in result.text
    assert status(root) == before
    assert subjects(root) == ["begin"]


def test_an_approval_covers_this_message_these_files_and_these_contents(bench: ToolBench, root: Path) -> None:
    def scopes(args: Mapping[str, Any]) -> tuple[str, str]:
        operation = bench.describe("git", **args)
        return fingerprint(exact_scope_of(operation, "w")), fingerprint(scope_of(operation, "w"))

    (root / "sheep.py").write_text("COUNT = 2\n")
    (root / "goat.py").write_text("GOATS = 2\n")
    one = scopes(COMMIT)
    assert one == scopes(COMMIT)
    others = [scopes({**COMMIT, "message": "Other"}), scopes({**COMMIT, "paths": ["sheep.py", "goat.py"]})]
    assert not {one[0], one[1]} & {print_ for other in others for print_ in other}
    (root / "sheep.py").write_text("COUNT = 3\n")
    assert scopes(COMMIT)[0] != one[0]


def test_a_grant_for_the_same_command_line_by_run_does_not_cover_the_git_tool(bench: ToolBench, root: Path) -> None:
    (root / "sheep.py").write_text("COUNT = 2\n")
    operation = bench.describe("git", **COMMIT)
    assert operation.argv == ("git", "commit", "-m", "Count again", "--", "sheep.py")
    by_run = process_operation(operation.argv, env=operation.env)
    assert fingerprint(scope_of(by_run, "w")) != fingerprint(scope_of(operation, "w"))


# --- push -----------------------------------------------------------------------------------------------------


def test_a_push_sends_exactly_that_branch_without_tags_prompts_or_agents(
    bench: ToolBench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = remote(root)
    git(root, "config", "push.followTags", "true")
    git(root, "tag", "-a", "v1", "-m", "one")
    git(root, "branch", "other")
    hook(root, "pre-push", "env > pushed.env")
    git(root, "commit", "--allow-empty", "-qm", "more")
    operation = bench.describe("git", **PUSH)
    assert operation.argv[-2:] == ("origin", "refs/heads/main:refs/heads/main")
    assert operation.destination == str(bare)
    assert "more" in operation.preview
    assert bench.execute(operation, **PUSH).ok
    assert git(bare, "for-each-ref", "--format=%(refname)").decode().split() == ["refs/heads/main"]
    assert subjects(bare) == ["more", "begin"]
    environment = (root / "pushed.env").read_text().splitlines()
    assert "GIT_TERMINAL_PROMPT=0" in environment
    assert not [line for line in environment if line.startswith(("SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS"))]


@pytest.mark.parametrize(
    "args",
    [
        {"remote": "--mirror"},
        {"remote": "-u"},
        {"remote": "nowhere"},
        {"remote": "https://example.invalid/x"},
        {"remote": "../remote.git"},
        {"remote": "ext::sh"},
        {"remote": ""},
        {"branch": ""},
        {"branch": "--force"},
        {"branch": "+main"},
        {"branch": "main:main"},
        {"branch": "*"},
        {"branch": "missing"},
        {"branch": "ma..in"},
        {"branch": "main^"},
        {"paths": ["sheep.py"]},
        {"message": "x"},
    ],
)
def test_a_push_takes_a_known_remote_and_a_branch_that_is_there(
    bench: ToolBench, root: Path, args: Mapping[str, Any]
) -> None:
    bare = remote(root)
    git(root, "commit", "--allow-empty", "-qm", "more")
    assert bench.error("git", **{**PUSH, **args}).code == "tool_arguments"
    assert subjects(bare) == ["begin"]


def test_nothing_is_ever_forced(bench: ToolBench, root: Path) -> None:
    bare = remote(root)
    git(root, "config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    git(root, "commit", "--amend", "-qm", "rewritten")
    result = bench.call("git", **PUSH)
    assert (result.ok, result.code) == (False, "git_failed")
    assert "rejected" in result.text
    assert "agent is available" in result.text and "git push" in result.text
    assert subjects(bare) == ["begin"]


def test_a_mirror_is_not_pushed_to(bench: ToolBench, root: Path) -> None:
    bare = remote(root)
    git(root, "config", "remote.origin.mirror", "true")
    git(root, "branch", "other")
    assert not bench.call("git", **PUSH).ok
    assert git(bare, "for-each-ref", "--format=%(refname)").decode().split() == ["refs/heads/main"]


def test_another_address_or_branch_is_another_scope_and_a_new_commit_another_approval(
    bench: ToolBench, root: Path
) -> None:
    def described(**args: str) -> Operation:
        return bench.describe("git", **{**PUSH, **args})

    remote(root)
    git(root, "branch", "other")
    first = described()
    assert scope_of(first, "w") != scope_of(described(branch="other"), "w")
    git(root, "commit", "--allow-empty", "-qm", "more")
    assert scope_of(first, "w") == scope_of(described(), "w")
    assert exact_scope_of(first, "w") != exact_scope_of(described(), "w")
    git(root, "remote", "set-url", "--push", "origin", "https://me:hunter2hunter2@example.invalid/p.git")
    moved = described()
    assert scope_of(first, "w") != scope_of(moved, "w")
    assert moved.destination == "https://example.invalid/p.git"
    assert "hunter2" not in f"{moved}"


# --- in a task ------------------------------------------------------------------------------------------------

EDIT = call("edit_file", {"path": "sheep.py", "old_text": "COUNT = 1", "new_text": "COUNT = 2"}, "e1")
ASKED = call("git", COMMIT, "c1")


def git_operation(detail: Mapping[str, Any], action: str = "git_commit") -> Mapping[str, Any]:
    (found,) = [item for item in detail["operations"] if item["action"] == action]
    operation: Mapping[str, Any] = found
    return operation


def test_no_hook_runs_and_nothing_is_staged_before_the_user_has_answered(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, ASKED, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        hook(tmp_path, "pre-commit", "touch .git/witness")
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, interactive=True)
            question = running.pending()
            assert question["scope"]["argv"] == ["git", "commit", "-m", "Count again", "--", "sheep.py"]
            assert question["scope"]["paths"] == ["sheep.py"]
            assert "hooks" in question["text"] and "unsandboxed" in question["text"]
            assert not (tmp_path / ".git" / "witness").exists()
            assert status(tmp_path) == [" M sheep.py"]
            running.tell(
                AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "once")
            )
            detail = running.finish()
    assert (tmp_path / ".git" / "witness").exists()
    assert git_operation(detail)["authorized_by"] == "user"
    assert detail["task"]["result"]["git"] == {"staged": False, "committed": True}
    assert [change["path"] for change in detail["task"]["result"]["changes"]] == ["sheep.py"]
    assert subjects(tmp_path)[0] == "Count again"


def test_a_file_that_changes_while_the_question_is_open_is_not_committed(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, ASKED, say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, interactive=True)
            question = running.pending()
            (tmp_path / "sheep.py").write_text("COUNT = 666\n")
            running.tell(
                AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "once")
            )
            detail = running.finish()
    assert git_operation(detail)["state"] == "refused"
    assert subjects(tmp_path) == ["begin"]


def test_a_denial_is_told_to_the_model_and_nothing_is_committed(tmp_path: Path) -> None:
    with Simulator(scripted(EDIT, ASKED, say("then not"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        with open_host(HostOptions(tmp_path)) as host:
            running = start(host, interactive=True)
            question = running.pending()
            running.tell(
                AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "deny")
            )
            detail = running.finish()
    assert detail["task"]["state"] == "completed"
    assert git_operation(detail)["code"] == "permission_denied"
    assert subjects(tmp_path) == ["begin"]


def test_yolo_commits_and_is_named_as_the_one_who_allowed_it(tmp_path: Path) -> None:
    detail, events, _ = played(tmp_path, scripted(EDIT, ASKED, say("done")), yolo=True)
    operation = git_operation(detail)
    assert operation["authorized_by"] == "yolo"
    assert subjects(tmp_path)[0] == "Count again"
    payloads = [event.payload for event in events if event.scope.operation_id == operation["id"]]
    assert OperationDecided("allow", "policy_git_commit", "yolo") in payloads


@pytest.mark.parametrize(
    ("path", "code"), [(".env", "permission_denied"), (".git/config", "path_refused"), (".fluzo", "path_refused")]
)
def test_credentials_and_protected_files_are_not_committed_even_under_yolo(
    tmp_path: Path, path: str, code: str
) -> None:
    with Simulator(scripted(call("git", {**COMMIT, "paths": [path]}, "c1"), say("done"))) as simulator:
        workspace(tmp_path, simulator.base_url)
        (tmp_path / ".env").write_text("KEY=1")
        with open_host(HostOptions(tmp_path)) as host:
            detail = start(host, yolo=True).finish()
    (operation,) = [item for item in detail["operations"] if item["tool"] == "git"]
    assert (operation["state"], operation["code"]) == ("refused", code)
    assert subjects(tmp_path) == ["begin"]
    assert status(tmp_path) == ["?? .env"]


def test_a_permission_for_run_does_not_commit_by_the_git_tool(tmp_path: Path) -> None:
    argv = ("git", "commit", "-m", "Count again", "--", "sheep.py")
    detail, _, _ = played(tmp_path, scripted(EDIT, ASKED), allow=(argv,))
    assert (detail["task"]["state"], detail["task"]["reason"]) == ("blocked", "permission_required")
    assert "--allow" not in detail["task"]["result"]["error"]["hint"]
    assert subjects(tmp_path) == ["begin"]


@pytest.mark.parametrize(("kind", "asked"), [("git_commit", ASKED), ("git_push", call("git", PUSH, "p1"))])
def test_a_rule_that_denies_ends_a_headless_run_with_its_own_exit_status(
    tmp_path: Path, kind: str, asked: dict[str, Any]
) -> None:
    with Simulator(scripted(EDIT, asked)) as simulator:
        project = make_project(tmp_path / "p", simulator.base_url, more=f'[policy]\n{kind} = "deny"\n')
        remote(project.root)
        result = project.json("run", "--yolo", "commit it", status=5)
    assert (result["reason"], result["error"]["detail"]["reason"]) == ("permission_denied", f"policy_{kind}")
    assert subjects(project.root) == ["begin"]


def test_a_push_in_a_task_reaches_the_remote_only_after_the_answer(tmp_path: Path) -> None:
    with Simulator(scripted(call("git", PUSH, "p1"), say("done"))) as simulator:
        root = workspace(tmp_path / "p", simulator.base_url)
        bare = remote(root)
        git(root, "commit", "--allow-empty", "-qm", "more")
        with open_host(HostOptions(root)) as host:
            running = start(host, interactive=True)
            question = running.pending()
            assert question["scope"]["destination"] == str(bare)
            assert subjects(bare) == ["begin"]
            running.tell(
                AnswerPermission(running.ack.task_id, question["operation_id"], question["fingerprint"], "task")
            )
            detail = running.finish()
    assert git_operation(detail, "git_push")["ok"]
    assert subjects(bare) == ["more", "begin"]
