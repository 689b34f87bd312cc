"""One transaction of every type."""

from datatree.record import Txn

ACL = ((31, b"digest", "zoë:hash".encode()), (1, b"world", b"anyone"))

SESSION = 0x0100_0190_1234_0001

TXNS = {
    "create": Txn(0x1_0000_0001, 1_700_000_000_000, SESSION, 7, 1, 3, b"/a", b"data", (None, 0)),
    "create2 ephemeral": Txn(0x1_0000_0002, 1, SESSION, 8, 15, 4, b"/a/e", b"", (None, SESSION)),
    "create with ACL": Txn(0x1_0000_0003, 1, SESSION, 8, 1, -1, "/ö".encode(), None, (ACL, 0)),
    "createContainer": Txn(0x1_0000_0004, 1, SESSION, 8, 19, 1, b"/c", None, (None, -(2**63))),
    "createTTL": Txn(0x1_0000_0005, 1, SESSION, 8, 21, 1, b"/t", b"x", (None, 5000 - 2**56)),
    "delete": Txn(0x1_0000_0006, 0, -SESSION, -1, 2, 0, b"/a", None, None),
    "deleteContainer": Txn(0x1_0000_0007, 0, 0, 0, 20, 0, b"/c", None, None),
    "setData": Txn(0x1_0000_0008, 5, SESSION, 2**31 - 1, 5, 2**31 - 1, b"/a", b"x" * 300, None),
    "setData wrapped version": Txn(0x1_0000_0009, 5, SESSION, -(2**31), 5, -(2**31), b"/a", None, None),
    "reconfig": Txn(0x1_0000_000A, 5, SESSION, 1, 16, -1, b"/zookeeper/config", b"server.1=h", None),
    "setACL": Txn(0x1_0000_000B, 5, SESSION, 1, 7, 1, b"/a", None, (ACL,)),
    "setACL open": Txn(0x1_0000_000C, 5, SESSION, 1, 7, 2, b"/a", None, (None,)),
    "createSession": Txn(0x1_0000_000D, 5, SESSION, 0, -10, 30_000, b"", None, None),
    "closeSession": Txn(0x1_0000_000E, 5, SESSION, 0, -11, 0, b"", None, (b"/a/e", "/ö".encode())),
    "closeSession without ephemerals": Txn(0x1_0000_000F, 5, -1, 0, -11, 0, b"", None, ()),
    "error": Txn(0x1_0000_0010, 5, SESSION, 4, -1, -101, b"/missing", None, (5,)),
    "multi": Txn(
        0x1_0000_0011,
        5,
        SESSION,
        4,
        14,
        0,
        b"",
        None,
        (
            (1, 4, b"/b", b"x", (ACL, SESSION)),
            (13, 2, b"/b", None, None),
            (2, 0, b"/b", None, None),
            (5, 0, b"/a", None, None),
        ),
    ),
    "refused multi": Txn(
        0x1_0000_0012, 5, 1, 4, 14, 0, b"", None, ((-1, 0, b"", None, None), (-1, -101, b"", None, None))
    ),
    "empty multi": Txn(0x1_0000_0013, 5, 1, 4, 14, 0, b"", None, ()),
    "createIfNotExists that found it": Txn(0x1_0000_0014, 5, SESSION, 4, 13, 2, b"/a", b"", None),
}
