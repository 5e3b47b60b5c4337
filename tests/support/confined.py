"""A program in a poorer world: file modes count for root too, or no file may grow beyond a size, as on a full disk."""

import sys
from collections.abc import Sequence

_WITHOUT_OVERRIDE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
# no_new_privs keeps the coming exec from giving root its capabilities back (prctl(2), capabilities(7)).
assert libc.prctl(38, 1, 0, 0, 0) == 0
header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0), 8)
data = ctypes.create_string_buffer(24)
assert libc.capget(header, data) == 0
low = struct.unpack("6I", data.raw)
dac = ~(1 << 1 | 1 << 2) & 0xFFFFFFFF  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
data = ctypes.create_string_buffer(struct.pack("6I", low[0] & dac, low[1] & dac, low[2] & dac, *low[3:]), 24)
assert libc.capset(header, data) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""

_WITH_LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def without_override(*argv: str) -> Sequence[str]:
    """The command line under which `argv` is refused what its owner's file modes refuse."""
    return [sys.executable, "-c", _WITHOUT_OVERRIDE, *argv]


def with_file_limit(limit_bytes: int, *argv: str) -> Sequence[str]:
    """The command line under which no file that `argv` writes grows beyond the limit."""
    return [sys.executable, "-c", _WITH_LIMIT, str(limit_bytes), *argv]
