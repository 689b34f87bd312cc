"""The small records of a member as they were last written, so that a damaged one can be written again.

Only records that this process has read or written are known; a readable record is never touched, so that none is set
back to an older state.

Not here: their content (`datatree.log.epochs`, `datatree.log.session_keys`).
"""

from __future__ import annotations

import attrs

from datatree.log.disk import Disk
from datatree.log.epochs import MEMBER, MemberRecord, load_epochs, load_member, load_record, save_epochs, save_member
from datatree.log.session_keys import NamedKey, has_damaged_session_keys, load_session_keys, save_session_keys


@attrs.define
class Records:
    """The records; None: it does not exist, or was damaged when this process began."""

    epochs: tuple[int, int] | None
    member: MemberRecord | None
    session_keys: tuple[bytes, list[NamedKey]] | None

    @classmethod
    def of(cls, disk: Disk, lineage: bytes) -> Records:
        """Read the records from the disk."""
        keys = load_session_keys(disk, lineage)
        return cls(load_epochs(disk), load_member(disk), (lineage, keys) if keys else None)

    def repair(self, disk: Disk) -> None:
        """Write the unreadable records, durably. Raises OSError: final."""
        if self.epochs is not None:
            save_epochs(disk, *self.epochs)
        if self.member is not None and load_record(disk, MEMBER) is None:
            save_member(disk, self.member)
        if self.session_keys is not None and has_damaged_session_keys(disk):
            save_session_keys(disk, *self.session_keys)
