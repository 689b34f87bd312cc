"""The election of the auditor: sequential ephemerals, of which the lowest is the auditor's; each candidate watches the
one before its own.

A candidate whose session ends is gone with it, and so the auditor changes. For a moment there may be two, which does no
harm: everything that an auditor does may be done twice.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from zab.coordination.operations import Children, Create, Exists, Get, Set, Sync
from zab.coordination.steps import Steps, create_one, read
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.underreplication import ELECTION, VOTE_PREFIX, decode_vote, encode_vote

_VOTE: Final = re.compile(rf"{VOTE_PREFIX}(-?[0-9]{{1,10}})", re.ASCII)


@frozen
class Standing:
    """Where a candidate stands. `watched`: the znode whose end is a reason to look again; None: it is the auditor."""

    own: str
    watched: str | None

    @property
    def is_auditor(self) -> bool:
        return self.watched is None


def stand(root: str, name: BookieId, session: int) -> Steps[Standing]:
    """Be a candidate in this session, and see who is before it."""
    path = f"{root}/{ELECTION}"
    while True:
        votes = yield from _votes(path)
        if votes is None:
            # Its directory, and that above it.
            yield from create_one(path.rpartition("/")[0])
            yield from create_one(path)
            continue
        own = yield from _own(path, votes, session)
        if own is None:
            (voted,) = yield (Create(f"{path}/{VOTE_PREFIX}", encode_vote(name), ephemeral=True, sequential=True),)
            if not (voted.is_lost or voted.is_missing):
                voted.must(path)
            continue
        at = votes.index(own)
        if at == 0:
            (written,) = yield (Set(path, encode_vote(name)),)
            if written.is_lost:
                continue
            written.must(path)
            return Standing(f"{path}/{own}", None)
        before = f"{path}/{votes[at - 1]}"
        (there,) = yield from read((Exists(before, watch=True),))
        if not there.is_missing:
            there.must(before)
            return Standing(f"{path}/{own}", before)


def who_is_auditor(root: str) -> Steps[BookieId | None]:
    """The candidate with the lowest number; None: there is no candidate."""
    path = f"{root}/{ELECTION}"
    for name in (yield from _votes(path)) or ():
        (found,) = yield from read((Get(f"{path}/{name}"),))
        if not found.is_missing:
            try:
                return decode_vote(found.must(path).data)
            except InvalidMetadataError:
                return None
    return None


def _votes(path: str) -> Steps[list[str] | None]:
    """The candidates in order; None: there is no election yet."""
    _, listed = yield from read((Sync(path), Children(path)))
    if listed.is_missing:
        return None
    names = [name for name in listed.must(path).children if _VOTE.fullmatch(name)]
    return sorted(names, key=_number)


def _number(name: str) -> int:
    found = _VOTE.fullmatch(name)
    assert found is not None
    return int(found[1])


def _own(path: str, votes: list[str], session: int) -> Steps[str | None]:
    """The candidate of this session, also one whose answer was lost."""
    found = yield from read(Exists(f"{path}/{name}") for name in votes)
    for name, each in zip(votes, found, strict=True):
        if each.ok and each.stat.ephemeral_owner == session:
            return name
    return None
