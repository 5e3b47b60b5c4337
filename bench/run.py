"""`make bench`: every measured path as a ratio to something known, with the percentiles of this run.

A row is a function that takes a `Setting` and returns a `Row`; to add one, write it in a module beside this one and
name it in `ROWS`. What has no reference is a `Figure` of `FIGURES`: several a name, with percentiles of their own
(nearest rank) and limits on them. Figures say how it is on this machine, now; nothing fails because of them.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import headless
import journal
import models
import screen_load
import screen_rows
import startup
from measure import Figure, Row, Setting, percentile

ROOT = Path(__file__).resolve().parents[1]
ROWS: dict[str, Callable[[Setting], Row]] = {
    "version": startup.version,
    "help": startup.help_text,
    "headless": headless.run,
    "exit": headless.last_answer_to_exit,
    "journal": journal.intent_and_outcome,
    "turn": models.turn,
    "search": models.search,
    "start": screen_rows.start,
}
FIGURES: dict[str, Callable[[Setting], Iterable[Figure]]] = {
    "load": screen_load.load,
    "idle": screen_rows.idle,
    "history": screen_rows.history,
    "mark": screen_rows.mark,
}
GROUPS = {"screen": ("start", *FIGURES)}
COLUMNS = "{:<24} {:>4} {:>9} {:>9} {:>9} {:>9}   {:<26} {:>9} {:>7} {:>7}  {}"
FIGURE_COLUMNS = "{:<24} {:<16} {:>5} {:>8} {:>8} {:>8} {:>8} {:<7}   {:<20} {}"


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


def show_figure(figure: Figure) -> str:
    if len(figure.samples) == 1:
        values = ["", "", "", f"{figure.samples[0]:.1f}"]
    else:
        values = [f"{percentile(figure.samples, percent):.1f}" for percent in (50, 95, 99, 100)]
    limits = ", ".join(f"{'' if p == 100 else f'p{p:g} '}<= {limit:g}" for p, limit in figure.limits)
    verdict = "" if not figure.limits else "ok" if figure.is_within_limit else "over"
    told = "  ".join(part for part in (verdict, figure.note) if part)
    columns = (figure.name, figure.where, len(figure.samples), *values, figure.unit, limits, told)
    return FIGURE_COLUMNS.format(*columns).rstrip()


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main() -> None:
    names = [*ROWS, *FIGURES]
    parser = argparse.ArgumentParser(description="Measure Fluzo against known costs on this machine.")
    groups = "".join(f"; {group} for {', '.join(members)}" for group, members in GROUPS.items())
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows ({', '.join(names)}{groups}); all without")
    parser.add_argument("-n", "--samples", type=int, default=40, help="samples of each side (default: 40)")
    options = parser.parse_args()
    wanted = {name for row in options.rows or names for name in GROUPS.get(row, (row,))}
    if unknown := sorted(wanted - set(names)):
        parser.error(f"no such row: {', '.join(unknown)}")

    python = install(ROOT / "build" / "bench")
    with tempfile.TemporaryDirectory() as home:
        setting = Setting(python=python, home=Path(home), samples=options.samples)
        if wanted & set(ROWS):
            print(COLUMNS.format("path", "n", "p50", "p95", "p99", "max", "reference", "p50", "ratio", "limit", ""))
        for name, row in ROWS.items():
            if name in wanted:
                print(show(row(setting)), flush=True)
        if wanted & set(FIGURES):
            print()
            print(FIGURE_COLUMNS.format("figure", "where", "n", "p50", "p95", "p99", "max", "", "limit", "").rstrip())
        for name, figures in FIGURES.items():
            if name in wanted:
                for figure in figures(setting):
                    print(show_figure(figure), flush=True)
    if wanted & set(GROUPS["screen"]):
        print("\nHow they are taken:")
        print("\n".join(f"- {name}: {method}" for name, method in screen_rows.METHODS.items()))


if __name__ == "__main__":
    main()
