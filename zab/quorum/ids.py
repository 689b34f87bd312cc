"""The numbers that name a server and a connection: plain integers, with names for readers and the type checker."""

from typing import NewType, TypeAlias

ServerId = NewType("ServerId", int)
"""One server of an ensemble, as in its `myid`: from 0 to 2^63 - 1."""

Link = NewType("Link", int)
"""One quorum connection during one run of a process, counted from 1; a number is never reused."""

NO_LINK = Link(0)

Route: TypeAlias = tuple[Link, Link]
"""How a leader reaches a learner: its own link to the learner and `NO_LINK`; or its link to an observer's master, and
the observer's link to that master."""
