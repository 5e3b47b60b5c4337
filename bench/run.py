"""`make bench`: every measured path as a ratio to something known, with the percentiles of this run.

A row is a function that takes a `Setting` and returns a `Row`; to add one, write it in a module beside this one and
name it in `ROWS`. Figures say how it is on this machine, now; nothing fails because of them.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

import headless
import journal
import models
import startup
from measure import Row, Setting, percentile

ROOT = Path(__file__).resolve().parents[1]
ROWS: dict[str, Callable[[Setting], Row]] = {
    "version": startup.version,
    "help": startup.help_text,
    "headless": headless.run,
    "exit": headless.last_answer_to_exit,
    "journal": journal.intent_and_outcome,
    "turn": models.turn,
    "search": models.search,
}
COLUMNS = "{:<24} {:>4} {:>9} {:>9} {:>9} {:>9}   {:<26} {:>9} {:>7} {:>7}  {}"


def install(place: Path) -> Path:
    """Install the wheel of this tree into a new environment and return its interpreter.

    An editable install would be measured with its import hook, which no user has.
    """
    shutil.rmtree(place, ignore_errors=True)
    # What setuptools left in the tree would be taken into the wheel, also modules that are gone.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, ROOT], check=True)
    wheel = next(place.glob("*.whl"))
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True)
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # The libraries are those of the environment that runs this; only Fluzo itself is installed anew.
    Path(purelib, "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def show(row: Row) -> str:
    figures = [ms(percentile(row.samples, percent)) for percent in (50, 95, 99, 100)]
    verdict = "ok" if row.is_within_limit else "over"
    return COLUMNS.format(
        row.name,
        len(row.samples),
        *figures,
        row.reference,
        ms(percentile(row.reference_samples, 50)),
        f"{row.ratio:.2f}",
        f"{row.limit:.2f}",
        verdict,
    )


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Fluzo against known costs on this machine.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows ({', '.join(ROWS)}); all without")
    parser.add_argument("-n", "--samples", type=int, default=40, help="samples of each side (default: 40)")
    options = parser.parse_args()
    unknown = sorted(set(options.rows) - set(ROWS))
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")

    python = install(ROOT / "build" / "bench")
    print(COLUMNS.format("path", "n", "p50", "p95", "p99", "max", "reference", "p50", "ratio", "limit", "verdict"))
    with tempfile.TemporaryDirectory() as home:
        setting = Setting(python=python, home=Path(home), samples=options.samples)
        for name, row in ROWS.items():
            if not options.rows or name in options.rows:
                print(show(row(setting)), flush=True)


if __name__ == "__main__":
    main()
