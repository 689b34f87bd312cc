"""The numbers that name a server and a connection: plain integers, with names for readers and the type checker."""

from typing import NewType

ServerId = NewType("ServerId", int)
"""What `myid` says: one server of an ensemble, from 0 to 2^63 - 1."""

Link = NewType("Link", int)
"""One quorum connection of one run of a process, from 1 up; a number is never used twice."""
