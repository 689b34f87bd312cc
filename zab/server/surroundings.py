"""The surroundings of a member: files, descriptors, the machine. Slow, so it runs in a worker.

Not here: the callers (`zab.member.words.events.LookAround`, and the admin server).
"""

from __future__ import annotations

import contextlib
import os
import re
import resource

import trio

from zab.host.loop.handshakes import Handshakes
from zab.host.process.machine import machine, memory, open_descriptors
from zab.member.settings.config import Config
from zab.member.words.figures import MemberView
from zab.member.words.surroundings import Surroundings

REST_SECONDS = 0.002
_SNAPSHOT = re.compile(r"snapshot\.([0-9a-f]+)")


def look_around(config: Config, handshakes: Handshakes) -> Surroundings:
    """The current surroundings. Unknown values are 0, or missing."""
    data_bytes = _size_of(config.storage.data_dir)
    return Surroundings(
        data_bytes,
        data_bytes if config.storage.data_log_dir == config.storage.data_dir else _size_of(config.storage.data_log_dir),
        *_newest_snapshot(config.storage.data_dir),
        open_descriptors(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        {**machine(), **memory()},
        handshakes.count,
        handshakes.exceeded_count,
        handshakes.failed_count,
    )


async def whole_state(member: MemberView) -> None:
    """Wait while a committed batch is applied in part, since nobody may look at the tree then."""
    while member.is_between_states:  # noqa: ASYNC110  (the member is pure: it sets no event)
        await trio.sleep(REST_SECONDS)


def _newest_snapshot(directory: str) -> tuple[int, int]:
    """The zxid of the newest snapshot, and when it was written (s since 1970)."""
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
    """The size of the service's files in a directory, in bytes."""
    size = 0
    try:
        with os.scandir(os.path.join(directory, "version-1")) as entries:
            for entry in entries:
                # Retention may have removed it meanwhile.
                try:
                    size += entry.stat(follow_symlinks=False).st_size
                except OSError:
                    continue
    except OSError:
        return 0
    return size
