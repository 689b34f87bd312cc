"""The table of `test_wire`: exchanges below /wire, by name, grouped by what they are about.

Not here: what is expected. The real ZooKeeper says it; where ours differs on purpose, `DIFFERENCES` gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.conftest import SUPER
from tests.conformance.exchange import Again, Ends, Frames, Step
from tests.conformance.wire import (
    WHO_AM_I,
    Request,
    acl_bytes,
    add_watch,
    auth,
    check,
    check_watches,
    children,
    create,
    create_ttl,
    delete,
    descendants,
    ephemerals,
    exists,
    flag,
    frame,
    get,
    get_acl,
    i32,
    i64,
    multi,
    remove_watches,
    set_acl,
    set_data,
    set_watches,
    sync,
    text,
    vector,
)

R = "/wire"
NONE_READABLE = ((30, "world", "anyone"),)
OF_BOB = ((31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="),)
BOB = auth("digest", b"bob:pw")
BY_BOB = ((31, "auth", ""),)
# Latin-1, half a pair of UTF-16, cut off in a character, beyond Unicode, longer than it need be, two of one reading.
NO_TEXTS = (
    *(
        b"b\xe9b:p\xe4ss",
        b"half:\xed\xa0\x80x\xed\xb0\x80",
        b"cut:\xe2\x82",
        b"cut:\xf0\x9f\x98x",
        b"cut:\xe2x\xf0\x9f",
    ),
    *(b"beyond:\xf4\x90\x80\x80", b"long:\xc0\x80\xe0\x80\x80\xf0\x80\x80\x80", b"one:\xff", b"one:\xfe", b"\xff:\xfe"),
)
OF_NO_TEXTS = tuple((31, "digest", name) for name in NO_TEXTS)


def a(*actions: Request | Frames | Again | Ends) -> list[Step]:
    """All by one session."""
    return [("a", action) for action in actions]


def b(*actions: Request | Frames | Again | Ends) -> list[Step]:
    return [("b", action) for action in actions]


def raw(opcode: int, body: bytes = b"", xid: int = 77) -> Frames:
    return Frames(frame(i32(xid) + i32(opcode) + body), 1, ((xid, opcode),))


def pipelined(*requests: Request) -> Frames:
    """All in one segment, with the xids 101, 102 …"""
    data = b"".join(frame(i32(xid) + i32(opcode) + body) for xid, (opcode, body) in enumerate(requests, 101))
    return Frames(data, len(requests), tuple((xid, opcode) for xid, (opcode, _) in enumerate(requests, 101)))


EVERY_CREATE = [
    create(R + f"/{opcode}-{flags}", flags=flags, opcode=opcode) for opcode in (1, 15, 19) for flags in range(7)
]
EVERY_CREATE += [create_ttl(R + f"/21-{flags}", 60_000, flags) for flags in range(7)]
CREATES_OF_MULTIS = [
    *(create(R + f"/{opcode}-{flags}", flags=flags, opcode=opcode) for opcode in (1, 15, 19) for flags in range(5)),
    *(create_ttl(R + f"/21-{flags}", 60_000, flags) for flags in range(-1, 8)),
]
"""But for flags that ZooKeeper cannot decode there."""

CREATES = {
    "create flag 7": a(create(R + "/x", flags=7)),
    "create flag -1": a(create(R + "/x", flags=-1)),
    "create flag precedes path": a(create("x", flags=9)),
    "create flag 0 to 3": a(*(create(R + "/x-", flags=flags) for flags in (0, 1, 2, 3))),
    "create2 flag 0 to 3": a(*(create(R + "/x-", b"1", flags, opcode=15) for flags in (0, 1, 2, 3))),
    "create of each kind by each opcode": a(*EVERY_CREATE, children(R, opcode=12)),
    "create of each kind by each opcode in a multi": a(*map(multi, CREATES_OF_MULTIS), children(R, opcode=12)),
    "createContainer": a(create(R + "/x", flags=4, opcode=19), get(R + "/x")),
    "createTTL": a(create_ttl(R + "/x", 60_000), create_ttl(R + "/x-", 60_000, 6), get(R + "/x")),
    "createTTL of 0": a(create_ttl(R + "/x", 0)),
    "createTTL of -1": a(create_ttl(R + "/x", -1)),
    "createTTL maximum": a(create_ttl(R + "/x", (1 << 40) - 1)),
    "createTTL too long": a(create_ttl(R + "/x", 1 << 40)),
    "createTTL range precedes path": a(create_ttl("x", 0)),
    "create without slash": a(create("x"), create("")),
    "create NUL": a(create(R + "/x\0y")),
    "create NUL under missing parent": a(create(R + "/none/x\0y")),
    "create path precedes ACL": a(create("x", acl=()), create(R + "/x\0", acl=())),
    "create ACL precedes parent": a(create(R + "/none/x", acl=())),
    "create ACL null": a(create(R + "/x", acl=None)),
    "create ACL unknown scheme": a(create(R + "/x", acl=((31, "nobody", "x"),))),
    "create ACL world of somebody": a(create(R + "/x", acl=((31, "world", "somebody"),))),
    "create ACL auth without identity": a(create(R + "/x", acl=BY_BOB)),
    "create ACL null scheme": a(create(R + "/x", acl=((31, None, "x"),))),
    "create ACL null id": a(create(R + "/x", acl=((31, "world", None),))),
    "create ACL perms": a(create(R + "/x", acl=((1 << 20, "world", "anyone"),)), get_acl(R + "/x")),
    "create ACL digest ids": a(
        *(create(R + "/x", acl=((31, "digest", name),)) for name in ("bob", "bob:", ":", "", "a:b:c"))
    ),
    "create ACL digest id": a(
        create(R + "/x", acl=tuple((31, "digest", name) for name in ("a:b", ":b", "a:b::"))), get_acl(R + "/x")
    ),
    "create ACL digest id not UTF-8": a(create(R + "/x", acl=OF_NO_TEXTS), get_acl(R + "/x")),
    "create ACL ip ids": a(
        *(create(R + "/x", acl=((31, "ip", name),)) for name in ("", "1.2.3", "1.2.3.4/33", "1.2.3.4/x", "300.1.1.1")),
        *(
            create(R + f"/{n}", acl=((31, "ip", name),))
            for n, name in enumerate(("1.2.3.4/0", "1.2.3.4", "::1", "::1/128"))
        ),
        create(R + "/y", acl=((31, "ip", "::1/129"),)),
    ),
    "create ACL sasl, x509, super, ensemble": a(
        *(create(R + "/x", acl=((31, scheme, "x"),)) for scheme in ("sasl", "x509", "super", "ensemble")),
        create(R + "/x", acl=((31, "x509", "CN=a"),)),
    ),
    "create ACL repeated": a(create(R + "/x", acl=NONE_READABLE * 2 + OF_BOB), get_acl(R + "/x")),
    "create ACL auth": a(BOB, create(R + "/x", acl=BY_BOB), get_acl(R + "/x")),
    "create ACL auth of two": a(
        BOB, auth("digest", b"eve:x"), create(R + "/x", acl=((3, "auth", "zzz"),)), get_acl(R + "/x")
    ),
    "create parent missing": a(create(R + "/none/x"), create(R + "/none//x"), create(R + "/none/")),
    "create NOAUTH precedes path": [
        *a(create(R + "/p", acl=((1, "world", "anyone"),)), create(R + "/p/", flags=0), create(R + "/p/x")),
    ],
    "create bad paths": a(
        *(create(R + suffix) for suffix in ("/", "//x", "/.", "/..", "/a/../b", "/\x01", "/\x7f", "/\ufff0", "/\ue000"))
    ),
    "create good paths": a(
        *(create(R + suffix) for suffix in ("/ ", "/ü", "/...", "/a.b", "/\u2028", "/\uf900", "/'\"\\"))
    ),
    "create supplementary characters": a(create(R + "/\U0001f600"), create(R + "/\U00020000")),
    "create sequential bad names": a(create(R + "/", flags=2), create(R + "/.", flags=2), create(R + "/a/", flags=2)),
    "create root and reserved": a(create("/"), create("/zookeeper"), create("/zookeeper/config"), create("")),
    "create below root's double slash": a(create("//wire"), create("//")),
    "create exists": a(create(R + "/x"), create(R + "/x"), create(R)),
    "create exists precedes ephemeral parent": a(
        create(R + "/e", flags=1), create(R + "/e/x"), create(R + "/e/x", flags=1), create(R + "/e/x", flags=2)
    ),
    "create null data": a(create(R + "/x", None), get(R + "/x"), set_data(R + "/x", b"1"), set_data(R + "/x", None)),
    "sequence counts creations": a(
        create(R + "/s", flags=2), create(R + "/x"), delete(R + "/x"), create(R + "/s", flags=2), children(R, opcode=12)
    ),
    "sequence after refusals": a(
        create(R + "/x"), create(R + "/x"), create(R + "/e/", flags=3), create(R + "/s", flags=2)
    ),
}

OTHER_WRITES = {
    "delete paths": a(
        *(delete(path) for path in ("x", "", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))
    ),
    "delete NUL": a(delete(R + "/x\0"), delete(R + "/none/x\0")),
    "delete missing": a(delete(R + "/none"), delete(R + "/none/x"), delete(R + "//"), delete(R + "/")),
    "delete NOAUTH is the parent's": a(
        create(R + "/p", acl=((5, "world", "anyone"),)), create(R + "/p/x"), delete(R + "/p/x"), delete(R + "/p/y")
    ),
    "delete version precedes children": a(
        create(R + "/p"), create(R + "/p/x"), delete(R + "/p", 3), delete(R + "/p", 0)
    ),
    "delete versions": a(
        create(R + "/x"), set_data(R + "/x", b"1"), delete(R + "/x", 0), delete(R + "/x", -2), delete(R + "/x", 1)
    ),
    "delete another's ephemeral": [*a(create(R + "/e", flags=1)), *b(delete(R + "/e")), *a(ephemerals("/"))],
    "setData paths": a(
        *(set_data(path, b"") for path in ("", "x", R + "/", R + "//x", R + "/.", R + "/\0", R + "/none"))
    ),
    "setData NOAUTH precedes version": a(create(R + "/x", acl=((1, "world", "anyone"),)), set_data(R + "/x", b"1", 7)),
    "setData versions": a(
        create(R + "/x"),
        *(set_data(R + "/x", b"1", version) for version in (1, 0, 0, 1, -1, -2, 3)),
    ),
    "setData root and reserved": a(set_data("/zookeeper/config", b"x"), set_data("/zookeeper", b""), get("/zookeeper")),
    "setACL paths": a(*(set_acl(path, OF_BOB) for path in ("", "x", R + "/", R + "//x", R + "/\0", R + "/none"))),
    "setACL list precedes missing": a(set_acl(R + "/none", ()), set_acl(R + "//", ())),
    "setACL NOAUTH": a(
        create(R + "/x", acl=((15, "world", "anyone"),)), set_acl(R + "/x", OF_BOB), set_acl(R + "/x", ())
    ),
    "setACL versions": a(
        create(R + "/x"),
        *(set_acl(R + "/x", ((31, "world", "anyone"),), version) for version in (1, 0, 0, 1, -1, -2)),
        get_acl(R + "/x"),
        get(R + "/x"),
    ),
    "setACL locks out": a(
        create(R + "/x"),
        set_acl(R + "/x", OF_BOB),
        *(f(R + "/x") for f in (get, exists, children, get_acl, descendants)),
        set_data(R + "/x", b""),
        set_acl(R + "/x", OF_BOB),
        create(R + "/x/y"),
        BOB,
        get(R + "/x"),
        get_acl(R + "/x"),
    ),
    "check alone": a(check(R)),
    "sync anything": a(sync(""), sync("x"), sync(R + "//none")),
    "reconfig": a((16, text(None) + text(None) + text("server.1=a:1:2") + i64(-1))),
    "deleteContainer": a(create(R + "/c", flags=4, opcode=19), (20, text(R + "/c"))),
    "createSession": a((-10, i32(4000))),
    "closeSession": a(Ends(), create(R + "/x")),
    "error": a((-1, b"")),
}

READS = {
    "exists": a(
        exists(R), exists(R + "/none"), exists(""), exists("x"), exists(R + "/\0"), exists(R + "/"), exists(R + "//")
    ),
    "getData": a(*(get(path) for path in (R, R + "/none", "x", R + "/\0", R + "/", R + "//"))),
    "getChildren": a(*(children(path) for path in (R, R + "/none", "x", R + "/\0", R + "/", "/zookeeper"))),
    "getChildren2": a(*(children(path, opcode=12) for path in (R, R + "/none", "x", R + "/\0", R + "/", "/zookeeper"))),
    "getACL": a(*(get_acl(path) for path in (R, "/", "/zookeeper", R + "/none", "x", R + "/\0"))),
    "getAllChildrenNumber": a(
        create(R + "/x"),
        create(R + "/x/y"),
        create(R + "x"),
        *(descendants(path) for path in (R, R + "/x", R + "/x/y", R + "/z")),
        delete(R + "x"),
    ),
    "getEphemerals": a(
        create(R + "/e1", flags=1),
        create(R + "/e2", flags=1),
        *(ephemerals(prefix) for prefix in ("", "/", None, R, R + "/e1", R + "/e", "e", R + "/")),
    ),
    "reads without READ": a(
        create(R + "/x", acl=NONE_READABLE),
        *(f(R + "/x") for f in (get, exists, children, get_acl, descendants)),
        children(R + "/x", opcode=12),
    ),
    "getACL with ADMIN alone": a(create(R + "/x", acl=((16, "world", "anyone"), *OF_BOB)), get_acl(R + "/x")),
    "getACL with READ alone": a(create(R + "/x", acl=((1, "world", "anyone"), *OF_BOB)), get_acl(R + "/x")),
    "getACL with neither": a(create(R + "/x", acl=((14, "world", "anyone"), *OF_BOB)), get_acl(R + "/x")),
    "whoAmI": a(WHO_AM_I, BOB, BOB, auth("digest", b"eve"), WHO_AM_I),
    "stat of a busy znode": a(
        create(R + "/x"),
        create(R + "/x/a"),
        create(R + "/x/b"),
        delete(R + "/x/a"),
        set_data(R + "/x", b"123"),
        set_acl(R + "/x", ((31, "world", "anyone"),)),
        create(R + "/x/c", flags=1),
        exists(R + "/x"),
        exists(R + "/x/c"),
    ),
    "multiRead": a(
        create(R + "/x", b"1"),
        create(R + "/y", acl=NONE_READABLE),
        multi(get(R + "/x"), children(R), get(R + "/none"), children(R + "/y"), get(R + "/y"), opcode=22),
        multi(opcode=22),
    ),
    "multiRead watches nothing": a(multi(get(R, watch=True), opcode=22), set_data(R, b"1")),
    "multiRead of a write": a(multi(get(R), delete(R), opcode=22)),
    "multiRead of exists": a(multi(exists(R), opcode=22)),
}

MULTIS = {
    "multi of all kinds": a(
        multi(
            create(R + "/a", b"1"),
            create(R + "/b", b"2", opcode=15),
            create(R + "/c", flags=4, opcode=19),
            create_ttl(R + "/d", 60_000),
            set_data(R + "/a", b"3"),
            check(R + "/a", 1),
            delete(R + "/b"),
            create(R + "/s", flags=2),
            create(R + "/e", flags=1),
            check(R),
        ),
        children(R, opcode=12),
        get(R + "/a"),
    ),
    "multi empty": a(multi(), exists(R)),
    "multi fails first": a(multi(delete(R + "/none"), create(R + "/x"))),
    "multi fails in the middle": a(
        multi(create(R + "/x"), check(R), delete(R + "/none"), create(R + "/y")), children(R)
    ),
    "multi fails last": a(multi(create(R + "/x"), create(R + "/x")), children(R, opcode=12)),
    "multi sees itself": a(
        multi(create(R + "/x"), create(R + "/x/y"), delete(R + "/x/y"), delete(R + "/x"), create(R + "/x", flags=2)),
        children(R),
    ),
    "multi check fails": a(multi(check(R, 7), create(R + "/x"))),
    "multi check of a created znode": a(
        multi(create(R + "/x"), check(R + "/x", 0), set_data(R + "/x", b""), check(R + "/x", 0))
    ),
    "multi check NOAUTH": a(create(R + "/x", acl=NONE_READABLE), multi(check(R + "/x", 7))),
    "multi check bad path": a(multi(check(R + "//")), multi(check("")), multi(check(R + "/none"))),
    "multi rolls the sequence back": a(
        multi(create(R + "/s", flags=2), create(R + "/s", flags=2), check(R, 9)), create(R + "/s", flags=2), exists(R)
    ),
    "multi NOTEMPTY and ephemeral parent": a(
        multi(create(R + "/x"), create(R + "/x/y"), delete(R + "/x")),
        multi(create(R + "/e", flags=1), create(R + "/e/y")),
    ),
    "multi ACL errors": a(multi(create(R + "/x", acl=())), multi(create(R + "/x", acl=BY_BOB))),
    "multi TTL errors": a(multi(create_ttl(R + "/x", 0)), multi(create(R + "/x", flags=7))),
    "multi of setACL": a(multi(set_acl(R, OF_BOB)), exists(R)),
    "multi of a read": a(multi(create(R + "/x"), get(R)), exists(R)),
    "multi of getChildren alone": a(multi(children(R)), exists(R)),
    "multi of sync": a(multi(sync(R))),
    "multi of a multi": a(multi((14, b""))),
    "multi of closeSession": a(multi((-11, b""))),
    "multi unended": a((14, i32(1) + flag(False) + i32(-1) + create(R + "/x")[1]), exists(R + "/x")),
    "multi truncated": a((14, i32(1) + flag(False) + i32(-1) + create(R + "/x")[1][:-2])),
    "multi bytes after the end": a((14, multi(create(R + "/x"))[1] + b"more")),
    "multi header errors are ignored": a(
        (14, i32(2) + flag(False) + i32(5) + delete(R + "/none")[1] + i32(0) + flag(True) + i32(0))
    ),
    "multi empty body": a((14, b""), exists(R)),
    "multiRead empty body": a((22, b"")),
}

FRAMING = {
    "xid 0": a(raw(4, get(R)[1], 0)),
    "xid negative": a(raw(4, get(R)[1], -7)),
    "xid of a write negative": a(raw(1, create(R + "/x")[1], -9)),
    "xid repeated": a(pipelined(get(R)), pipelined(get(R))),
    "ping has its own xid": a(Frames(frame(i32(5) + i32(11)))),
    "ping zxid": a(create(R + "/x"), Frames(frame(i32(-2) + i32(11)))),
    "bytes after a request": a((4, get(R)[1] + b"more"), (1, create(R + "/x")[1] + b"more"), (11, b"more")),
    "order of pipelined requests": a(
        pipelined(
            create(R + "/x", b"1"),
            get(R + "/x"),
            set_data(R + "/x", b"2"),
            get(R + "/x"),
            delete(R + "/x"),
            get(R + "/x"),
            sync(R),
            create(R + "/x"),
            exists(R + "/x"),
        )
    ),
    "unknown opcodes": a(raw(99)),
    "opcode 0": a(raw(0)),
    "opcode 10": a(raw(10, b"x")),
    "opcode -2": a(raw(-2)),
    "opcode 2147483647": a(raw(2**31 - 1)),
    "unknown opcode ends what follows": a(
        Frames(frame(i32(1) + i32(99)) + frame(i32(2) + i32(4) + get(R)[1]), 2, ((2, 4),))
    ),
    "unknown opcode behind a write": a(
        Frames(frame(i32(1) + i32(1) + create(R + "/x")[1]) + frame(i32(2) + i32(99)), 3, ((1, 1),))
    ),
    "frame length negative": a(Frames(i32(-1))),
    "frame length minimum": a(Frames(i32(-(2**31)))),
    "frame too long": a(Frames(i32(2**31 - 1))),
    "frame longest": a(
        Frames(frame((i32(9) + i32(5) + set_data(R, bytes(1_048_575 - 37))[1]).ljust(1_048_575, b"\0")), 1, ((9, 5),))
    ),
    "frame too long behind a request": a(Frames(frame(i32(1) + i32(4) + get(R)[1]) + i32(2**31 - 1), 2, ((1, 4),))),
    "frame of no bytes": a(Frames(frame(b""))),
    "frame of 4 bytes": a(Frames(frame(i32(1)))),
    "frame of 7 bytes": a(Frames(frame(i32(1) + b"\0\0\0"))),
    "four-letter word later": a(Frames(b"ruok")),
}

_PATH_ONLY = {6: "getACL", 9: "sync", 103: "getEphemerals", 104: "getAllChildrenNumber"}
_WATCHING = {3: "exists", 4: "getData", 8: "getChildren", 12: "getChildren2"}
_PATH_INT = {2: "delete", 17: "checkWatches", 18: "removeWatches", 106: "addWatch"}
_CREATING = {1: "create", 15: "create2", 19: "createContainer", 21: "createTTL"}
_OTHERS = {5: "setData", 7: "setACL", 101: "setWatches", 105: "setWatches2"}
_NAMES = {**_PATH_ONLY, **_WATCHING, **_PATH_INT, **_CREATING, **_OTHERS}
_GOOD: dict[int, bytes] = {
    **{opcode: text(R) for opcode in _PATH_ONLY},
    **{opcode: text(R) + flag(False) for opcode in _WATCHING},
    **{opcode: text(R) + i32(1) for opcode in _PATH_INT},
    **{opcode: create(R + "/x")[1] for opcode in (1, 15)},
    19: create(R + "/x", flags=4)[1],
    21: create_ttl(R + "/x", 5)[1],
    5: set_data(R, b"12")[1],
    7: set_acl(R, OF_BOB)[1],
    101: set_watches(0, [R], [], [])[1],
    105: set_watches(0, [R], [], [], [], [])[1],
}

UNDECODABLE: dict[str, list[Step]] = {
    **{f"{_NAMES[opcode]} without body": a((opcode, b""), exists(R)) for opcode in _GOOD},
    **{f"{_NAMES[opcode]} cut by a byte": a((opcode, body[:-1]), exists(R)) for opcode, body in _GOOD.items()},
    **{
        f"{_NAMES[opcode]} path null": a((opcode, i32(-1) + body[4 + len(R) :]), exists(R))
        for opcode, body in _GOOD.items()
        if opcode < 100 and opcode not in _CREATING
    },
    **{
        f"{_NAMES[opcode]} path length negative": a((opcode, i32(-2) + body[4:]), exists(R))
        for opcode, body in _GOOD.items()
        if opcode < 101 or opcode in (103, 104, 106)
    },
    **{
        f"{_NAMES[opcode]} path length huge": a((opcode, i32(2**31 - 1) + body[4:]), exists(R))
        for opcode, body in _GOOD.items()
        if opcode < 101 or opcode in (103, 104, 106)
    },
    "create path null": a((1, create(None)[1]), exists(R)),
    "create ACL count huge": a((1, text(R + "/x") + text(b"") + i32(2**31 - 1) + i32(0)), exists(R)),
    "create ACL count negative": a((1, text(R + "/x") + text(b"") + i32(-2) + i32(0)), exists(R)),
    "create data length negative": a((1, text(R + "/x") + i32(-5) + acl_bytes(OF_BOB) + i32(0)), exists(R)),
    "setData path not UTF-8": a((5, text(b"/wire/\xff") + text(b"") + i32(-1)), exists(R)),
    "create path not UTF-8": a((1, create(R + "/x")[1].replace(b"/x", b"\xff\xfe")), children(R)),
    "getData path not UTF-8": a((4, text(b"/wire/\xff") + flag(False)), exists(R)),
    "setWatches count huge": a((101, i64(0) + i32(2**31 - 1)), exists(R)),
    "setWatches null lists": a((101, i64(0) + i32(-1) * 3), exists(R)),
    "setWatches2 with lists for setWatches": a((105, _GOOD[101]), exists(R)),
    "setWatches null path": a((101, i64(0) + vector([i32(-1)]) + vector([]) * 2), exists(R)),
    "auth cut": a(Frames(frame(i32(-4) + i32(100) + i32(0) + text("digest")), 1, ((-4, 100),)), exists(R)),
    "auth without body": a(Frames(frame(i32(-4) + i32(100)), 1, ((-4, 100),)), exists(R)),
    "watch flag 2": a((4, text(R) + b"\x02"), set_data(R, b"")),
    "closeSession with a body": a((-11, b"more")),
}

AUTHENTICATION = {
    "auth digest": a(BOB, create(R + "/x", acl=BY_BOB), get(R + "/x")),
    "auth unknown scheme": a(auth("nobody", b"x")),
    "auth world": a(auth("world", b"anyone")),
    "auth ip": a(auth("ip", b""), WHO_AM_I),
    "auth super scheme": a(auth("super", b"")),
    "auth digest without colon": a(auth("digest", b"eve"), create(R + "/x", acl=BY_BOB), get_acl(R + "/x")),
    "auth digest empty": a(auth("digest", b""), WHO_AM_I),
    "auth digest null": a(auth("digest", None), WHO_AM_I),
    "auth digest not UTF-8": a(
        *(auth("digest", proof) for proof in NO_TEXTS), WHO_AM_I, create(R + "/x", acl=BY_BOB), get_acl(R + "/x")
    ),
    "auth xid is echoed": a(Frames(frame(i32(33) + i32(100) + BOB[1]), 1, ((33, 100),))),
    "auth scheme in capitals": a(auth("Digest", b"bob:pw")),
    "auth scheme null": a((100, i32(0) + text(None) + text(b"x"))),
    "auth super": a(
        create(R + "/x", b"1", acl=OF_BOB),
        get(R + "/x"),
        auth("digest", SUPER.encode()),
        get(R + "/x"),
        get_acl(R + "/x"),
        WHO_AM_I,
        create(R + "/y", acl=BY_BOB),
        get_acl(R + "/y"),
    ),
    "auth is the connection's": [*a(BOB, create(R + "/x", acl=BY_BOB)), *b(get(R + "/x")), *a(Again(), get(R + "/x"))],
    "auth ip permits": a(create(R + "/x", acl=((31, "ip", "127.0.0.0/8"),)), get(R + "/x"), get_acl(R + "/x")),
    "auth ip does not permit": a(create(R + "/x", acl=((31, "ip", "10.0.0.1"),)), get(R + "/x")),
    "sasl is not set up": a(raw(102, text(b""))),
    "multi needs every permission": a(
        create(R + "/x", acl=((1, "world", "anyone"),)),
        multi(create(R + "/y"), set_data(R + "/x", b"1")),
        BOB,
        multi(create(R + "/z", acl=BY_BOB), set_data(R + "/z", b"1")),
    ),
}

WATCHES = {
    "watch by exists": [*a(exists(R + "/x", True)), *b(create(R + "/x"), delete(R + "/x"))],
    "watch by exists of what is there": [*a(exists(R, True)), *b(create(R + "/x"), set_data(R, b""), set_data(R, b""))],
    "watch by getData": [
        *a(get(R, True), get(R + "/none", True)),
        *b(create(R + "/none"), set_acl(R, ((31, "world", "anyone"),)), set_data(R, b"1")),
    ],
    "watch by getChildren": [*a(children(R, True)), *b(set_data(R, b""), create(R + "/x"), create(R + "/y"))],
    "watch by getChildren of no path": [*a(children("", True)), *b(create(R + "2"), delete(R + "2"))],
    "watch by getChildren2": [*a(children(R, True, 12)), *b(create(R + "/x"), delete(R + "/x"))],
    "watches on a deleted znode": [
        *a(create(R + "/x"), get(R + "/x", True), exists(R + "/x", True), children(R + "/x", True), children(R, True)),
        *b(delete(R + "/x")),
    ],
    "child watch of a deleted znode": [*a(create(R + "/x"), children(R + "/x", True)), *b(delete(R + "/x"))],
    "own write triggers before its reply": a(
        get(R, True), set_data(R, b"1"), pipelined(get(R, True), set_data(R, b"2"), get(R))
    ),
    "refused write triggers nothing": a(get(R, True), set_data(R, b"", 9), multi(set_data(R, b""), check(R, 9))),
    "multi triggers in order": [
        *a(children(R, True), exists(R + "/x", True), exists(R + "/y", True), get(R, True)),
        *b(multi(create(R + "/x"), set_data(R, b"1"), create(R + "/y"), delete(R + "/x"))),
    ],
    "ephemerals end with a session": [
        *a(children(R, True), add_watch(R, 1)),
        *b(create(R + "/e1", flags=1), create(R + "/e2", flags=1), Ends()),
    ],
    "addWatch persistent": [
        *a(add_watch(R, 0)),
        *b(create(R + "/x"), create(R + "/x/y"), set_data(R, b""), delete(R + "/x/y"), delete(R + "/x")),
    ],
    "addWatch recursive": [
        *a(add_watch(R, 1)),
        *b(create(R + "/x"), create(R + "/x/y"), set_data(R + "/x", b""), delete(R + "/x/y"), set_data(R, b"")),
    ],
    "addWatch both": [*a(add_watch(R, 1), add_watch(R, 0)), *b(create(R + "/x"), set_data(R, b""), delete(R + "/x"))],
    "addWatch and a standard one": [
        *a(add_watch(R, 0), get(R, True), children(R, True)),
        *b(set_data(R, b""), create(R + "/x"), set_data(R, b"")),
    ],
    "addWatch root recursive": [*a(add_watch("/", 1)), *b(create(R + "/x"))],
    "addWatch anywhere": a(add_watch("x", 0), add_watch("", 1), add_watch(R + "//", 0), add_watch(R + "/\0", 1)),
    "addWatch unknown mode": a(add_watch(R, 2), add_watch(R, -1)),
    "addWatch empty path fires": [*a(add_watch("", 1)), *b(create(R + "/x"))],
    "checkWatches": a(
        *(check_watches(R, kind) for kind in (1, 2, 3, 4, 5, 0, 6)),
        get(R, True),
        *(check_watches(R, kind) for kind in (1, 2, 3, 4, 5)),
        children(R, True),
        *(check_watches(R, kind) for kind in (1, 2, 3)),
        add_watch(R, 0),
        *(check_watches(R, kind) for kind in (4, 5, 3)),
        add_watch(R, 1),
        check_watches(R, 5),
        check_watches(R + "/x", 5),
    ),
    "removeWatches standard": [
        *a(
            get(R, True),
            children(R, True),
            remove_watches(R, 2),
            check_watches(R, 3),
            remove_watches(R, 2),
            remove_watches(R, 1),
        ),
        *b(set_data(R, b""), create(R + "/x")),
    ],
    "removeWatches any": [
        *a(
            get(R, True),
            children(R, True),
            add_watch(R, 0),
            add_watch(R, 1),
            remove_watches(R, 3),
            remove_watches(R, 3),
        ),
        *b(set_data(R, b"")),
    ],
    "removeWatches persistent": [
        *a(add_watch(R, 0), get(R, True), remove_watches(R, 4), remove_watches(R, 4)),
        *b(create(R + "/x"), set_data(R, b""), set_data(R, b"")),
    ],
    "removeWatches recursive": [
        *a(add_watch(R, 0), add_watch(R, 1), remove_watches(R, 5), remove_watches(R, 5)),
        *b(create(R + "/x")),
    ],
    "removeWatches unknown": a(remove_watches(R, 0), remove_watches(R, 6), remove_watches(R + "/none", 3)),
    "event without READ": [
        *a(create(R + "/x", acl=((31, "ip", "127.0.0.1"),)), BOB, create(R + "/y", acl=BY_BOB)),
        *b(add_watch(R, 1), exists(R + "/y", True), exists(R + "/z", True)),
        *a(set_data(R + "/y", b""), create(R + "/z", acl=BY_BOB), delete(R + "/y"), delete(R + "/z"), delete(R + "/x")),
    ],
    "events of children without READ": [
        *b(children(R, True), add_watch(R, 0)),
        *a(BOB, set_acl(R, BY_BOB), create(R + "/x"), set_acl(R, ((31, "world", "anyone"),)), create(R + "/y")),
    ],
    "setWatches": [
        *a(create(R + "/x"), create(R + "/y"), create(R + "/z")),
        *b(set_watches(0, [R + "/x", R + "/none"], [R + "/y", R + "/new"], [R, R + "/none"])),
        *a(create(R + "/new"), set_data(R + "/x", b""), set_data(R + "/y", b""), create(R + "/w")),
    ],
    "setWatches after everything": [
        *a(create(R + "/x")),
        *b(set_watches(1 << 62, [R + "/x"], [R + "/x", R + "/n"], [R + "/x", R])),
        *a(set_data(R + "/x", b""), create(R + "/x/c"), create(R + "/n"), delete(R + "/x/c"), delete(R + "/x")),
    ],
    "setWatches2": [
        *b(set_watches(1 << 62, [R], [], [R], [R, R + "/p"], [R + "/r"])),
        *a(
            set_data(R, b""), create(R + "/p"), create(R + "/r"), create(R + "/r/s"), set_data(R, b""), delete(R + "/p")
        ),
    ],
    "setWatches of paths that cannot be": a(set_watches(0, ["x", ""], ["", "//"], ["/wire/\0"])),
    "watches end with the connection": [
        *a(get(R, True), add_watch(R, 1), Again(), check_watches(R, 3)),
        *b(set_data(R, b"")),
    ],
}

SESSIONS = {
    "session comes back": [*a(create(R + "/e", flags=1), Again(), exists(R + "/e"), ephemerals("/"))],
    "session comes back elsewhere": [
        *a(create(R + "/e", flags=1), Again(1), sync("/"), exists(R + "/e"), create(R + "/f", flags=1), Ends()),
        *b(sync("/"), children(R)),
    ],
    "ephemerals of two sessions": [
        *a(create(R + "/a", flags=1)),
        *b(create(R + "/b", flags=1), Ends()),
        *a(children(R, opcode=12)),
    ],
    "close ends what follows": a(
        Frames(frame(i32(1) + i32(-11)) + frame(i32(2) + i32(4) + get(R)[1]), 2, ((1, -11), (2, 4)))
    ),
}

GROUPS: dict[str, dict[str, list[Step]]] = {
    "creates": CREATES,
    "writes": OTHER_WRITES,
    "reads": READS,
    "multis": MULTIS,
    "framing": FRAMING,
    "undecodable": UNDECODABLE,
    "authentication": AUTHENTICATION,
    "watches": WATCHES,
    "sessions": SESSIONS,
}

CASES: dict[str, Sequence[Step]] = {name: steps for group in GROUPS.values() for name, steps in group.items()}
assert len(CASES) == sum(map(len, GROUPS.values())), "two cases have one name"
