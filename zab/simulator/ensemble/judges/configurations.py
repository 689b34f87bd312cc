"""The configurations of a run, as its judges know them: those that came into force, and those that still may.

    in_force       configurations that some member knew to be committed, by version; 0 is that of the files
    outstanding    configurations in the history of some member above the newest of these. One that was cut away is
                   included until a newer one is in force, since a member that has it might come back first

Only the committed history governs: an outstanding configuration that is lost has decided nothing. For the loss of
disks, however, everything counts that might decide next (`losses`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from zab.protocol.membership import Membership, Memberships
from zab.quorum.quorums import Quorum

__all__ = ["Configurations"]

ASKED_MAX: Final = 2
"""How many of the last requests may still be unanswered."""


class Configurations:
    """The configurations of one run."""

    def __init__(self, of_files: Membership) -> None:
        self.in_force: dict[int, Membership] = {of_files.version: of_files}
        self.outstanding: dict[int, Membership] = {}
        self._asked: deque[Membership] = deque(maxlen=ASKED_MAX)

    def ask(self, membership: Membership) -> None:
        """Note a requested configuration, which may be outstanding from now on."""
        self._asked.append(membership)

    def forget_asked(self) -> None:
        """Forget the requested configurations, since they have been answered."""
        self._asked.clear()

    @property
    def newest(self) -> Membership:
        return self.in_force[max(self.in_force)]

    @property
    def deciding(self) -> list[Quorum]:
        """The quorums of the configurations in force, of those that may come next, and of those requested last."""
        return [each.quorum for each in self.possible]

    @property
    def possible(self) -> list[Membership]:
        """The configurations in force, those that may come next, and those requested last."""
        return [self.newest, *self.outstanding.values(), *self._asked]

    @property
    def ever(self) -> list[Quorum]:
        """The quorums of these, and of all that were once in force, since some member may know no newer one."""
        return [*(each.quorum for each in self.in_force.values()), *self.deciding]

    def appended(self, memberships: Memberships) -> None:
        """Note the memberships of a member that has appended to its history."""
        outstanding = memberships.outstanding
        if outstanding is not None and outstanding.version > max(self.in_force):
            self.outstanding.setdefault(outstanding.version, outstanding)

    def committed(self, memberships: Memberships) -> Sequence[Quorum]:
        """Note the memberships of a member whose mark has moved. If its configuration was not known to be in force,
        returns the quorums that must have committed it: that of the one before, and its own."""
        in_force = memberships.in_force
        if in_force.version in self.in_force:
            return ()
        before = [version for version in self.in_force if version < in_force.version]
        self.in_force[in_force.version] = in_force
        for version in [version for version in self.outstanding if version <= in_force.version]:
            del self.outstanding[version]
        return self.in_force[max(before)].quorum, in_force.quorum

    def governing(self, zxid: int) -> Quorum:
        """The quorum that decided about this zxid; for a reconfiguration, the quorum that it brought into force."""
        return self.in_force[max(version for version in self.in_force if version <= zxid)].quorum
