"""The work of a turn: how much there may be of it, and what counts. Whatever is left waits for the next turn.

An answer may be small, or a refusal, and the work behind it large: names that are looked at and left out, parts that
are read in vain. So `ReadState.spent` has, of a turn, the bytes of all answers, `REQUEST_WORK` for each, and
`NAME_WORK` for each name that was looked at, whatever became of it. It is counted, never timed: a run repeats exactly.

    getChildren, getChildren2, filteredList*, parts of a multiRead      each child
    getChildrenPage                                                     each child that is compared (`Crowd.page`)
    getEphemerals                                                       each ephemeral of the session
    getAllChildrenNumber, listRecursive                                 each descendant
    setWatches                                                          each path
    multiRead                                                           each part
    auth, sasl                                                          `PROOF_WORK`

What is answered at once, whatever waits (`local.PROMPT`), waits itself when a turn has no room for it, with all that
comes after it on its connection: a write behind an `auth` is done as whom it proved.

Of writes, `LARGE_UNDER_WAY_BYTES_MAX` are under way at a time, and small ones beside them: what is proposed leaves in
the order of the log, whoever asked.

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
"""After so many writes in a turn, with their parts and entries, or writes of so many bytes, the others wait for the
next one."""
BYTES_FOR_ONE: Final = 64
"""Of a write that is not prepared yet: it counts as one, and as one more for so many bytes."""
LARGE_BYTES: Final = 4 << 10
LARGE_UNDER_WAY_BYTES_MAX: Final = 1 << 20
"""A write of so many bytes waits while so many are under way already: to the leader, or to the disks of a quorum. A
smaller one goes on, and finds no more than that before it."""
REFUSED_WORK: Final = 4
"""So many bytes of these for each byte of a request that is refused: it is read, checked, and leaves no record."""
ANSWERED_BYTES: Final = 2 << 20
"""After answers of so many bytes in a turn, or work that counts as much, the reads that are left wait for the next one:
they cost little to ask."""
SHARES: Final = 16
"""Of those that wait, each in turn has this part of it: whoever asks for little waits for nobody's pipeline."""

REQUEST_WORK: Final = 200
"""So a turn answers 7,000 of the smallest requests."""
PROOF_WORK: Final = 1_024
"""Of a proof of who somebody is, which is hashed: a turn looks at 1,700."""
NAME_WORK: Final = 128
"""So a turn looks at 16,000 names."""
