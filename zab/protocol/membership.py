"""Who belongs to the ensemble, and who of them decides: one configuration, and how one follows another.

    in force       the newest that is known to be committed; at first that of the configuration file
    outstanding    one above it in the history, which is not known to be committed: quorums of both decide meanwhile
    heard          one that others say is committed, of which this history tells nothing yet; it belongs to the lineage
                   of whoever said so: a member that takes on another one, or leads or follows in its own, forgets it

A configuration is the data of one transaction, the *reconfiguration*, and its version is the zxid of that. So it is
logged, synchronized, cut away and restored like any other, and there is no other place where members could disagree.

Variables: those three, and `quorum`, which follows from them. Invariants:
- Above the mark a history has one reconfiguration at most: a leader proposes none before the one before is committed.
- From the moment in which a reconfiguration is in a history until it is committed, whatever that member decides needs a
  quorum of the old configuration and one of the new.

Why nobody decides without knowing a committed configuration: a quorum of the one before it has acknowledged it. So each
quorum of that has a member with it in its history, and no leader counts a member that is ahead of it (`discovery`).
That holds from each configuration to the next.

Not here: who may change it, and what has to be true before (`reconfiguration`); what it looks like in text
(`zab.configuration.dynamic`).
"""

from typing import Protocol

import attrs

from datatree.log.batch import Batch
from datatree.log.zxid import Zxid
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Joint, Quorum


@attrs.frozen
class Membership:
    """One configuration of the ensemble."""

    version: Zxid
    """The zxid of its reconfiguration; 0: it is that of the configuration file."""
    quorum: Quorum
    servers: frozenset[ServerId]
    """All: voters, servers of weight 0, and observers."""
    observers: frozenset[ServerId] = frozenset()
    text: bytes = b""
    """As it stands in the transaction, for whoever needs addresses."""


class Reader(Protocol):
    """Reads configurations. Raises ValueError for what is none, and where nobody would decide."""

    def of_batch(self, batch: Batch) -> Membership:
        """Of a batch that is flagged as a reconfiguration."""

    def of_text(self, text: bytes) -> Membership:
        """Of the data of `/zookeeper/config`, which is not empty."""


class NoReader:
    """Where there are no reconfigurations."""

    def of_batch(self, batch: Batch) -> Membership:
        raise ValueError("reconfigurations are not understood here")

    def of_text(self, text: bytes) -> Membership:
        raise ValueError("reconfigurations are not understood here")


class Memberships:
    """What one member knows of configurations."""

    def __init__(self, in_force: Membership, outstanding: Membership | None = None) -> None:
        self.in_force = in_force
        self.outstanding = outstanding
        self.heard: Membership | None = None
        self.heard_of_lineage = b""
        """The lineage that `heard` belongs to. Versions of two lineages say nothing of each other."""
        self.outstanding_at: dict[ServerId, Membership] = {}
        """What others said in this election to be outstanding at them, of the same lineage as this member's."""
        self.turned_at: int | None = None
        """When what was heard of a lineage was forgotten for that of another one: some ensemble has lived."""
        self.quorum = self._quorum()

    def _quorum(self) -> Quorum:
        in_force, outstanding = self.newest, self.outstanding
        if outstanding is None or outstanding.version <= in_force.version:
            return in_force.quorum
        return Joint(in_force.quorum, outstanding.quorum)

    @property
    def newest(self) -> Membership:
        """The newest that is known to be committed."""
        heard = self.heard
        return self.in_force if heard is None or heard.version <= self.in_force.version else heard

    @property
    def is_any_in_history(self) -> bool:
        """Whether there was a reconfiguration, so that no file says any more who decides."""
        return self.in_force.version > 0 or self.outstanding is not None

    @property
    def is_any_known(self) -> bool:
        """Whether a configuration with a version above 0 is known, by the history or from others: the ensemble has
        lived."""
        return self.is_any_in_history or bool(self.heard_of) or self.turned_at is not None

    @property
    def servers(self) -> frozenset[ServerId]:
        """Everybody of all that are known."""
        servers = self.in_force.servers
        for other in (self.outstanding, self.heard):
            if other is not None:
                servers |= other.servers
        return servers

    @property
    def candidates(self) -> frozenset[ServerId]:
        """Who may lead. Also whoever is taken in by what is outstanding at others: he may have more than they."""
        candidates = self.quorum.voters
        for other in self.outstanding_at.values():
            candidates |= other.quorum.voters
        return candidates

    @property
    def heard_of(self) -> tuple[Membership, ...]:
        """What others said."""
        heard = () if self.heard is None else (self.heard,)
        return *heard, *self.outstanding_at.values()

    def told(self, lineage: bytes = b"") -> tuple[bytes, bytes]:
        """What is said with each vote: the newest in force, and what is outstanding. What was only heard is passed on
        by who holds a history of the same lineage; empty: by nobody."""
        newest = self.newest if self.heard_of_lineage == lineage != b"" else self.in_force
        return newest.text, b"" if self.outstanding is None else self.outstanding.text

    # ------------------------------------------------------------------------------------------------------- changes

    def appended(self, membership: Membership, mark: Zxid) -> None:
        """A reconfiguration is in the history now; `mark` was known to its leader. Raises ValueError for a second one
        that is outstanding."""
        before = self.outstanding
        if before is not None:
            if before.version > mark:
                raise ValueError(f"a reconfiguration while that at {before.version:#x} is outstanding")
            self.in_force = before
        assert membership.version > self.in_force.version, (membership.version, self.in_force.version)
        self.outstanding = membership
        self.quorum = self._quorum()

    def committed(self, mark: Zxid) -> bool:
        """Everything up to the mark is committed; whether that puts another configuration in force."""
        outstanding = self.outstanding
        if outstanding is None or outstanding.version > mark:
            return False
        assert outstanding.version > self.in_force.version
        self.in_force, self.outstanding = outstanding, None
        self._forget_heard()
        return True

    def cut(self, end: Zxid) -> bool:
        """The history ends here now; whether that ended what was outstanding."""
        if self.outstanding is None or self.outstanding.version <= end:
            return False
        assert self.in_force.version <= end, "nothing committed is ever cut"
        self.outstanding = None
        self.quorum = self._quorum()
        return True

    def replaced(self, in_force: Membership) -> None:
        """A snapshot, or nothing at all, took the place of the history."""
        self.in_force, self.outstanding = in_force, None
        self._forget_heard()

    def hear_outstanding(self, sid: ServerId, membership: Membership | None) -> bool:
        """This is outstanding at a server, as it says; whether that is news. What is older than what is in force is not
        outstanding."""
        assert membership is None or membership.quorum.voters
        if membership is not None and membership.version <= self.newest.version:
            membership = None
        before = self.outstanding_at.pop(sid, None)
        if membership is not None:
            self.outstanding_at[sid] = membership
        return before != membership

    def hear(self, membership: Membership, lineage: bytes) -> bool:
        """Others, of this lineage, say that it is committed; whether that is news."""
        if membership.version <= self.newest.version:
            return False
        assert membership.version > self.in_force.version
        self.heard, self.heard_of_lineage = membership, lineage
        for sid in [sid for sid, other in self.outstanding_at.items() if other.version <= membership.version]:
            del self.outstanding_at[sid]
        self.quorum = self._quorum()
        return True

    def take_lineage(self, lineage: bytes) -> bool:
        """This member takes on a lineage; whether it had heard of another one's configurations, and forgets them."""
        self.turned_at = None
        if self.heard_of_lineage == lineage or not self.heard_of:
            return False
        self.heard, self.heard_of_lineage = None, b""
        self.outstanding_at.clear()
        self.quorum = self._quorum()
        return True

    def turn_to(self, lineage: bytes, now: int) -> None:
        """Forget what was heard of another lineage for that of this one; nothing begins here all the same."""
        assert self.heard_of_lineage not in (b"", lineage)
        assert not self.is_any_in_history
        self.take_lineage(lineage)
        self.heard_of_lineage, self.turned_at = lineage, now

    def _forget_heard(self) -> None:
        if self.heard is not None and self.heard.version <= self.in_force.version:
            self.heard = None
        self.quorum = self._quorum()
