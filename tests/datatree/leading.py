"""A leader's preparation of requests, and the sessions that ask."""

from typing import Any

from datatree.acl import digest_identity
from datatree.opcodes import OpCode
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Txn
from datatree.requests import (
    OPEN_ACL,
    Body,
    Create,
    CreateSession,
    Multi,
    PathVersion,
    SetData,
)
from datatree.tree import DataTree
from datatree.write_request import WriteRequest

LOCAL = (b"ip", b"127.0.0.1")

BOB = digest_identity(b"bob:pw")

SUPER = (b"super", b"")

S = 0x0100_0000_0000_0001

T = 0x0200_0000_0000_0002

NOBODY = ((0, *BOB),)

BOBS = ((31, *BOB),)


class Leader:
    """A tree with sessions S and T, and its prepare step. Transactions stay outstanding until `apply`."""

    def __init__(self, **settings: Any) -> None:
        self.tree = DataTree()
        self.prepare = Prepare(self.tree, PrepareSettings(**settings))
        self.zxid = 0
        self.waiting: list[Txn] = []
        for session in (S, T):
            assert self(OpCode.CREATE_SESSION, CreateSession(30_000), session).type == -10
        for path, acl in ((b"/a", OPEN_ACL), (b"/bobs", BOBS), (b"/closed", NOBODY), (b"/a/b", OPEN_ACL)):
            assert self.create(path, acl=acl, identities=(SUPER,)).type == 1
        assert self.create(b"/e", flags=1).type == 1
        self.apply()

    def __call__(
        self, opcode: int, body: Body | bytes, session: int = S, identities: tuple[Any, ...] = (LOCAL,), cxid: int = 9
    ) -> Txn:
        self.zxid += 1
        raw = body if isinstance(body, bytes) else body.encode()
        request = WriteRequest(session, cxid, opcode, raw, identities)
        txn = Txn(*self.prepare.prepare(request, self.zxid, self.zxid * 10))
        self.waiting.append(txn)
        return txn

    def create(self, path: bytes, *, flags: int = 0, acl: Any = OPEN_ACL, data: bytes = b"", **rest: Any) -> Txn:
        return self(OpCode.CREATE, Create(path, data, acl, flags), **rest)

    def set(self, path: bytes, version: int = -1, data: bytes | None = b"", **rest: Any) -> Txn:
        return self(OpCode.SET_DATA, SetData(path, data, version), **rest)

    def delete(self, path: bytes, version: int = -1, **rest: Any) -> Txn:
        return self(OpCode.DELETE, PathVersion(path, version), **rest)

    def multi(self, *parts: tuple[int, Body], **rest: Any) -> Txn:
        return self(OpCode.MULTI, Multi(parts), **rest)

    def apply(self) -> None:
        for txn in self.waiting:
            self.tree.apply(txn)
        self.waiting.clear()
        self.prepare.applied(self.tree.applied)
