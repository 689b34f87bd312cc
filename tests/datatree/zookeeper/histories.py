"""Random histories as ZooKeeper would log them, and fuzzy snapshots of the states in between."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from attrs import evolve

from datatree.opcodes import OpCode
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Txn
from datatree.requests import OPEN_ACL, Create, CreateSession, Multi, NoBody, PathVersion, SetAcl, SetData
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from datatree.zookeeper.snapshot import SnapshotZnode
from datatree.zookeeper.state import ZooKeeperState

PATHS = [b"/a", b"/a-b", b"/b", b"/a/a", b"/a/b", b"/a-b/a", b"/a/a/a", b"/a/a/b"]
ACLS = [OPEN_ACL, OPEN_ACL, ((1, b"world", b"anyone"), (31, b"digest", b"bob:x")), ((31, b"ip", b"10.0.0.0/8"),)]
IDENTITIES = ((b"digest", b"bob:x"), (b"super", b""))


def _operation(random: Random) -> tuple[int, Create | PathVersion | SetData]:
    path = random.choice(PATHS)
    data = random.choice([b"", b"x", bytes(30), None])
    match random.randrange(9):
        case 0 | 1 | 2:
            flags = random.choice([0, 0, 0, 1, 2, 3])
            return random.choice([OpCode.CREATE, OpCode.CREATE2]), Create(path, data, random.choice(ACLS), flags)
        case 3:
            return OpCode.CREATE_CONTAINER, Create(path, data, OPEN_ACL, 4)
        case 4:
            return OpCode.CREATE_TTL, Create(path, data, OPEN_ACL, 5, 1000)
        case 5 | 6:
            return OpCode.DELETE, PathVersion(path, -1)
        case _:
            return OpCode.SET_DATA, SetData(path, data, -1)


def history(seed: int, count: int) -> tuple[list[Txn], DataTree]:
    """`count` transactions from zxid 1 on, over an empty tree, and the tree after them."""
    random = Random(seed)
    tree = DataTree()
    prepare = Prepare(tree, PrepareSettings(extended_types=True))
    txns = []
    sessions = [0x100]
    for zxid in range(1, count + 1):
        session = random.choice(sessions[-3:])
        opcode: int
        body: CreateSession | NoBody | Multi | SetAcl | Create | PathVersion | SetData
        match random.randrange(20):
            case 0 | 1 | 2:
                sessions.append(session := sessions[-1] + 1)
                opcode, body = OpCode.CREATE_SESSION, CreateSession(40_000 + zxid)
            case 3:
                opcode, body = OpCode.CLOSE_SESSION, NoBody()
            case 4 | 5:
                opcode, body = OpCode.MULTI, Multi(tuple(_operation(random) for _ in range(random.randrange(1, 5))))
            case 6:
                opcode, body = OpCode.SET_ACL, SetAcl(random.choice(PATHS), random.choice(ACLS), -1)
            case _:
                opcode, body = _operation(random)
        request = WriteRequest(session, zxid & 99, opcode, body.encode(), IDENTITIES)
        txn = Txn(*prepare.prepare(request, zxid, 10_000 + zxid))
        tree.apply(txn)
        prepare.applied(zxid)
        txns.append(txn)
    return txns, tree


def states(txns: list[Txn]) -> list[ZooKeeperState]:
    """The state at each zxid, 0 included, as copies."""
    state = ZooKeeperState.empty()
    found = [copy_of(state)]
    for txn in txns:
        state.apply(txn)
        found.append(copy_of(state))
    return found


def copy_of(state: ZooKeeperState) -> ZooKeeperState:
    return ZooKeeperState.build((state.znodes[path] for path in sorted(state.znodes)), state.sessions, state.zxid)


def fuzzy(moments: list[ZooKeeperState], start: int, random: Random) -> Iterator[SnapshotZnode]:
    """What ZooKeeper writes when it begins a snapshot at zxid `start` and transactions go on meanwhile.

    It takes one znode after the other, parents first; each as it is at that moment, with its children of that moment.
    """
    now = start
    pending = [b"/"]
    while pending:
        now = min(now + random.choice([0, 1, 3, 6]), len(moments) - 1)
        path = pending.pop()
        znode = moments[now].znodes.get(path)
        if znode is None:
            continue
        yield evolve(znode)
        below = sorted(moments[now].children.get(path, ()))
        random.shuffle(below)
        pending += [path.rstrip(b"/") + b"/" + name for name in below]
