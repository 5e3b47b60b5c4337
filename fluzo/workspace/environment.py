"""The environment of child processes, built from a list of names; nothing is inherited by being there (PRD 21.3).

Passed on when set: user and locale, temporary and cache directories, toolchain homes, certificate stores. Fixed:
no colour, no pager, no editor, no prompt. Never passed, even when asked for by name: variables that make a loader,
a shell or an interpreter run something of their own.
"""

from collections.abc import Mapping, Sequence

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

_INHERITED = """
    HOME USER LOGNAME SHELL TZ TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
    LANG LANGUAGE LC_ADDRESS LC_ALL LC_COLLATE LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY
    LC_NAME LC_NUMERIC LC_PAPER LC_TELEPHONE LC_TIME
    CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN
    GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOTOOLCHAIN
    JAVA_HOME MAVEN_HOME M2_HOME GRADLE_HOME GRADLE_USER_HOME ANDROID_HOME ANDROID_SDK_ROOT
    VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYENV_ROOT PYENV_VERSION UV_CACHE_DIR PIP_CACHE_DIR
    NVM_DIR NVM_BIN VOLTA_HOME FNM_DIR PNPM_HOME BUN_INSTALL DENO_DIR
    RBENV_ROOT GEM_HOME GEM_PATH BUNDLE_PATH DOTNET_ROOT COMPOSER_HOME
    CC CXX AR PKG_CONFIG_PATH CMAKE_PREFIX_PATH
    SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE NIX_PATH
"""
INHERITED = frozenset(_INHERITED.split())
"""Names passed on when the parent has them. Proxies are not among them: their URLs carry passwords."""

FIXED: Mapping[str, str] = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
}
"""There is no terminal and nobody to answer. `CI` stays unset: it changes what many tools do."""

_REFUSED = """
    GCONV_PATH GLIBC_TUNABLES LOCPATH MALLOC_TRACE HOSTALIASES
    BASH_ENV ENV BASHOPTS SHELLOPTS PROMPT_COMMAND PS4 IFS CDPATH ZDOTDIR FPATH
    PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONUSERBASE
    PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS
    GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS
"""
_REFUSED_NAMES = frozenset(_REFUSED.split())
_REFUSED_PREFIXES = ("LD_", "DYLD_", "BASH_FUNC_", "GIT_", "SSH_")


def clean_path(value: str) -> str:
    """A search path of absolute directories only: an empty or relative entry would mean the workspace."""
    kept = dict.fromkeys(entry for entry in value.split(":") if entry.startswith("/"))
    return ":".join(kept) or DEFAULT_PATH


def child_env(base: Mapping[str, str], extra: Mapping[str, str], inherit: Sequence[str]) -> dict[str, str]:
    """The whole environment of a child: allowed names of `base`, then fixed values, then `extra`.

    `inherit` adds names of `base` that the user listed, a secret among them if the user wants that; loader and
    startup overrides are left out all the same. `extra` is what the user wrote out and approved: it wins.
    """
    wanted = INHERITED & base.keys()
    wanted |= {name for name in inherit if name in base and not _is_refused(name)}
    env = {name: base[name] for name in sorted(wanted)}
    if not any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        env["LANG"] = "C.UTF-8"
    env |= {**FIXED, "PATH": base.get("PATH", ""), **extra}
    env["PATH"] = clean_path(env["PATH"])
    return env


def _is_refused(name: str) -> bool:
    return name in _REFUSED_NAMES or name.startswith(_REFUSED_PREFIXES)
