"""The work of a turn: its limits, and what counts. What is left waits for the next turn.

A small answer, or a refusal, may take much work: names that are looked at and left out, parts that are read in vain. So
`ReadState.spent` adds up, for a turn, the bytes of all answers, `REQUEST_WORK` for each, and `NAME_WORK` for each name
that was looked at, even in vain. Work is counted, never timed, so that a run repeats exactly.

    getChildren, getChildren2, filteredList*, parts of a multiRead      each child
    getChildrenPage                                                     each child that is compared (`Crowd.page`)
    getEphemerals                                                       each ephemeral of the session
    getAllChildrenNumber, listRecursive                                 each descendant
    setWatches                                                          each path
    multiRead                                                           each part
    auth, sasl                                                          `PROOF_WORK`

Requests that overtake waiting ones (`connection_requests.PROMPT`) wait as well when a turn has no room for them,
together with everything after them on their connection: a write after an `auth` is done with the identity that it
proved.

At most `LARGE_UNDER_WAY_BYTES_MAX` of large writes are under way at a time, with small ones beside them, since all
proposals leave in the order of the log.

Writes count as they are prepared (`proposing`): a multi and the end of a session with their parts, lists of permissions
with each entry that is looked at; refused ones also with the bytes of their requests.

Not here: what is cut into slices (`datatree.slices`).
"""

from typing import Final

__all__ = [
    "ANSWERED_BYTES",
    "BYTES_FOR_ONE",
    "LARGE_BYTES",
    "LARGE_UNDER_WAY_BYTES_MAX",
    "NAME_WORK",
    "PREPARED_BYTES_MAX",
    "PREPARED_WORK_MAX",
    "PROOF_WORK",
    "REFUSED_WORK",
    "REQUEST_WORK",
    "SHARES",
]

PREPARED_WORK_MAX: Final = 1_000
PREPARED_BYTES_MAX: Final = 512 << 10
"""How much a turn prepares: writes, with their parts and entries, and their bytes. The rest waits for the next turn."""
BYTES_FOR_ONE: Final = 64
"""A write that is not prepared yet counts as one, and as one more for each of these many bytes."""
LARGE_BYTES: Final = 4 << 10
LARGE_UNDER_WAY_BYTES_MAX: Final = 1 << 20
"""A write of `LARGE_BYTES` or more waits while `LARGE_UNDER_WAY_BYTES_MAX` are under way to the leader, or to the disks
of a quorum. A smaller write goes on, and has at most that much before it."""
REFUSED_WORK: Final = 4
"""Bytes of work for each byte of a refused request, which is read and checked but leaves no record."""
ANSWERED_BYTES: Final = 2 << 20
"""After this many bytes of answers in a turn, or as much work, the remaining reads wait for the next turn: clients can
ask for much with little."""
SHARES: Final = 16
"""Each waiting connection in turn gets this fraction of a turn: a client that asks for little does not wait for the
pipelines of others."""

REQUEST_WORK: Final = 200
"""The work of any request: a turn answers 7,000 of the smallest."""
PROOF_WORK: Final = 1_024
"""The work of a proof of identity, which is hashed: a turn checks 1,700."""
NAME_WORK: Final = 128
"""The work of a name: a turn looks at 16,000 names."""
