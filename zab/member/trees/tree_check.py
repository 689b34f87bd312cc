"""Finds out which tree is wrong when the trees of two members differ; state of every member, and of the leader.

    a learner's digest is not the one in a batch    SUSPECT z, its digest
    that; or a learner's digest, sent with a ping,
    is not the leader's                             COMPARE z, to all; each answers COMPARED z, its digest
    a quorum of voters has one digest at z          VERDICT z, that digest, to all
        a member that has it        its tree is right; a batch with another digest is known to be wrong
        a member with another one   its tree is wrong: it is made again from its own files, or from the leader's
                                    snapshot and its own log, before it serves again
    all have answered, and no quorum agrees         COMPARE z with `replay`: each makes the tree of z from its own files
        still no quorum                             nobody knows which tree is right: writes are refused, and the leader
                                                    writes no snapshots; it leaves its role if the files of more voters
                                                    give another digest

A suspect serves no clients and writes no snapshots. It continues to log, acknowledge, vote and apply: its log is good,
and the tree may be. A member whose tree is proven wrong does not lead either, and applies nothing until it has a new
tree.

Invariants: a verdict needs a quorum of voters; there is one repair per zxid, so that a member whose tree becomes wrong
again ends; there is one comparison at a time.

Not here: the digests (`digests`), messages and effects (`tree_integrity`), the repair of a tree (`tree_repair`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum

import attrs

from datatree.log.zxid import Zxid
from zab.member.state.digests import Difference
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Quorum

SETTLED_COUNT_MAX = 1024
"""How many positions are remembered as right here although a batch has another digest; the oldest are forgotten."""


class Finding(Enum):
    """What a verdict says about a member's own tree."""

    RIGHT = "right"
    WRONG = "wrong"
    WRONG_AGAIN = "wrong again"
    UNKNOWN = "unknown"
    """The member does not remember that position, or its tree is known to be wrong and is being repaired."""


@attrs.define
class Comparison:
    """A comparison: the leader asks all members for their digest at one batch end."""

    zxid: Zxid
    is_replay: bool = False
    """Whether each member makes the tree again from its own files."""
    asked: dict[ServerId, Link] = attrs.Factory(dict)
    """The link on which each member was asked; if the link is lost, so is the question."""
    told: dict[ServerId, int | None] = attrs.Factory(dict)
    """The digest of each member; None: it does not know."""

    def ask(self, learners: Mapping[Link, ServerId]) -> list[Link]:
        """Begin to ask the learners that were not asked yet; returns their links. Learners that are gone are no longer
        waited for."""
        sids = set(learners.values())
        self.asked = {sid: link for sid, link in self.asked.items() if sid in sids}
        new: list[Link] = []
        for link, sid in learners.items():
            if self.asked.get(sid) != link:
                self.asked[sid] = link
                new.append(link)
        return new

    def agreed(self, quorum: Quorum) -> int | None:
        """The digest that a quorum of voters has."""
        for digest in set(self.told.values()) - {None}:
            if quorum.contains({sid for sid, other in self.told.items() if other == digest and sid in quorum.voters}):
                return digest
        return None

    def is_outnumbered(self, sid: ServerId, quorum: Quorum) -> bool:
        """Whether more voters have some other digest than have that of `sid`."""
        known = {other: digest for other, digest in self.told.items() if other in quorum.voters and digest is not None}
        counts: Counter[int | None] = Counter(known.values())
        return max(counts.values(), default=0) > counts[self.told[sid]]

    @property
    def is_answered(self) -> bool:
        return self.asked.keys() <= self.told.keys()

    def __str__(self) -> str:
        """Every member with its digest."""
        told = (f"{sid}: {'-' if digest is None else f'{digest:016x}'}" for sid, digest in sorted(self.told.items()))
        return f"at {self.zxid:#x} " + ", ".join(told)


class TreeCheck:
    """What a member knows about its own tree and, while it leads, about those of the others."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        """The current quorum rule."""
        self.asks = False
        """Whether this turn asks the leader which tree is right, if this member needs to know."""
        self.suspicion: Difference | None = None
        """The first difference from a leader's tree that no verdict has settled."""
        self.wrong: Difference | None = None
        """The verdict that this tree is wrong, until it is repaired."""
        self.comparison: Comparison | None = None
        """The leader's current comparison."""
        self.undecided: Comparison | None = None
        """The leader's comparison after all have made their trees again and still no quorum agrees."""
        self.mending: set[ServerId] = set()
        """On the leader: members whose trees are known to be wrong, until one of their digests is right again."""
        self._settled: deque[Zxid] = deque(maxlen=SETTLED_COUNT_MAX)
        self.repaired: set[Zxid] = set()
        """Positions at which this tree was wrong and repaired: if it is wrong there again, the member ends."""

    def quorum_changed(self, quorum: Quorum) -> None:
        self.quorum = quorum

    def ask_leader(self, *, wanted: bool = True) -> None:
        """Ask the leader at the end of this turn."""
        self.asks = wanted

    @property
    def is_doubtful(self) -> bool:
        """Whether this tree must not be shown to anybody."""
        return self.suspicion is not None or self.wrong is not None

    @property
    def is_disputed(self) -> bool:
        """Whether it is unknown if this tree is right, though clients may see it. No snapshot is taken of it, so that
        the files that can decide remain, and wrong ones are not added."""
        is_replayed = self.comparison is not None and self.comparison.is_replay
        return self.is_doubtful or is_replayed or self.undecided is not None

    def suspect(self, difference: Difference) -> bool:
        """Suspect this tree, since its digest differs from that in a batch. False: the batch is known to be wrong."""
        if difference.zxid in self._settled:
            return False
        if self.suspicion is None:
            self.suspicion = difference
        return True

    def judge(self, zxid: Zxid, own: int | None, digest: int) -> Finding:
        """Judge this tree by the digest of a quorum at a batch end, where its own was `own`; None if it is not
        remembered."""
        if own is None or self.wrong is not None:
            return Finding.UNKNOWN
        if own == digest:
            if self.suspicion is not None:
                self._settled.append(self.suspicion.zxid)
            self._settled.append(zxid)
            self.suspicion = None
            return Finding.RIGHT
        if zxid in self.repaired:
            return Finding.WRONG_AGAIN
        self.suspicion, self.wrong = None, Difference(zxid, own, digest)
        return Finding.WRONG

    def rebuilt(self) -> None:
        """Note that the wrong tree is repaired."""
        assert self.wrong is not None
        self.repaired.add(self.wrong.zxid)
        self.wrong = None

    def unproven(self, zxid: Zxid, digest: int) -> None:
        """Suspect this tree, since it was made from a snapshot of another member: a quorum has to confirm it."""
        self.suspicion = Difference(zxid, digest, digest)

    def replaced(self) -> None:
        """Forget all suspicion, since the tree was replaced."""
        self.suspicion = self.wrong = None

    # ------------------------------------------------------------------------------------------------------- the leader

    def compare(self, zxid: Zxid) -> Comparison | None:
        """Begin a comparison at a batch end; None: one is under way."""
        if self.comparison is not None:
            return None
        self.comparison = Comparison(zxid)
        return self.comparison

    def end_comparison(self) -> None:
        """End the comparison without a result."""
        self.comparison = None

    def told(self, sid: ServerId, zxid: Zxid, digest: int | None, *, is_replay: bool) -> int | None:
        """Note the digest of a member, perhaps of this one; None: it does not know. Returns the digest of a quorum, if
        there is one now."""
        comparison = self.comparison
        if comparison is None or (zxid, is_replay) != (comparison.zxid, comparison.is_replay):
            return None
        if digest is not None or sid not in comparison.told:  # a digest from before its restart is still valid
            comparison.told[sid] = digest
        agreed = comparison.agreed(self.quorum)
        if agreed is not None:
            self.mending |= {other for other, known in comparison.told.items() if known not in (agreed, None)}
            self.comparison = self.undecided = None
        return agreed

    def replay(self) -> Comparison:
        """Ask all again, to make their trees again from their files, since all have answered and no quorum agrees."""
        assert self.comparison is not None
        self.comparison = Comparison(self.comparison.zxid, is_replay=True)
        return self.comparison

    def has_asked_all_to_replay(self, comparison: Comparison) -> bool:
        """Whether all members that have answered had already made their trees again, without a result."""
        return self.undecided is not None and comparison.told.keys() <= self.undecided.told.keys()

    def give_up(self) -> None:
        """Give up the comparison: nobody knows which tree is right."""
        self.undecided, self.comparison = self.comparison, None

    def drop_role(self) -> None:
        """Drop the comparisons of this leader."""
        self.comparison = self.undecided = None
        self.mending.clear()
