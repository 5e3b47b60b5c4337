"""Run a Python program in a kernel that seems to lack one system call: a seccomp filter answers with an error."""

import os
import subprocess
import sys
from pathlib import Path

_PRELUDE = """
import ctypes, struct
def _deny(number, error):
    # BPF: load the call's number; equal -> return ERRNO|error, else ALLOW (seccomp(2), linux/bpf_common.h).
    program = b"".join(struct.pack("HBBI", *op) for op in (
        (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)))
    buffer = ctypes.create_string_buffer(program)
    class Fprog(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    fprog = Fprog(4, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(fprog)) == 0, ctypes.get_errno()
"""


def run_without_call(number: int, error: int, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`program` as a child of its own; the call `number` fails with `error` after the imports of the prelude."""
    code = f"{_PRELUDE}\n_deny({number}, {error})\n{program}"
    support = str(Path(__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": support}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=env
    )
