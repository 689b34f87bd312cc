"""Where temporary directories are, pytest's `tmp_path` as well: in memory, if there is room.

Each write of a server waits until the disk has it, which takes some milliseconds. No test cuts the power of this
machine (`power_cut` keeps the unwritten bytes of a directory itself), so none needs the disk for that.

$TMPDIR, if it is set, stays.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
ROOM_BYTES_MIN: Final = 8 << 30
"""A run with several workers keeps less than half of it at a time."""
_AVAILABLE: Final = re.compile(r"^MemAvailable: +(\d+) kB$", re.MULTILINE)


def use_memory() -> None:
    """$TMPDIR of this process, its workers and all that they start. Call it before pytest makes a `tmp_path`."""
    if "TMPDIR" not in os.environ and has_room(MEMORY, Path("/proc/meminfo")):
        os.environ["TMPDIR"] = str(MEMORY)
        # Whoever asked before has had the answer kept. pytest asks again, for its first `tmp_path`.
        tempfile.tempdir = None


def has_room(memory: Path, figures: Path, bytes_min: int = ROOM_BYTES_MIN) -> bool:
    """Whether files there can be run as programs, and so many bytes fit: both into it and into what the machine has
    left, as its /proc/meminfo says."""
    try:
        is_executable = not os.statvfs(memory).f_flag & os.ST_NOEXEC
        available = _AVAILABLE.search(figures.read_text())
    except FileNotFoundError:
        return False
    if available is None or not is_executable:
        return False
    return min(shutil.disk_usage(memory).free, int(available[1]) * 1024) >= bytes_min
