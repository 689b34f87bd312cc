"""Whose tree is wrong, when the trees of two members differ; pure state, of every member, and of the leader besides.

    a learner's digest is not the one in a batch    SUSPECT z, its digest
    that; or a learner's digest, told with a ping,
    is not the leader's                             COMPARE z, to all; each answers COMPARED z, its digest
    a quorum of voters has one digest at z          VERDICT z, that digest, to all
        a member that has it        its tree is right; what a batch says of another digest is known to be wrong
        a member with another one   its tree is wrong: made anew from its own files, else from the leader's
                                    snapshot and its own log, before it serves again
    all have answered, and no quorum has one        COMPARE z with `replay`: each makes the tree of z from its own files
        still none                                  nobody knows who is right: writes are refused, and the leader
                                                    writes no snapshots; it leaves its role if the files of more voters
                                                    say something else

A suspect serves no clients and writes no snapshots. It goes on logging, acknowledging, voting and applying: its log is
good, and the tree may be. Who is proven wrong does not lead, either, and applies nothing until it has its tree.

Invariants: a verdict needs a quorum of voters; one repair for a zxid, so that a tree that is made wrong again and again
ends the member; comparisons are one at a time.

Not here: the digests (`digests`), messages and effects (`wrong_trees`), making a tree anew (`tree_repair`).
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
"""Positions that are known to be right here although a batch says something else; the oldest are forgotten."""


class Finding(Enum):
    """What a verdict says of a member's own tree."""

    RIGHT = "right"
    WRONG = "wrong"
    WRONG_AGAIN = "wrong again"
    UNKNOWN = "unknown"
    """It does not remember that position; or it is known to be wrong, and is being made anew."""


@attrs.define
class Comparison:
    """The leader asks everybody for the digest at one batch end."""

    zxid: Zxid
    is_replay: bool = False
    """Of a tree made anew from each one's own files."""
    asked: dict[ServerId, Link] = attrs.Factory(dict)
    """Over which link; a question goes with its link."""
    told: dict[ServerId, int | None] = attrs.Factory(dict)
    """None: it does not know."""

    def ask(self, learners: Mapping[Link, ServerId]) -> list[Link]:
        """The links of these learners that were not asked yet; those that are not there are waited for no longer."""
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
        """Whether some digest is that of more voters than this one's."""
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
    """What a member knows of its own tree, and, while it leads, of the others'."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        """Of this moment."""
        self.asks = False
        """In this turn the leader is asked whose tree is right, should this member have to know."""
        self.suspicion: Difference | None = None
        """The first difference from a leader's tree that no verdict has settled."""
        self.wrong: Difference | None = None
        """A verdict says that this tree is wrong, until it is made anew."""
        self.comparison: Comparison | None = None
        """The leader's."""
        self.undecided: Comparison | None = None
        """The leader's, when everybody has made its tree anew and no quorum agrees."""
        self.mending: set[ServerId] = set()
        """The leader's: members whose trees are known to be wrong, until one of their digests is right again."""
        self._settled: deque[Zxid] = deque(maxlen=SETTLED_COUNT_MAX)
        self.repaired: set[Zxid] = set()
        """Where this tree was wrong, and was made anew: wrong there once more, it ends the member."""

    def quorum_changed(self, quorum: Quorum) -> None:
        self.quorum = quorum

    def ask_leader(self, *, wanted: bool = True) -> None:
        """Ask at the end of what this turn brings."""
        self.asks = wanted

    @property
    def is_doubtful(self) -> bool:
        """Whether this tree must not be shown to anybody."""
        return self.suspicion is not None or self.wrong is not None

    @property
    def is_disputed(self) -> bool:
        """Whether nobody knows that this tree is right, though it may be shown: no snapshot is taken of it, so that
        the files that tell stay, and no others are there."""
        is_replayed = self.comparison is not None and self.comparison.is_replay
        return self.is_doubtful or is_replayed or self.undecided is not None

    def suspect(self, difference: Difference) -> bool:
        """This tree differs from what a batch says. False: that is known, and the batch is wrong."""
        if difference.zxid in self._settled:
            return False
        if self.suspicion is None:
            self.suspicion = difference
        return True

    def judge(self, zxid: Zxid, own: int | None, digest: int) -> Finding:
        """A quorum has this digest at a batch end, where this tree's was `own`, None if that is not remembered."""
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
        """The tree that a verdict called wrong is made anew."""
        assert self.wrong is not None
        self.repaired.add(self.wrong.zxid)
        self.wrong = None

    def unproven(self, zxid: Zxid, digest: int) -> None:
        """This tree was made of what another member has: a quorum has to say that it is right."""
        self.suspicion = Difference(zxid, digest, digest)

    def replaced(self) -> None:
        """Another tree has taken the place of this one."""
        self.suspicion = self.wrong = None

    # ------------------------------------------------------------------------------------------------------- the leader

    def compare(self, zxid: Zxid) -> Comparison | None:
        """Begin a comparison at a batch end; None: one is under way."""
        if self.comparison is not None:
            return None
        self.comparison = Comparison(zxid)
        return self.comparison

    def end_comparison(self) -> None:
        """It came to nothing."""
        self.comparison = None

    def told(self, sid: ServerId, zxid: Zxid, digest: int | None, *, is_replay: bool) -> int | None:
        """A member, this one included, has this digest there, or does not know; the digest that a quorum has, if one
        does now."""
        comparison = self.comparison
        if comparison is None or (zxid, is_replay) != (comparison.zxid, comparison.is_replay):
            return None
        if digest is not None or sid not in comparison.told:  # what it knew before it was started again is as true
            comparison.told[sid] = digest
        agreed = comparison.agreed(self.quorum)
        if agreed is not None:
            self.mending |= {other for other, known in comparison.told.items() if known not in (agreed, None)}
            self.comparison = self.undecided = None
        return agreed

    def replay(self) -> Comparison:
        """Everybody has answered, and no quorum agrees: all make their trees anew, and answer once more."""
        assert self.comparison is not None
        self.comparison = Comparison(self.comparison.zxid, is_replay=True)
        return self.comparison

    def has_asked_all_to_replay(self, comparison: Comparison) -> bool:
        """Whether all who have answered now have made their trees anew before, and that did not help."""
        return self.undecided is not None and comparison.told.keys() <= self.undecided.told.keys()

    def give_up(self) -> None:
        """That did not help: nobody knows who is right."""
        self.undecided, self.comparison = self.comparison, None

    def drop_role(self) -> None:
        """Comparisons are one leader's."""
        self.comparison = self.undecided = None
        self.mending.clear()
