"""The numbers that name a server and a connection: plain integers, with names for readers and the type checker."""

from typing import NewType, TypeAlias

ServerId = NewType("ServerId", int)
"""What `myid` says: one server of an ensemble, from 0 to 2^63 - 1."""

Link = NewType("Link", int)
"""One quorum connection of one run of a process, from 1 up; a number is never used twice."""

NO_LINK = Link(0)

Route: TypeAlias = tuple[Link, Link]
"""How a leader reaches one attachment of a learner: its own link; or that of an observer's master, and the observer's
link there. The second is `NO_LINK` for a link of its own."""
