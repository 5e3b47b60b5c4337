"""What the kernel knows of a process: its time on a processor, its memory (proc(5))."""

from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Time on a processor of all its threads so far, in nanosecond steps; ended threads are no longer counted."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_bytes(pid: int) -> int:
    return _status(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """The most it ever had resident."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
