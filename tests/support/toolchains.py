"""Programs that a test needs and a machine may lack."""

import os
import shutil

import pytest


def require_cargo() -> None:
    """Skip the test where there is no cargo, and say how to get it; where FLUZO_REQUIRE_CARGO is set, fail instead."""
    if shutil.which("cargo"):
        return
    reason = "cargo is not installed; get it with `apt-get install cargo` or from rustup, and run the tests again"
    if os.environ.get("FLUZO_REQUIRE_CARGO") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
