"""All logs of one zab member, for `zab log DIR`: one history, read once or while it is being written.

A transaction may be in two files: after a crash a member copies what was not known to be synced into a new one. Each
file is printed up to where the one after it begins, so no transaction appears twice, and of two that differ, the one
appears that a start would use.

The events are those of `zab.cli.files.log_files`. A Note says where files do not connect: what lies between came with a
snapshot, or its file is gone. A file whose header cannot be read is a Damage. So is a log that ends below what
`committed` beside it says (`datatree.history`).
"""

from collections.abc import Iterator
from pathlib import Path

from datatree.history import LOG_DIRECTORY, beyond
from datatree.log.epochs import COMMITTED, DIRECTORY
from datatree.log.segment import SEGMENT_HEADER_BYTES
from zab.cli.files.log_files import Damage, Entry, Event, NativeLog, Note, UnreadableError, has_begun, logs_in

__all__ = ["History", "is_of_member"]


def is_of_member(directory: Path) -> bool:
    """Whether it is the data directory of a zab member, or the one with the files in it."""
    return directory.name == DIRECTORY or (directory / DIRECTORY).is_dir()


class History:
    """The logs below `directory`, by ascending zxid. Raises UnreadableError if none can be read."""

    def __init__(self, directory: Path) -> None:
        self._damage: list[Damage] = []
        self._logs: list[NativeLog] = []
        place = directory if directory.name == DIRECTORY else directory / DIRECTORY
        for _, path in logs_in(place):
            if not has_begun(path, SEGMENT_HEADER_BYTES):
                continue
            try:
                self._logs.append(NativeLog(path))
            except UnreadableError as error:
                self._damage.append(Damage(str(path), 0, str(error)))
        if not self._logs:
            raise UnreadableError(f"{directory}: no log that can be read in {place}; {LOG_DIRECTORY}")
        lineage = self._logs[-1].header.lineage
        self._others = [log for log in self._logs if log.header.lineage != lineage]
        self._logs = [log for log in self._logs if log.header.lineage == lineage]

    @property
    def title(self) -> str:
        return self._logs[0].title

    @property
    def position(self) -> int:
        """How much of the newest file was read, in bytes."""
        return self._logs[-1].position

    def dump(self) -> Iterator[Event]:
        """What the files contain now."""
        yield from self._damage
        for log in self._others:
            yield Note(f"{log.path}: of lineage {log.header.lineage.hex()}: left out")
        # Later batches say that earlier ones are committed.
        committed = self._logs[-1].mark
        mark = max(log.find_mark() for log in self._logs[-2:])
        last: int | None = None
        for number, log in enumerate(self._logs):
            begins = log.header.previous[0]
            if last is not None and begins > last:
                yield Note(f"goes on after 0x{begins:x}: what lies between came with a snapshot, or its file is gone")
            ends = self._logs[number + 1].header.previous[0] if number + 1 < len(self._logs) else None
            log.mark = max(log.mark, mark)
            last = begins
            for event in log.dump():
                if isinstance(event, Entry):
                    if ends is not None and event.txn.zxid > ends:
                        continue
                    last = event.txn.zxid
                yield event
        # What was written meanwhile is in the log before the file says so.
        reason = beyond(committed, last or 0)
        if reason is not None:
            yield Damage(str(self._logs[-1].path.parent / COMMITTED), 0, reason)

    def poll(self) -> Iterator[Event]:
        """What was added since the last call, or since `dump`."""
        yield from self._logs[-1].poll()
