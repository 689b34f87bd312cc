"""The configurations of a run, as its judges know them: which of them have come into force, and which may yet.

    in_force       those that some member knew to be committed, by version; 0 is that of the files
    outstanding    those that stood in somebody's history above the newest of these. One that was cut away is among
                   them until a newer one is in force: whoever has it might come back first

The history that is committed governs, and only that: what was outstanding and is lost has decided nothing. What may be
lost of disks is another matter: there everything counts that might decide next (`losses`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from zab.protocol.membership import Membership, Memberships
from zab.quorum.quorums import Quorum

__all__ = ["Configurations"]

ASKED_MAX: Final = 2
"""Of what was asked for last, so much may not have been answered yet."""


class Configurations:
    """See the module."""

    def __init__(self, of_files: Membership) -> None:
        self.in_force: dict[int, Membership] = {of_files.version: of_files}
        self.outstanding: dict[int, Membership] = {}
        self._asked: deque[Membership] = deque(maxlen=ASKED_MAX)

    def ask(self, membership: Membership) -> None:
        """Somebody asks for this configuration: it may be outstanding from now on."""
        self._asked.append(membership)

    def forget_asked(self) -> None:
        """What was asked for has been answered."""
        self._asked.clear()

    @property
    def newest(self) -> Membership:
        return self.in_force[max(self.in_force)]

    @property
    def deciding(self) -> list[Quorum]:
        """Of what is in force, of all that might be next, and of what was asked for last."""
        return [each.quorum for each in self.possible]

    @property
    def possible(self) -> list[Membership]:
        """The same."""
        return [self.newest, *self.outstanding.values(), *self._asked]

    @property
    def ever(self) -> list[Quorum]:
        """Of all that were in force, too: somebody may know no newer one."""
        return [*(each.quorum for each in self.in_force.values()), *self.deciding]

    def appended(self, memberships: Memberships) -> None:
        """Something was appended to a history whose member knows these."""
        outstanding = memberships.outstanding
        if outstanding is not None and outstanding.version > max(self.in_force):
            self.outstanding.setdefault(outstanding.version, outstanding)

    def committed(self, memberships: Memberships) -> Sequence[Quorum]:
        """A mark has moved at a member that knows these. If its configuration was not known to be in force: the quorums
        that have committed it, by the one before and by itself."""
        in_force = memberships.in_force
        if in_force.version in self.in_force:
            return ()
        before = [version for version in self.in_force if version < in_force.version]
        self.in_force[in_force.version] = in_force
        for version in [version for version in self.outstanding if version <= in_force.version]:
            del self.outstanding[version]
        return self.in_force[max(before)].quorum, in_force.quorum

    def governing(self, zxid: int) -> Quorum:
        """Who has decided what stands at this zxid; of a reconfiguration, the rule that it brought into force."""
        return self.in_force[max(version for version in self.in_force if version <= zxid)].quorum
