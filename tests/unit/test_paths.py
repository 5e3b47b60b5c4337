"""Protected and secret-bearing names."""

import pytest

from fluzo.core.paths import is_protected_path, is_secret_path


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "a/b/.git/HEAD",
        ".GIT",
        ".Git/x",
        ".git./x",
        ".git /x",
        "GIT~1/config",
        ".g\u200cit",
        ".gi\ufb05",
        ".fluzo",
        ".FLUZO",
        "sub/.fluzo",
        ".fluzodrive/state.sqlite3",
        ".\uff47it/config",
    ],
)
def test_protected_names_are_known_under_their_aliases(path: str) -> None:
    if path == ".gi\ufb05":  # A ligature that folds to `st`: not an alias.
        assert not is_protected_path(path)
    else:
        assert is_protected_path(path)


@pytest.mark.parametrize("path", [".gitignore", ".github/x", "git", "a.git", ".fluzo.md", "fluzo", "x.fluzodrive", "."])
def test_similar_names_are_not_protected(path: str) -> None:
    assert not is_protected_path(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env",
        ".env.production",
        ".ENV",
        "server.pem",
        "tls/private.KEY",
        "id_rsa",
        "id_rsa.old",
        "id_ed25519",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".aws/config",
        "home/.ssh/known_hosts",
        "credentials",
        "credentials.json",
        "secrets.yaml",
        "x.p12",
        ".git-credentials",
    ],
)
def test_files_that_commonly_hold_secrets_are_known(path: str) -> None:
    assert is_secret_path(path)


@pytest.mark.parametrize(
    "path",
    [".env.example", ".env.sample", "env.py", "id_rsa.pub", "keys.py", "key", "src/credentials.py", "secret_santa.md"],
)
def test_ordinary_files_are_not_taken_for_secrets(path: str) -> None:
    assert not is_secret_path(path)
