"""A write as it reaches the leader (`datatree.prepare`)."""

from typing import NamedTuple, TypeAlias

from datatree.acl import Identity

__all__ = ["Asked", "WriteRequest"]


class WriteRequest(NamedTuple):
    """A write: who asks (`session`, and the `identities` of its connection), which (`cxid`), and what.

    The ensemble's own requests have no identities: createSession (body: the timeout), closeSession of an expired
    session with cxid 0, deleteContainer and reconfig with session 0 and cxid 0.
    """

    session: int
    cxid: int
    opcode: int
    body: bytes
    identities: tuple[Identity, ...]


Asked: TypeAlias = tuple[int, int, int, bytes, tuple[Identity, ...]]
"""A `WriteRequest` as a plain tuple, as one is made for each write."""
