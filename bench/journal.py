"""The row of the journal: a durable intent and its outcome, against SQLite alone."""

import json
import subprocess
import tempfile
from pathlib import Path

from measure import Row, Setting

PAIRS_A_SAMPLE = 10
"""A pair takes less than a millisecond where disks are fast, so more of them are taken than of whole processes."""


def intent_and_outcome(setting: Setting) -> Row:
    """The same rows into the same tables on the same disk, through the journal and by bare sqlite3 at FULL."""
    script = Path(__file__).with_name("journal_pairs.py")
    with tempfile.TemporaryDirectory(dir=setting.home) as place:
        argv: list[str | Path] = [setting.python, script, place, str(setting.samples * PAIRS_A_SAMPLE)]
        taken = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
    samples, reference_samples = json.loads(taken)
    return Row("intent + outcome", "two sqlite3 commits", 1.5, samples, reference_samples)
