"""The names of files: Kafka's.

    <topic>-<partition>/00000000000000000000.log        batches; the name is the base offset, 20 digits
                                            .index      offset index
                                            .timeindex  time index
                                            .txnindex   aborted transactions, if there are any
                                            .snapshot   producers before this offset
                        leader-epoch-checkpoint
                        partition.metadata

The suffixes `.deleted`, `.cleaned` and `.swap` after these names mean: on its way out, being written by the cleaner,
complete but not renamed yet.
"""

from __future__ import annotations

import re

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_FILES = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""The files of a segment; its snapshot may be needed longer."""

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"
DELETE_DIRECTORY = "-delete"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_NAME = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))")


def directory_of(path: str) -> str:
    """The directory of a file; empty at the top."""
    return path.rpartition("/")[0]


def path_of(directory: str, base_offset: int, suffix: str) -> str:
    """The path of a file of the segment that begins at `base_offset`."""
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_name(name: str) -> tuple[int, str] | None:
    """(base offset, suffix) of a file of a segment, or None."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match else None
