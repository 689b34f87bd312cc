"""Prepare and apply against a dumb twin: one dict, one request at a time, copied whole before each multi.

The twin executes a request completely before it looks at the next. The real thing prepares many before it applies the
first, so whatever a check would have to know of an outstanding change shows here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from random import Random

import pytest
from attrs import define, field

from datatree.compiled import using
from datatree.errors import ErrorCode as E
from datatree.opcodes import OpCode
from datatree.outcome import Outcome
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Txn, decode, encode
from datatree.requests import (
    OPEN_ACL,
    CheckStat,
    Create,
    CreateSession,
    Multi,
    NoBody,
    PathLimit,
    PathVersion,
    SetAcl,
    SetData,
)
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from datatree.znode import CONTAINER_OWNER, HEAD, LARGE_BYTES, STAT_LAYOUT, is_ephemeral, stat_of
from zab.native import load

BOB = (b"digest", b"bob:hash")
LOCAL = (b"ip", b"127.0.0.1")
BOB_ONLY = ((31, *BOB),)
READ_ONLY = ((1, b"world", b"anyone"),)


@define
class Row:
    data: bytes | None
    acl: tuple
    owner: int
    czxid: int
    ctime: int
    mzxid: int
    mtime: int
    pzxid: int
    version: int = 0
    aversion: int = 0
    created: int = 0


class RefusedError(Exception):
    """Its argument is the code."""


@contextmanager
def suppress_refusals(*codes: E) -> Iterator[None]:
    try:
        yield
    except RefusedError as wrong:
        if wrong.args[0] not in codes:
            raise


@define
class Twin:
    rows: dict[bytes, Row] = field(factory=dict)
    sessions: set[int] = field(factory=set)

    def children(self, path: bytes) -> list[bytes]:
        prefix = path.rstrip(b"/") + b"/"
        return [
            other
            for other in self.rows
            if other.startswith(prefix) and b"/" not in other[len(prefix) :] and other != b"/"
        ]

    def stat(self, path: bytes) -> tuple:
        row = self.rows[path]
        count = len(self.children(path))
        owner = row.owner if is_ephemeral(row.owner) else 0
        return (
            row.czxid, row.mzxid, row.ctime, row.mtime, row.version, 2 * row.created - count, row.aversion, owner,
            len(row.data or b""), count, row.pzxid,
        )  # fmt: skip

    def permit(self, acl: tuple, mask: int, identities: tuple) -> None:
        for perms, scheme, name in acl:
            if perms & mask and (scheme == b"world" or (scheme, name) in identities):
                return
        raise RefusedError(E.NOAUTH)

    def need(self, path: bytes) -> Row:
        if path not in self.rows:
            raise RefusedError(E.NONODE)
        return self.rows[path]

    def fits(self, asked: int, version: int) -> None:
        if asked not in (-1, version):
            raise RefusedError(E.BADVERSION)

    def create(self, opcode: int, body: Create, session: int, identities: tuple, zxid: int, time: int) -> bytes:
        above = self.need(body.path[: body.path.rindex(b"/")] or b"/")
        self.permit(above.acl, 4, identities)
        path = body.path + (b"%010d" % above.created if body.flags in (2, 3) else b"")
        if path in self.rows:
            if opcode == OpCode.CREATE_IF_NOT_EXISTS:
                return path
            raise RefusedError(E.NODEEXISTS)
        if is_ephemeral(above.owner):
            raise RefusedError(E.NOCHILDRENFOREPHEMERALS)
        owner = session if body.flags in (1, 3) else CONTAINER_OWNER if opcode == OpCode.CREATE_CONTAINER else 0
        above.created += 1
        above.pzxid = zxid
        self.rows[path] = Row(body.data, body.acl, owner, zxid, time, zxid, time, zxid)
        return path

    def delete(self, path: bytes, version: int, identities: tuple, zxid: int) -> None:
        above = self.need(path[: path.rindex(b"/")] or b"/")
        self.permit(above.acl, 8, identities)
        self.fits(version, self.need(path).version)
        if self.children(path):
            raise RefusedError(E.NOTEMPTY)
        del self.rows[path]
        above.pzxid = zxid

    def remove_all(self, path: bytes, limit: int, identities: tuple, zxid: int) -> None:
        above = self.rows.get(path[: path.rindex(b"/")] or b"/")
        if above is None:
            return
        self.permit(above.acl, 8, identities)
        doomed = [other for other in self.rows if other == path or other.startswith(path + b"/")]
        if len(doomed) > limit:
            raise RefusedError(E.NOTEMPTY)
        for other in doomed:
            if self.children(other):
                self.permit(self.rows[other].acl, 8, identities)
        for other in doomed:
            del self.rows[other]
            above.pzxid = zxid

    def one(self, opcode: int, body: object, session: int, identities: tuple, zxid: int, time: int) -> bytes:
        """Execute one operation; the path it concerned. Raises RefusedError."""
        match body:
            case Create():
                return self.create(opcode, body, session, identities, zxid, time)
            case PathVersion() if opcode == OpCode.DELETE:
                self.delete(body.path, body.version, identities, zxid)
            case PathVersion() if opcode == OpCode.TRY_REMOVE:
                with suppress_refusals(E.NONODE, E.BADVERSION, E.NOTEMPTY):
                    self.delete(body.path, body.version, identities, zxid)
            case PathVersion() if opcode == OpCode.CHECK_NOT_EXISTS:
                if (found := self.rows.get(body.path)) is not None:
                    self.permit(found.acl, 1, identities)
                    if body.version in (-1, found.version):
                        raise RefusedError(E.NODEEXISTS)
            case CheckStat():
                self.permit(self.need(body.path).acl, 1, identities)
                self.fits(body.version, self.rows[body.path].version)
                for asked, found in zip(body.stat, self.stat(body.path), strict=True):
                    self.fits(asked, found)
            case PathLimit():
                self.remove_all(body.path, body.limit, identities, zxid)
            case PathVersion():
                row = self.need(body.path)
                self.permit(row.acl, 1, identities)
                self.fits(body.version, row.version)
            case SetData():
                row = self.need(body.path)
                self.permit(row.acl, 2, identities)
                self.fits(body.version, row.version)
                row.data, row.mzxid, row.mtime, row.version = body.data, zxid, time, row.version + 1
            case SetAcl():
                row = self.need(body.path)
                self.permit(row.acl, 16, identities)
                self.fits(body.version, row.aversion)
                row.acl, row.aversion = body.acl, row.aversion + 1
        return body.path

    def close(self, session: int, zxid: int) -> None:
        for path in [path for path, row in self.rows.items() if row.owner == session]:
            del self.rows[path]
            self.rows[path[: path.rindex(b"/")] or b"/"].pzxid = zxid
        self.sessions.remove(session)

    def execute(self, request: WriteRequest, body: object, zxid: int, time: int) -> tuple:
        """(error, path, stat or None, results or None), as an Outcome should say it."""
        session = request.session
        if request.opcode == OpCode.CREATE_SESSION:
            if session in self.sessions:
                return E.NODEEXISTS, b"", None, None
            self.sessions.add(session)
            return 0, b"", None, None
        if session not in self.sessions:
            return E.SESSIONEXPIRED, getattr(body, "path", b""), None, None
        if request.opcode == OpCode.CLOSE_SESSION:
            self.close(session, zxid)
            return 0, b"", None, None
        if isinstance(body, Multi):
            return 0, b"", None, self.multi(body, session, request.identities, zxid, time)
        known = set(self.rows)
        try:
            path = self.one(request.opcode, body, session, request.identities, zxid, time)
        except RefusedError as wrong:
            return wrong.args[0], body.path, None, None
        removed = known - set(self.rows)
        if request.opcode == OpCode.REMOVE_RECURSIVE and len(removed) > 1:
            return 0, b"", None, [(OpCode.DELETE, 0, path, None)]
        return 0, path, self.stat_after(request.opcode, path, known), None

    def stat_after(self, opcode: int, path: bytes, known: set[bytes]) -> tuple | None:
        """What the operation left at the path, unless it only looked at it."""
        is_found = opcode == OpCode.CREATE_IF_NOT_EXISTS and path in known
        return None if is_found or opcode in SILENT else self.stat(path)

    def multi(self, body: Multi, session: int, identities: tuple, zxid: int, time: int) -> list:
        before = copy.deepcopy(self.rows)
        results = []
        for opcode, part in body.parts:
            known = set(self.rows)
            try:
                path = self.one(opcode, part, session, identities, zxid, time)
            except RefusedError as wrong:
                self.rows = before
                codes = [0] * len(results) + [wrong.args[0]] + [-2] * (len(body.parts) - len(results) - 1)
                return [(-1, code, b"", None) for code in codes]
            kind = LOGGED.get(opcode, opcode)
            if kind == OpCode.DELETE and (path not in known or path in self.rows):
                kind = OpCode.CHECK  # it was not there, or has stayed
            results.append((kind, 0, path, self.stat_after(opcode, path, known)))
        return results


LOGGED = {
    OpCode.CREATE_IF_NOT_EXISTS: OpCode.CREATE,
    OpCode.CHECK_NOT_EXISTS: OpCode.CHECK,
    OpCode.CHECK_STAT: OpCode.CHECK,
    OpCode.REMOVE_RECURSIVE: OpCode.DELETE,
    OpCode.TRY_REMOVE: OpCode.DELETE,
}
SILENT = {
    *(OpCode.CHECK, OpCode.CHECK_NOT_EXISTS, OpCode.CHECK_STAT),
    *(OpCode.DELETE, OpCode.REMOVE_RECURSIVE, OpCode.TRY_REMOVE),
}
MUCH = [b"much" * LARGE_BYTES, b"as much as stays there".ljust(LARGE_BYTES)]
PATHS = [b"/a", b"/b", b"/a/a", b"/a/b", b"/b/a", b"/a/a/a", b"/a/a/b"]


def operation(random: Random, twin: Twin) -> tuple[int, object]:
    path = random.choice(PATHS)
    version = random.choice([-1, -1, 0, 1, 2])
    acl = random.choice([OPEN_ACL] * 8 + [BOB_ONLY, READ_ONLY])
    data = random.choice([b"", b"x", b"some data", None, random.choice(MUCH)])
    match random.randrange(19):
        case 0 | 1 | 2:
            return random.choice([OpCode.CREATE, OpCode.CREATE2]), Create(
                path, data, acl, random.choice([0, 0, 0, 1, 1, 2, 3])
            )
        case 3:
            return OpCode.CREATE_CONTAINER, Create(path, data, acl, 4)
        case 4 | 5 | 6:
            return OpCode.DELETE, PathVersion(path, version)
        case 7 | 8 | 9:
            return OpCode.SET_DATA, SetData(path, data, version)
        case 10:
            return OpCode.CREATE_IF_NOT_EXISTS, Create(path, data, acl, random.choice([0, 0, 1]))
        case 11 | 12:
            return OpCode.REMOVE_RECURSIVE, PathLimit(path, random.choice([0, 1, 2, 3, 100, 0xFFFF_FFFF]))
        case 13:
            return OpCode.TRY_REMOVE, PathVersion(path, version)
        case 15 | 16 | 17 if path in twin.rows:
            stat = list(twin.stat(path))
            if random.random() < 0.3:
                stat[random.randrange(len(stat))] += random.choice([-1, 1])
            return OpCode.CHECK_STAT, CheckStat(path, -1, stat)
        case 14:
            return OpCode.CHECK_NOT_EXISTS, PathVersion(path, version)
        case _:
            return OpCode.CHECK, PathVersion(path, version)


def request(random: Random, sessions: list[int], twin: Twin) -> tuple[WriteRequest, object]:
    """The next request. `sessions` are all ids so far; an id that was closed is never created again."""
    session = random.choice(sessions[-4:])
    identities = random.choice([(LOCAL,), (LOCAL, BOB)])
    body: object
    match random.randrange(20):
        case 0 | 1:
            opcode, body = OpCode.CREATE_SESSION, CreateSession(30_000)
            if session not in twin.sessions or random.random() < 0.5:
                session = len(sessions) + 1
                sessions.append(session)
        case 2:
            opcode, body = OpCode.CLOSE_SESSION, NoBody()
        case 3:
            acl = random.choice([OPEN_ACL, OPEN_ACL, BOB_ONLY])
            opcode, body = OpCode.SET_ACL, SetAcl(random.choice(PATHS), acl, random.choice([-1, 0, 1]))
        case 4 | 5 | 6 | 7:
            opcode, body = OpCode.MULTI, Multi(tuple(operation(random, twin) for _ in range(random.randrange(5))))
        case _:
            opcode, body = OpCode.CHECK, None
            while opcode in (OpCode.CHECK, OpCode.CHECK_NOT_EXISTS, OpCode.CHECK_STAT):
                opcode, body = operation(random, twin)
    return WriteRequest(session, 7, opcode, body.encode(), identities), body


def outcome_of(result: Outcome) -> tuple:
    stat = STAT_LAYOUT.unpack(result.stat) if result.stat is not None else None
    results = result.results
    if results is not None:
        results = [(k, e, p, STAT_LAYOUT.unpack(s) if s is not None else None) for k, e, p, s in results]
    return result.error, result.path, stat, results


def assert_same(tree: DataTree, twin: Twin) -> None:
    paths = {path for shard in tree.shards for path in shard}
    assert {path for path in paths if not path.startswith(b"/zookeeper")} == set(twin.rows) - {b"/zookeeper"}
    for path, row in twin.rows.items():
        if path == b"/zookeeper":
            continue
        znode = tree.get(path)
        assert znode is not None
        assert STAT_LAYOUT.unpack(stat_of(znode)) == twin.stat(path), path
        assert (tree.data_of(path, znode), *HEAD.unpack_from(znode)[1:3]) == (row.data, row.owner, row.created)
        assert (tree.acl(znode) or OPEN_ACL) == row.acl
        assert sorted(tree.child_names(path)) == sorted(child.rpartition(b"/")[2] for child in twin.children(path))
    assert set(tree.sessions) == twin.sessions
    owned = {path: row.owner for path, row in twin.rows.items() if is_ephemeral(row.owner)}
    assert {path: session for session, paths in tree.ephemerals.items() for path in paths} == owned
    assert tree.containers == {path for path, row in twin.rows.items() if row.owner == CONTAINER_OWNER}
    assert len(tree.acls) == len({row.acl for row in twin.rows.values() if row.acl != OPEN_ACL} | {READ_ONLY})
    assert tree.digest == tree.recompute_digest()


def run(seed: int, count: int) -> None:
    random = Random(seed)
    tree, replica = DataTree(), DataTree()
    prepare = Prepare(tree, PrepareSettings(create_if_not_exists=True, keeper_extensions=True))
    twin = Twin({path: Row(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0) for path in (b"/", b"/zookeeper")})
    waiting: list[tuple[Txn, tuple]] = []
    zxid = 0
    sessions = [1]
    while zxid < count:
        for _ in range(random.choice([1, 2, 5, 30])):
            zxid += 1
            asked, body = request(random, sessions, twin)
            txn = Txn(*prepare.prepare(asked, zxid, zxid * 10))
            assert decode(encode(txn))[0] == txn
            waiting.append((txn, twin.execute(asked, body, zxid, zxid * 10)))
        # The older part is applied while the newer stays outstanding, or all of it.
        ready = len(waiting) if random.random() < 0.3 else random.randrange(len(waiting))
        for txn, wanted in waiting[:ready]:
            result = Outcome(*tree.apply(txn))
            assert outcome_of(result) == wanted
            assert replica.apply(txn) == result
            assert replica.digest == tree.digest
        del waiting[:ready]
        prepare.applied(tree.applied)
        if not waiting:
            assert len(prepare.outstanding) == 0
            assert not prepare.outstanding.changes
            assert_same(tree, twin)


@pytest.mark.parametrize("seed", range(12))
def test_prepare_and_apply_agree_with_one_request_at_a_time(seed: int) -> None:
    """Every third seed with what is compiled, if it is."""
    with using(load("tree"), load("writes")) if seed % 3 == 0 else nullcontext():
        run(seed, 400)
