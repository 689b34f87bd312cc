"""What is around a member, as its process finds it: files, descriptors, the machine. It takes its time: in a worker.

Not here: who asks (`zab.member.words.events.LookAround`, and the admin server).
"""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import re
import resource
import socket
import sys
from collections.abc import Mapping
from functools import cache

import trio

from zab.host.loop.handshakes import Handshakes
from zab.member.settings.config import Config
from zab.member.words.figures import MemberView
from zab.service.surroundings import Surroundings

REST_SECONDS = 0.002
_SNAPSHOT = re.compile(r"snapshot\.([0-9a-f]+)")
DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def look_around(config: Config, handshakes: Handshakes) -> Surroundings:
    """All of it, now. What cannot be seen is 0, or missing."""
    data_bytes = _size_of(config.storage.data_dir)
    return Surroundings(
        data_bytes,
        data_bytes if config.storage.data_log_dir == config.storage.data_dir else _size_of(config.storage.data_log_dir),
        *_newest_snapshot(config.storage.data_dir),
        open_descriptors(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        {**_machine(), **_memory()},
        handshakes.count,
        handshakes.exceeded_count,
    )


async def whole_state(member: MemberView) -> None:
    """Wait while a committed batch is applied in part: nobody may look at the tree then."""
    while member.is_between_states:  # noqa: ASYNC110  (the member is pure: it sets no event)
        await trio.sleep(REST_SECONDS)


def open_descriptors() -> int:
    """Of this process, without the one that is needed to look."""
    try:
        return len(os.listdir(DESCRIPTORS)) - 1
    except OSError:
        return 0


def _newest_snapshot(directory: str) -> tuple[int, int]:
    """Its zxid, and when it was written (s since 1970)."""
    newest = (0, 0)
    try:
        with os.scandir(os.path.join(directory, "version-1")) as entries:
            for entry in entries:
                found = _SNAPSHOT.fullmatch(entry.name)
                if found is not None and int(found[1], 16) > newest[0]:
                    with contextlib.suppress(OSError):
                        newest = int(found[1], 16), int(entry.stat().st_mtime)
    except OSError:
        pass
    return newest


def _size_of(directory: str) -> int:
    """Of the files of the service in a directory, in bytes."""
    size = 0
    try:
        with os.scandir(os.path.join(directory, "version-1")) as entries:
            for entry in entries:
                # One that retention removes meanwhile is not there.
                try:
                    size += entry.stat(follow_symlinks=False).st_size
                except OSError:
                    continue
    except OSError:
        return 0
    return size


@cache
def _machine() -> Mapping[str, str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # an id without a name, as in many containers
        user = str(os.getuid())
    return {
        "host.name": socket.gethostname(),
        "python.version": platform.python_version(),
        "python.implementation": platform.python_implementation(),
        "python.executable": sys.executable,
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": user,
        "user.home": os.path.expanduser("~"),
        "user.dir": os.getcwd(),
    }


def _memory() -> Mapping[str, str]:
    """Of the machine, as the system counts it: what is free, and all there is; and what this process may have."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = total if limit == resource.RLIM_INFINITY else min(total, limit)
    # macOS has no such name.
    free = page * os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else 0
    return {
        "os.memory.free": f"{free >> 20}MB",
        "os.memory.max": f"{most >> 20}MB",
        "os.memory.total": f"{total >> 20}MB",
    }
