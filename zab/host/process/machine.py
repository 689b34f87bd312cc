"""The machine and the process of a service: their names, memory, and descriptors.

Linux and macOS. Unknown values are 0, or missing.
"""

from __future__ import annotations

import getpass
import os
import platform
import resource
import socket
import sys
from collections.abc import Mapping
from functools import cache

DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def open_descriptors() -> int:
    """How many descriptors this process has open, without the one that this call uses."""
    try:
        return len(os.listdir(DESCRIPTORS)) - 1
    except OSError:
        return 0


@cache
def machine() -> Mapping[str, str]:
    """The machine, the interpreter and the user, with the names of ZooKeeper's `envi`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without a name, as in many containers
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


def memory() -> Mapping[str, str]:
    """The free and total memory of the machine, and the limit of this process."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = total if limit == resource.RLIM_INFINITY else min(total, limit)
    # macOS lacks this name.
    free = page * os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else 0
    return {
        "os.memory.free": f"{free >> 20}MB",
        "os.memory.max": f"{most >> 20}MB",
        "os.memory.total": f"{total >> 20}MB",
    }
