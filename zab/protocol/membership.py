"""Which servers belong to the ensemble, and which of them decide: one configuration, and how one follows another.

    in force       the newest that is known to be committed; at first that of the configuration file
    outstanding    a newer one in the history that is not known to be committed: until then, decisions need quorums of
                   both
    heard          one that others report as committed, and that is not in this history yet; it belongs to the lineage
                   of its sender: a member that adopts another lineage, or leads or follows in its own, forgets it

A configuration is the data of one transaction, the *reconfiguration*, and its version is that transaction's zxid. So it
is logged, synchronized, cut and restored like any other, and there is no other place where members could disagree.

Variables: these three, and `quorum`, which follows from them. Invariants:
- Above the mark, a history has at most one reconfiguration: a leader proposes none before the previous one is
  committed.
- While a reconfiguration is in a member's history and not committed, that member's decisions need a quorum of the old
  configuration and one of the new.

Why no server decides without knowing a committed configuration: a quorum of the previous configuration has acknowledged
it. So each quorum of that one has a member with the new configuration in its history, and no leader counts a member
that is ahead of it (`discovery`). This holds from each configuration to the next.

Not here: who may change the configuration, and when (`reconfiguration`); its text form (`zab.configuration.dynamic`).
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
    """The zxid of its reconfiguration; 0 for the configuration file's."""
    quorum: Quorum
    servers: frozenset[ServerId]
    """All: voters, servers of weight 0, and observers."""
    observers: frozenset[ServerId] = frozenset()
    text: bytes = b""
    """The data of the transaction, which has the addresses."""


class Reader(Protocol):
    """Reads configurations. Raises ValueError for invalid ones, and for those in which no server would decide."""

    def of_batch(self, batch: Batch) -> Membership:
        """The configuration in a batch that is flagged as a reconfiguration."""

    def of_text(self, text: bytes) -> Membership:
        """The configuration in the data of `/zookeeper/config`, which must not be empty."""


class NoReader:
    """For ensembles without reconfigurations."""

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
        """The lineage that `heard` belongs to. Versions of two lineages cannot be compared."""
        self.outstanding_at: dict[ServerId, Membership] = {}
        """What other servers, of this member's lineage, have reported in this election as outstanding there."""
        self.turned_at: int | None = None
        """When what was heard of one lineage was replaced by another one's: some ensemble has lived."""
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
        """Whether the history has a reconfiguration, so that the file no longer says who decides."""
        return self.in_force.version > 0 or self.outstanding is not None

    @property
    def is_any_known(self) -> bool:
        """Whether a configuration with a version above 0 is known, from the history or from others: then the ensemble
        has lived."""
        return self.is_any_in_history or bool(self.heard_of) or self.turned_at is not None

    @property
    def servers(self) -> frozenset[ServerId]:
        """The servers of all configurations that are known."""
        servers = self.in_force.servers
        for other in (self.outstanding, self.heard):
            if other is not None:
                servers |= other.servers
        return servers

    @property
    def candidates(self) -> frozenset[ServerId]:
        """Servers that may lead. This includes those that a configuration outstanding elsewhere adds: they may have
        more history."""
        candidates = self.quorum.voters
        for other in self.outstanding_at.values():
            candidates |= other.quorum.voters
        return candidates

    @property
    def heard_of(self) -> tuple[Membership, ...]:
        """The configurations that others reported."""
        heard = () if self.heard is None else (self.heard,)
        return *heard, *self.outstanding_at.values()

    def told(self, lineage: bytes = b"") -> tuple[bytes, bytes]:
        """What to send with each vote: the newest configuration in force, and the outstanding one. A configuration that
        this member only heard of is passed on if it belongs to `lineage`, that of this member's history, if any."""
        newest = self.newest if self.heard_of_lineage == lineage != b"" else self.in_force
        return newest.text, b"" if self.outstanding is None else self.outstanding.text

    # ------------------------------------------------------------------------------------------------------- changes

    def appended(self, membership: Membership, mark: Zxid) -> None:
        """A reconfiguration is in the history now; `mark` is what its leader knew. Raises ValueError for a second
        outstanding one."""
        before = self.outstanding
        if before is not None:
            if before.version > mark:
                raise ValueError(f"a reconfiguration while that at {before.version:#x} is outstanding")
            self.in_force = before
        assert membership.version > self.in_force.version, (membership.version, self.in_force.version)
        self.outstanding = membership
        self.quorum = self._quorum()

    def committed(self, mark: Zxid) -> bool:
        """Everything up to the mark is committed. Returns whether that puts another configuration in force."""
        outstanding = self.outstanding
        if outstanding is None or outstanding.version > mark:
            return False
        assert outstanding.version > self.in_force.version
        self.in_force, self.outstanding = outstanding, None
        self._forget_heard()
        return True

    def cut(self, end: Zxid) -> bool:
        """The history ends here now. Returns whether that removed the outstanding configuration."""
        if self.outstanding is None or self.outstanding.version <= end:
            return False
        assert self.in_force.version <= end, "nothing committed is ever cut"
        self.outstanding = None
        self.quorum = self._quorum()
        return True

    def replaced(self, in_force: Membership) -> None:
        """A snapshot, or an empty history, replaced the history."""
        self.in_force, self.outstanding = in_force, None
        self._forget_heard()

    def hear_outstanding(self, sid: ServerId, membership: Membership | None) -> bool:
        """A server reports this as outstanding there. Returns whether that is news. What is older than the
        configuration in force is not outstanding."""
        assert membership is None or membership.quorum.voters
        if membership is not None and membership.version <= self.newest.version:
            membership = None
        before = self.outstanding_at.pop(sid, None)
        if membership is not None:
            self.outstanding_at[sid] = membership
        return before != membership

    def hear(self, membership: Membership, lineage: bytes) -> bool:
        """Other servers, of this lineage, report this as committed. Returns whether that is news."""
        if membership.version <= self.newest.version:
            return False
        assert membership.version > self.in_force.version
        self.heard, self.heard_of_lineage = membership, lineage
        for sid in [sid for sid, other in self.outstanding_at.items() if other.version <= membership.version]:
            del self.outstanding_at[sid]
        self.quorum = self._quorum()
        return True

    def take_lineage(self, lineage: bytes) -> bool:
        """This member adopts a lineage. Returns whether it had heard of another lineage's configurations, which it
        forgets."""
        self.turned_at = None
        if self.heard_of_lineage == lineage or not self.heard_of:
            return False
        self.heard, self.heard_of_lineage = None, b""
        self.outstanding_at.clear()
        self.quorum = self._quorum()
        return True

    def turn_to(self, lineage: bytes, now: int) -> None:
        """Replace what was heard of another lineage by what this one reports; this member still begins no lineage."""
        assert self.heard_of_lineage not in (b"", lineage)
        assert not self.is_any_in_history
        self.take_lineage(lineage)
        self.heard_of_lineage, self.turned_at = lineage, now

    def _forget_heard(self) -> None:
        if self.heard is not None and self.heard.version <= self.in_force.version:
            self.heard = None
        self.quorum = self._quorum()
