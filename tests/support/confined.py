"""A program in a poorer world: root without its powers, or no file that may grow beyond a size, as on a full disk."""

import sys
from collections.abc import Sequence

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_KILL = 1, 2, 5
"""Numbers of capabilities(7)."""

_WITHOUT = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
# no_new_privs keeps the coming exec from giving root its capabilities back (prctl(2), capabilities(7)).
assert libc.prctl(38, 1, 0, 0, 0) == 0
header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0), 8)
data = ctypes.create_string_buffer(24)
assert libc.capget(header, data) == 0
low = struct.unpack("6I", data.raw)
kept = ~int(sys.argv[1]) & 0xFFFFFFFF
data = ctypes.create_string_buffer(struct.pack("6I", low[0] & kept, low[1] & kept, low[2] & kept, *low[3:]), 24)
assert libc.capset(header, data) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""

_WITH_LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def without_override(*argv: str) -> Sequence[str]:
    """The command line under which `argv` is refused what its owner's file modes refuse."""
    return _without((CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH), argv)


def without_kill(*argv: str) -> Sequence[str]:
    """The command line under which `argv` cannot signal the processes of other users."""
    return _without((CAP_KILL,), argv)


def _without(capabilities: Sequence[int], argv: Sequence[str]) -> Sequence[str]:
    return [sys.executable, "-c", _WITHOUT, str(sum(1 << number for number in capabilities)), *argv]


def with_file_limit(limit_bytes: int, *argv: str) -> Sequence[str]:
    """The command line under which no file that `argv` writes grows beyond the limit."""
    return [sys.executable, "-c", _WITH_LIMIT, str(limit_bytes), *argv]
