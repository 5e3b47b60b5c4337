"""Programs that a test needs and a machine may lack."""

import os
import subprocess

import pytest


def require_cargo() -> None:
    """Skip the test where there is no cargo, and say how to get it; where FLUZO_REQUIRE_CARGO is set, fail instead."""
    if _answers("cargo", "--version"):
        return
    reason = "no working cargo; get one with `apt-get install cargo` or from rustup, and run the tests again"
    if os.environ.get("FLUZO_REQUIRE_CARGO") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _answers(*argv: str) -> bool:
    # A rustup without a toolchain has a `cargo` that only fails.
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
