"""`fluzo init`: set up a folder, by a conversation on a terminal or by flags.

Invariant: nothing is written before the summary was accepted (or `--yes` given), and a configuration that exists is
replaced only by an answer or a flag that says so; a broken one is copied first.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fluzo import setup_services as setup
from fluzo.core.errors import Cancelled, ConfigError, UsageError
from fluzo.core.redact import printable
from fluzo.core.settings import ChatModel, Settings, parse_settings, parse_value, render, settings_document

from .options import GlobalOptions, global_options
from .questions import QUESTIONS, Answers, address_problem, command, document, suggested_output, whole_number

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

EPILOG = """\b
Examples:
  fluzo init
  fluzo init --base-url http://127.0.0.1:8080/v1 --discover --verify "cargo test" --yes
  fluzo init --base-url https://models.example.org/v1 --model coder-large --auth env --api-key-env MODELS_KEY --yes
  fluzo --set harness.max_turns=50 init --base-url http://127.0.0.1:8080/v1 --model coder --yes
"""

FLAG_FORM = """\
Run it in a terminal, or give the answers as flags:
fluzo init --base-url http://127.0.0.1:8080/v1 --model NAME --verify "make test" --yes"""


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line of `fluzo init`, as typed."""

    answers: Answers
    given: frozenset[str]
    discover: bool
    probe: bool
    exclude: bool | None
    force: bool
    yes: bool
    as_json: bool


@dataclass
class Report:
    """What was done, for the last lines and the JSON object."""

    path: Path
    replaced: bool = False
    copy: Path | None = None
    consent: Sequence[str] = ()
    exclude: str = "skipped"
    model: str = ""
    warnings: list[str] | None = None


def _option(name: str, metavar: str) -> Any:
    return typer.Option(QUESTIONS[name].flag, metavar=metavar, help=f"{QUESTIONS[name].prompt}. {QUESTIONS[name].why}")


@app.command(epilog=EPILOG)
def init(  # noqa: PLR0913 - each flag of the command line is a parameter.
    ctx: typer.Context,
    *,
    base_url: Annotated[str | None, _option("base_url", "URL")] = None,
    model: Annotated[str | None, _option("model", "NAME")] = None,
    auth: Annotated[
        str | None, typer.Option("--auth", metavar="none|env|credential", help=QUESTIONS["auth"].why)
    ] = None,
    api_key_env: Annotated[str | None, _option("api_key_env", "NAME")] = None,
    credential_ref: Annotated[str | None, _option("credential_ref", "NAME")] = None,
    allow_insecure_http: Annotated[
        bool, typer.Option("--allow-insecure-http", help=QUESTIONS["allow_insecure_http"].why)
    ] = False,
    context_window: Annotated[str | None, _option("context_window", "TOKENS")] = None,
    max_output_tokens: Annotated[str | None, _option("max_output_tokens", "TOKENS")] = None,
    max_in_flight: Annotated[str | None, _option("max_in_flight", "N")] = None,
    verify: Annotated[list[str] | None, _option("verify", "'COMMAND'")] = None,
    discover: Annotated[
        bool, typer.Option("--discover", help="Ask the server for its models and their windows: one GET, no inference.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Find out what the server refuses, by a few tiny replies it may charge for.")
    ] = False,
    exclude: Annotated[
        bool | None,
        typer.Option("--exclude/--no-exclude", help="Have Git ignore .fluzodrive/ in this clone. With --yes: yes."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --yes: replace a configuration that exists.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: write the file and consent to endpoint and commands.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="Form of the result.")] = "text",
) -> None:
    """Set up this folder: endpoint, model, size, checks. Asks on a terminal; flags answer ahead."""
    typed = {
        "base_url": base_url,
        "model": model,
        "auth": auth,
        "api_key_env": api_key_env,
        "credential_ref": credential_ref,
        "context_window": context_window,
        "max_output_tokens": max_output_tokens,
        "max_in_flight": max_in_flight,
    }
    texts = {name: text.strip() for name, text in typed.items() if text is not None}
    answers = _answers(texts, verify or [], allow_insecure_http)
    if output not in ("text", "json"):
        raise UsageError("--output is text or json.")
    _run(
        global_options(ctx),
        Flags(answers, frozenset(texts), discover, probe, exclude, force, yes, output == "json"),
    )


def _answers(texts: dict[str, str], verify: list[str], insecure: bool) -> Answers:
    fields: dict[str, Any] = dict(texts)
    for name in ("context_window", "max_output_tokens", "max_in_flight"):
        if name in texts:
            try:
                fields[name] = whole_number(QUESTIONS[name].setting, texts[name])
            except UsageError as exc:
                raise UsageError(f"{QUESTIONS[name].flag}: {exc.message}") from exc
    if "auth" in texts and texts["auth"] not in ("none", "env", "credential"):
        raise UsageError("--auth is none, env or credential.")
    if "auth" not in texts:
        # Naming where the key is says that there is one.
        fields["auth"] = "env" if "api_key_env" in texts else "credential" if "credential_ref" in texts else "none"
    if "base_url" in texts:
        problem = address_problem(texts["base_url"])
        if problem:
            raise UsageError(f"--base-url: {problem}")
        fields["base_url"] = texts["base_url"].rstrip("/")
    return Answers(**fields, allow_insecure_http=insecure, verify=tuple(command(line) for line in verify))


def _run(options: GlobalOptions, flags: Flags) -> None:
    root = setup.workspace_root(options.workspace)
    path = setup.settings_path(root, options.config)
    interactive = not flags.yes and not flags.as_json and sys.stdin.isatty() and sys.stdout.isatty()
    if not flags.yes and not interactive:
        raise ConfigError(
            "Setup asks questions, and there is no terminal to ask them on; nothing was written.",
            code="configuration_required",
            hint=FLAG_FORM,
        )
    existing = setup.look_at(path)
    extra = {key: parse_value(key, text) for key, text in options.sets.items()}
    answers = replace(flags.answers, more=extra)
    if interactive:
        try:
            report = _by_conversation(root, path, existing, answers, flags)
        except (KeyboardInterrupt, EOFError) as exc:
            raise Cancelled("You left setup; nothing was written.") from exc
    else:
        report = _by_flags(root, path, existing, answers, flags)
    _tell(report, root, flags)


# --- by flags ---------------------------------------------------------------------------------------------------


def _by_flags(root: Path, path: Path, existing: setup.Existing | None, answers: Answers, flags: Flags) -> Report:
    if existing is not None and not flags.force:
        raise _refuse_replacement(path, existing)
    if not answers.base_url:
        raise UsageError("--base-url is missing; with --yes nothing is asked.", hint=FLAG_FORM)
    if flags.discover:
        answers = _discovered(answers, flags.given)
    if not answers.model:
        raise UsageError("--model is missing.", hint="Name it, or let --discover find it when the server has only one.")
    if "max_output_tokens" not in flags.given:
        answers = replace(answers, max_output_tokens=suggested_output(answers.context_window))
    settings = parse_settings(document(answers, root.name))  # Before the probe, which may cost money.
    if flags.probe:
        result = setup.probe(_endpoint(answers), answers.model)
        settings = parse_settings(document(replace(answers, compat=dict(result.compat)), root.name))
    return _write(root, path, existing, settings, exclude=flags.exclude is not False)


def _refuse_replacement(path: Path, existing: setup.Existing) -> Exception:
    if existing.problem is not None:
        copied = "To replace it (a copy is kept beside it): fluzo init --force --yes ..."
        return ConfigError(f"{existing.problem.message}\nThe file was left as it is.", hint=f"Repair it.\n{copied}")
    return UsageError(
        f"{path} exists already and was left as it is.",
        code="confirmation_required",
        hint="Change single settings with: fluzo config set KEY VALUE\nTo replace the file add --force.",
    )


def _discovered(answers: Answers, given: frozenset[str]) -> Answers:
    models = setup.discover(_endpoint(answers))
    names = [entry.id for entry in models]
    if not answers.model and len(models) > 1:
        shown = "\n".join(names[:20]) + ("\n..." if len(names) > 20 else "")
        raise UsageError(f"The server lists {len(models)} models; choose one with --model.", hint=shown)
    picked = next((entry for entry in models if entry.id == (answers.model or names[0])), None)
    if picked is None:
        raise UsageError(
            f"The server does not list {render(answers.model)}.", hint="It lists:\n" + "\n".join(names[:20])
        )
    window = picked.context_window or answers.context_window
    return replace(
        answers, model=picked.id, context_window=answers.context_window if "context_window" in given else window
    )


def _endpoint(answers: Answers) -> setup.Endpoint:
    return setup.Endpoint(answers.base_url, answers.auth, answers.api_key_env, answers.credential_ref)


# --- by conversation --------------------------------------------------------------------------------------------


def _by_conversation(root: Path, path: Path, existing: setup.Existing | None, answers: Answers, flags: Flags) -> Report:
    from . import prompts, wizard

    wizard.welcome(root)
    if existing is not None:
        if existing.problem is not None:
            prompts.say(f"{existing.problem.message}\n")
            question = "The file is broken. Replace it? A copy is kept beside it."
        else:
            question = f"{path.name} exists already. Replace it?"
        if not prompts.ask_yes(question, default=False):
            raise Cancelled("Nothing was changed.")
    answers = wizard.ask_more(wizard.ask_all(root, answers))
    settings = parse_settings(document(answers, root.name))
    prompts.say("\n5 of 5: the file")
    prompts.say(summary(settings, path))
    while True:
        act: Literal["write", "show", "leave"] = prompts.choose(
            "Write it?", [("Yes, write it", "write"), ("Show the whole file first", "show"), ("No, leave", "leave")]
        )
        if act == "show":
            prompts.say(settings_document(settings))
        elif act == "leave":
            raise Cancelled("Nothing was written.")
        else:
            break
    exclude = flags.exclude
    if exclude is None and setup.exclude_state(root) == "not_ignored":
        exclude = prompts.ask_yes(
            "History goes to .fluzodrive/. Have Git ignore it in this clone (.git/info/exclude, not .gitignore)?",
            default=True,
        )
    return _write(root, path, existing, settings, exclude=exclude is True)


def summary(settings: Settings, path: Path) -> str:
    """What is about to be written, in a few lines, without any secret."""
    lines = [f"  file       {path}"]
    for name, entry in settings.models.items():
        address = entry.base_url if isinstance(entry, ChatModel) else entry.endpoint
        key = {"none": "no key", "env": f"key in ${entry.api_key_env}"}.get(entry.auth, f"key {entry.credential_ref}")
        lines.append(f"  endpoint   {address}  ({key})")
        if isinstance(entry, ChatModel):
            lines.append(f"  model      {name}: {entry.model}")
            lines.append(
                f"  size       {entry.context_window} tokens, replies up to {entry.max_output_tokens}, "
                f"{entry.max_in_flight} at a time"
            )
    if not settings.models:
        lines.append("  model      none yet")
    lines += [f"  check      {shlex.join(argv)}" for argv in settings.verification.commands]
    if not settings.verification.commands:
        lines.append("  check      none: results will be marked unverified")
    lines += [
        "",
        "  Writing it also records, privately and for this folder, that you agree to use this",
        "  endpoint and to run these checks. The file holds no secret, but it can reveal names",
        "  and addresses; whether to commit it is your decision.",
    ]
    return "\n".join(lines)


# --- the writes -------------------------------------------------------------------------------------------------


def _write(root: Path, path: Path, existing: setup.Existing | None, settings: Settings, *, exclude: bool) -> Report:
    report = Report(path, replaced=existing is not None, model=settings.agent.model)
    warnings: list[str] = []
    # Consent first: it is bound to this content, so alone it permits nothing, and without it the file would be useless.
    report.consent = setup.record_consent(settings, root)
    report.copy = setup.write_settings(path, settings_document(settings), existing)
    state = setup.exclude_state(root)
    if state == "no_git":
        report.exclude = "no_git"
        warnings.append("This folder is not in a Git repository, so changes cannot be compared or undone with Git.")
    elif state == "tracked":
        report.exclude = "tracked"
        warnings.append("Git tracks files in .fluzodrive/; run: git rm -r --cached .fluzodrive")
    elif state == "ignored":
        report.exclude = "ignored"
    elif exclude:
        setup.add_exclude(root)
        report.exclude = "added"
    else:
        warnings.append("Git does not ignore .fluzodrive/ yet; Fluzo will not store history there until it does.")
    report.warnings = warnings
    return report


def _tell(report: Report, root: Path, flags: Flags) -> None:
    warnings = report.warnings or []
    if flags.as_json:
        result = {
            "schema_version": 1,
            "type": "init",
            "workspace": str(root),
            "path": str(report.path),
            "replaced": report.replaced,
            "copy": None if report.copy is None else str(report.copy),
            "consent": list(report.consent),
            "git_exclude": report.exclude,
            "model": report.model or None,
            "warnings": warnings,
        }
        print(json.dumps(result))
        return
    lines = [f"Wrote {report.path}."]
    if report.copy is not None:
        lines.append(f"The broken file is kept as {report.copy}.")
    if report.exclude == "added":
        lines.append("Git ignores .fluzodrive/ in this clone.")
    lines += [f"Note: {warning}" for warning in warnings]
    first = "git init, then " if report.exclude == "no_git" else ""
    lines.append(
        f'Next: {first}fluzo run "fix the failing test"' if report.model else "Next: set up a model with fluzo init."
    )
    print(printable("\n".join(lines)))
