"""Which names inside a workspace are out of bounds, and which are likely to hold secrets. Pure.

Two different promises. A *protected* path is never touched by file tools, whatever was approved: Git's metadata
and Fluzo's own settings and data (PRD 21.2). A *secret* path is only kept out of discovery (listing, search,
automatic context); reading one by name stays a question for policy. The lexical test here is the first of two:
the workspace jail repeats it on the resolved path and compares file identities.
"""

import re
import unicodedata

SETTINGS_NAME = ".fluzo"
STORE_NAME = ".fluzodrive"
PROTECTED_NAMES = frozenset({".git", SETTINGS_NAME, STORE_NAME})

# Characters a case-folding file system may ignore in a name (ext4 casefold, HFS+): `.g\u200cit` opens `.git` there.
_IGNORABLE = (
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)

# Sets and ends of names: a pattern that says the same takes 3 ms to compile, and every run with a tool call needs it.
_SECRET_NAMES = frozenset(
    {".env", "netrc", ".netrc", "_netrc", "._netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".htpasswd", ".pgpass"}
    | {".my.cnf", ".dockercfg", ".git-credentials", ".vault-token", ".envrc", "credentials"}
    | {f"credentials.{end}" for end in ("json", "toml", "yaml", "yml", "ini", "xml")}
    | {f"{name}.{end}" for name in ("secret", "secrets") for end in ("json", "toml", "yaml", "yml", "ini", "env")}
)
_SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".env.local")
_KEY_BEGINNINGS = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_ACCOUNT_BEGINNINGS = ("serviceaccount", "service_account", "service-account", "client_secret")
_EXAMPLES = frozenset(f".env.{end}" for end in ("example", "sample", "template", "dist", "default", "defaults"))
_SECRET_DIRECTORIES = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube"})


def _folded(name: str) -> str:
    if not name.isascii():
        name = unicodedata.normalize("NFKC", re.sub(_IGNORABLE, "", name))
    # Trailing dots and spaces, and the 8.3 alias, name the same entry on FAT, NTFS and SMB mounts.
    folded = name.casefold().rstrip(" .")
    return ".git" if folded == "git~1" else folded


def is_protected_path(path: str) -> bool:
    """Whether a component of the path is `.git`, `.fluzo` or `.fluzodrive`, under any alias a file system may know."""
    return any(_folded(part) in PROTECTED_NAMES for part in path.split("/"))


def is_secret_path(path: str) -> bool:
    """Whether the name is one that commonly holds credentials; public keys and `.env.example` are not."""
    parts = path.rstrip("/").split("/")
    return _is_secret_name(parts[-1].casefold()) or any(part in _SECRET_DIRECTORIES for part in parts)


def _is_secret_name(name: str) -> bool:
    return (
        name in _SECRET_NAMES
        or name.endswith(_SECRET_ENDS)
        or (name.startswith(".env.") and name not in _EXAMPLES)
        or (name.startswith(_KEY_BEGINNINGS) and not name.endswith(".pub"))
        or (name.startswith(_ACCOUNT_BEGINNINGS) and name.endswith(".json"))
    )
