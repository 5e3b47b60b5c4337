"""The setup wizard: asks the questions of `questions.py` one after the other and returns answers, writing nothing.

Invariant: no server is contacted and no name looked up before the person chose the entry that says so, and a model
is asked for replies (which may cost money) only by a choice of its own.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from fluzo import setup_services as setup
from fluzo.core.errors import ConfigError, ProviderError
from fluzo.core.settings import describe, parse_settings, values_of
from fluzo.setup_services import Endpoint

from .output import has_unicode, is_styled
from .prompts import ask_text, ask_yes, choose, choose_several, edit_settings, say
from .questions import (
    EXAMPLE_URL,
    QUESTIONS,
    Answers,
    address_problem,
    command,
    complaint,
    document,
    is_insecure,
    problems_with,
    suggested_checks,
    suggested_output,
    whole_number,
)

MARK = """\
█▀▀▀▀ █     █   █ ▀▀▀█▀ ▄▀▀▀▄
█▀▀▀  █     █   █  ▄▀   █   █
▀     ▀▀▀▀▀  ▀▀▀  ▀▀▀▀▀  ▀▀▀
"""
"""The wordmark without its shadow, in half blocks; the full screen has the one that moves."""
WELCOME = """\
{name}a coding agent that runs on your machine

This sets up the folder
  {folder}
in five steps: a model, its size, your checks, anything special, and the file.
  Nothing is contacted unless you choose the line that says so.
  Nothing is written before you have seen the summary. Ctrl+C always leaves.
  Keys and passwords are never in the file, only the name of where they are.
  To look around without a model first, leave and run: fluzo demo
"""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Limits of a task": ("harness.",),
    "What the agent may do": ("policy.", "tools.shell."),
    "History and telemetry": ("storage.", "telemetry."),
    "Look and notices": ("tui.",),
    "Context and server queue": ("context.", "capacity_pools."),
    "An observer": ("decision.",),
}
"""The advanced part: a title and the keys that it offers. What setup asks for itself is not offered again."""


def welcome(root: Path) -> None:
    drawn = has_unicode(sys.stdout)
    if drawn and is_styled(sys.stdout):
        from .paint import paint_mark

        print(paint_mark(MARK))
    elif drawn:
        print(MARK)
    say(WELCOME.format(folder=root, name="" if drawn else "FLUZO   "))


def ask_all(root: Path, given: Answers) -> Answers:
    """Every answer; what flags gave already is the default. Raises KeyboardInterrupt or EOFError."""
    answers = _ask_model(given)
    answers = _ask_size(answers) if answers.base_url else answers
    return replace(answers, verify=_ask_checks(root, answers.verify))


# --- 1: a model -------------------------------------------------------------------------------------------------


def _ask_model(given: Answers) -> Answers:
    say("1 of 5: a model")
    if not given.base_url:
        how = choose(
            "Where is your model?",
            [
                ("I know the address of the server", "address"),
                (f"Look for servers on this machine now (asks ports {_ports()})", "look"),
                ("No model now: save without one, set it later", "none"),
            ],
        )
        if how == "none":
            return given
        given = replace(given, base_url=_look() if how == "look" else "")
    while True:
        answers = _ask_address(given)
        if answers.allow_insecure_http or not is_insecure(answers.base_url):
            break
        given = replace(answers, base_url="")
    return _ask_name(_ask_auth(answers))


def _ports() -> str:
    return ", ".join(str(port) for port in setup.KNOWN_PORTS)


def _look() -> str:
    found = setup.find_local_servers()
    if not found:
        say("  No server answered on this machine.")
        return ""
    options = [(f"{url}   {len(models)} model{'' if len(models) == 1 else 's'}", url) for url, models in found.items()]
    return choose("Server:", [*options, ("Another address", "")])


def _ask_address(given: Answers) -> Answers:
    question = QUESTIONS["base_url"]
    url = given.base_url
    if not url or address_problem(url):
        say(f"  {question.why}")
        url = ask_text(question.prompt, default=url or EXAMPLE_URL, check=lambda text: address_problem(text.strip()))
    answers = replace(given, base_url=url.rstrip("/"))
    if not is_insecure(url) or given.allow_insecure_http:
        return answers
    say(f"  {QUESTIONS['allow_insecure_http'].why}")
    say(f"  Address: {url}")
    say(f"  Its host is now: {', '.join(setup.addresses_of(url)) or 'unknown; the name does not resolve'}")
    return replace(answers, allow_insecure_http=ask_yes(QUESTIONS["allow_insecure_http"].prompt, default=False))


def _ask_auth(answers: Answers) -> Answers:
    question = QUESTIONS["auth"]
    say(f"  {question.why}")
    auth = choose(
        question.prompt,
        [
            ("No", "none"),
            ("Yes, from an environment variable", "env"),
            ("Yes, from an entry of auth.toml", "credential"),
        ],
        default=answers.auth,
    )
    if auth == "none":
        return replace(answers, auth=auth, api_key_env="", credential_ref="")
    field = "api_key_env" if auth == "env" else "credential_ref"
    name = ask_text(
        QUESTIONS[field].prompt,
        default=getattr(answers, field) or ("OPENAI_API_KEY" if auth == "env" else "main"),
        check=lambda text: "" if text.strip().replace("-", "_").isidentifier() else QUESTIONS[field].why,
    )
    env, ref = (name, "") if auth == "env" else ("", name)
    answers = replace(answers, auth=auth, api_key_env=env, credential_ref=ref)
    try:
        endpoint_of(answers).token()
    except ConfigError as exc:
        say(f"  Note: {exc.message} You can go on and set it later.")
    return answers


def endpoint_of(answers: Answers) -> Endpoint:
    return Endpoint(answers.base_url, answers.auth, answers.api_key_env, answers.credential_ref)


def _ask_name(answers: Answers) -> Answers:
    if answers.model:
        return answers
    question = QUESTIONS["model"]
    say(f"  {question.why}")
    how = choose(
        "Model:",
        [
            (f"Ask the server for its list (one request to {answers.base_url}/models; no prompt is sent)", "list"),
            ("Type the name", "type"),
        ],
    )
    answers = _from_list(answers) if how == "list" else answers
    if not answers.model:
        name = ask_text(question.prompt, check=lambda text: "" if text.strip() else "Give the model's name.")
        answers = replace(answers, model=name)
    return _offer_probe(answers)


def _from_list(answers: Answers) -> Answers:
    try:
        models = setup.discover(endpoint_of(answers))
    except (ProviderError, ConfigError) as exc:
        say(f"  {exc.message}")
        say(f"  {exc.hint}")
        return answers
    options = [(m.id + (f"   {m.context_window} tokens" if m.context_window else ""), m) for m in models]
    picked = choose("Model:", [*options, ("Another: type its name", None)])
    if picked is None:
        return answers
    low = int(describe(QUESTIONS["context_window"].setting).minimum or 0)
    window = max(picked.context_window or answers.context_window, low)
    output = min(answers.max_output_tokens, suggested_output(window))
    return replace(answers, model=picked.id, context_window=window, max_output_tokens=output)


def _offer_probe(answers: Answers) -> Answers:
    prompt = "Test the model now? A few tiny replies to a made-up sentence; your provider may charge for them."
    if not ask_yes(prompt, default=False):
        return answers
    try:
        result = setup.probe(endpoint_of(answers), answers.model)
    except (ProviderError, ConfigError) as exc:
        say(f"  {exc.message}")
        say(f"  {exc.hint}")
        return answers
    for check in result.checks:
        say(f"  {check.parameter}: {'accepted' if check.accepted else f'refused ({check.detail})'}")
    if result.compat and ask_yes("Store what the server refuses, so that it is not sent?", default=True):
        return replace(answers, compat=dict(result.compat))
    return answers


# --- 2: its size, 3: checks -------------------------------------------------------------------------------------


def _ask_size(answers: Answers) -> Answers:
    say("\n2 of 5: its size")
    while True:
        window = _figure("context_window", answers.context_window)
        output = _figure("max_output_tokens", min(answers.max_output_tokens, suggested_output(window)))
        slots = _figure("max_in_flight", answers.max_in_flight)
        answers = replace(answers, context_window=window, max_output_tokens=output, max_in_flight=slots)
        problems = problems_with(answers)
        if not problems:
            return answers
        say(f"  {problems}")


def _figure(name: str, default: int) -> int:
    question = QUESTIONS[name]
    say(f"  {question.why}")
    read = partial(whole_number, question.setting)
    return read(ask_text(question.prompt, default=str(default), check=lambda text: complaint(read, text)))


def _ask_checks(root: Path, given: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    question = QUESTIONS["verify"]
    say("\n3 of 5: your checks")
    say(f"  {question.why}")
    suggested = [argv for argv in suggested_checks(root) if argv not in given]
    chosen = list(given)
    if suggested:
        chosen += choose_several(
            question.prompt, [(shlex.join(argv), argv) for argv in suggested], checked=0 if given else 1
        )

    prompt = "Another command (Enter for none)"
    while line := ask_text(prompt, check=lambda text: complaint(command, text) if text.strip() else ""):
        chosen.append(command(line))
    return tuple(chosen)


# --- 4: anything special ----------------------------------------------------------------------------------------


def ask_more(answers: Answers) -> Answers:
    """The answers with what the person changed in the advanced part; sound together."""
    say("\n4 of 5: anything special")
    if not ask_yes("Look at the advanced settings? The defaults are sound.", default=False):
        return answers
    while True:
        group = choose("Group:", [("Done", ""), *((title, title) for title in GROUPS)])
        if not group:
            problems = problems_with(answers)
            if not problems:
                return answers
            say(problems)
            continue
        values = {**values_of(parse_settings(document(replace(answers, more={}), ""))), **answers.more}
        keys = [key for key in values if key.startswith(GROUPS[group]) and key != "policy.grants"]
        answers = replace(answers, more={**answers.more, **edit_settings(values, keys)})
