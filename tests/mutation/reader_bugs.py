#!/usr/bin/env python3
"""Ten deliberate bugs in the reader of replies, and for each the test that has to notice it: `make mutate`.

Each bug is one replacement of a text that occurs once in its file. It is made in a copy of the package, never in the
tree; there its test must pass before and fail after. The exit status is 1 when a bug goes unnoticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READING = "tests/unit/test_chat_reading.py::test_a_wire_case_is_read"


@dataclass(frozen=True)
class Bug:
    """`anchor` stands once in `fluzo/models/<file>` and becomes `replacement`; `test` is what must then fail."""

    name: str
    file: str
    anchor: str
    replacement: str
    test: str

    @property
    def path(self) -> Path:
        return Path("fluzo", "models", self.file)


BUGS = (
    Bug(
        "a line ends at U+2028 too",
        "sse.py",
        r'_LINE_END = re.compile(rb"\r\n|\r|\n")',
        r'_LINE_END = re.compile(rb"\r\n|\r|\n|\xe2\x80\xa8")',
        f"{READING}_as_expected[p07-unicode-line-separators]",
    ),
    Bug(
        "text is decoded packet by packet",
        "sse.py",
        "        if self._after_cr and chunk:\n",
        '        chunk = chunk.decode("utf-8", "replace").encode()\n        if self._after_cr and chunk:\n',
        f"{READING}_the_same_byte_by_byte[p06-utf8-bytewise]",
    ),
    Bug(
        "the finish reason decides whether there are calls",
        "assembly.py",
        "tool_calls=calls if whole else (),",
        'tool_calls=calls if whole and finish == "tool_calls" else (),',
        f"{READING}_as_expected[p35-finish-stop-with-call]",
    ),
    Bug(
        "usage of all chunks is added up",
        "assembly.py",
        '        self._usage = _usage(chunk.get("usage")) or self._usage\n',
        '        told, so_far = _usage(chunk.get("usage")) or Usage(), self._usage or Usage()\n'
        "        self._usage = Usage(told.input_tokens + so_far.input_tokens,\n"
        "                            told.output_tokens + so_far.output_tokens)\n",
        f"{READING}_as_expected[p12-usage-cumulative]",
    ),
    Bug(
        "the index alone joins pieces of calls",
        "toolcalls.py",
        "        if call_id and current.id:\n            return call_id != current.id\n",
        "        if call_id and current.id:\n            return False\n",
        f"{READING}_as_expected[p22-all-index-zero]",
    ),
    Bug(
        "arguments that end in the middle are taken as they are",
        "toolcalls.py",
        "            if parse_object(arguments) is None and cut_off(arguments):\n",
        "            if False:\n",
        f"{READING}_as_expected[p36-truncated-but-tool-calls]",
    ),
    Bug(
        "the end of the connection is the end of the reply",
        "reading.py",
        "ended=self.finished or not self.has_output",
        "ended=True",
        f"{READING}_as_expected[p38-cut-mid-arguments]",
    ),
    Bug(
        "an error inside the stream is passed over",
        "reading.py",
        'if frame.event == "error" or _reports_error(chunk):',
        'if frame.event == "error":',
        f"{READING}_as_expected[p40-error-in-stream]",
    ),
    Bug(
        "a reply with nothing in it is a success",
        "assembly.py",
        'outcome="empty" if empty else "complete" if whole else "incomplete",',
        'outcome="complete" if whole else "incomplete",',
        f"{READING}_as_expected[p47-empty-success]",
    ),
    Bug(
        "a call that stands in a code fence is made",
        "textcalls.py",
        "    return any(code.start() <= position < code.end() for code in re.finditer(_CODE, text))\n",
        "    return False\n",
        f"{READING}_as_expected[p64-text-call-in-fence]",
    ),
)


def failing(copy: Path, tests: list[str]) -> set[str]:
    """Those of the tests that fail with the package of the copy; raises SystemExit when they could not be run."""
    argv = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=copy, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout + done.stderr)
    told = {line.removeprefix("FAILED ").partition(" - ")[0] for line in done.stdout.splitlines()}
    return told & set(tests)


def noticed(copy: Path, bug: Bug) -> bool:
    path = copy / bug.path
    sound = path.read_text(encoding="utf-8")
    if sound.count(bug.anchor) != 1:
        raise SystemExit(f"{bug.path} does not hold this text exactly once:\n{bug.anchor}")
    path.write_text(sound.replace(bug.anchor, bug.replacement), encoding="utf-8")
    try:
        return bool(failing(copy, [bug.test]))
    finally:
        path.write_text(sound, encoding="utf-8")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("fluzo", "tests", "fixtures"):
            shutil.copytree(
                ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "target", ".*_cache")
            )
        shutil.copy(ROOT / "pyproject.toml", copy)
        broken = failing(copy, [bug.test for bug in BUGS])
        if broken:
            raise SystemExit("these fail without any bug: " + ", ".join(sorted(broken)))
        missed = 0
        for bug in BUGS:
            seen = noticed(copy, bug)
            missed += not seen
            print(f"{'noticed' if seen else 'MISSED':<8} {bug.file:<13} {bug.name:<55} {bug.test}", flush=True)
    print(f"{len(BUGS) - missed} of {len(BUGS)} bugs noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
