import re
import tomllib
from pathlib import Path

import pytest

from fluzo.core.settings import ChatModel, parse_settings
from fluzo.core.settings_model import Compat

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### ([^\n]+)\n\n```toml\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
SERVERS = ("llama.cpp", "llama-swap", "Ollama", "vLLM", "LM Studio", "SGLang", "LiteLLM", "OpenRouter", "OpenAI")


@pytest.mark.parametrize("title", ENTRIES)
def test_an_entry_of_the_page_is_a_valid_setting(title: str) -> None:
    settings = parse_settings(tomllib.loads(f'schema_version = 1\n[agent]\nmodel = "coder"\n{ENTRIES[title]}'))
    assert isinstance(settings.models["coder"], ChatModel)


def test_every_server_has_its_entry_and_says_what_was_verified() -> None:
    assert list(ENTRIES)[: len(SERVERS)] == list(SERVERS)
    assert PAGE.count("```toml") == len(ENTRIES)
    table = re.findall(r"^\| ([\w. -]+) \| (yes, see below|no) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [name for name, _, _ in table] == list(SERVERS)
    for _, _, fixtures in table:
        for name in re.findall(r"\bp\d\d\b", fixtures):
            assert list((ROOT / "fixtures" / "cases").glob(f"{name}-*.json")), name


def test_every_compat_setting_is_explained() -> None:
    table = PAGE.partition("## The `compat` settings")[2].partition("\n\n## ")[0]
    explained = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE))))
    assert explained == set(Compat.fields)
