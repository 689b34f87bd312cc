"""The digest: what it covers, what it leaves out, and that it is a function of the content alone."""

import struct
from random import Random
from zlib import crc32

import pytest

from datatree.digest import DIGEST_VERSION, part, session_part
from datatree.record import Txn
from datatree.tree import DataTree
from datatree.znode import CONTAINER_OWNER, STAT_LAYOUT, ttl_owner

READERS = ((1, b"world", b"anyone"),)
STAT = STAT_LAYOUT.pack(1, 2, 3, 4, 5, 6, 7, 0, 4, 0, 8)
CHECKSUM = crc32(b"/adata")


def tree_of(
    path: bytes = b"/a", data: bytes | None = b"data", acl: object = None, stat: bytes = STAT, owner: int = 0
) -> DataTree:
    tree = DataTree()
    tree.install([(path, data, acl, stat, owner, 0)])
    return tree


def test_the_definition_said_again() -> None:
    assert part(CHECKSUM, STAT, 0, 0, False) == CHECKSUM << 32 | crc32(b"/adata" + STAT)
    suffix = struct.pack(">qIB", 7, 9, 1)
    assert part(CHECKSUM, STAT, 7, 9, True) == CHECKSUM << 32 | crc32(b"/adata" + STAT + suffix)
    assert session_part(5, 6) == crc32(struct.pack(">qi", 5, 6)) << 32 | crc32(struct.pack(">iq", 6, 5))
    assert DIGEST_VERSION == 1


def test_the_digest_of_an_empty_tree_stays_what_it_is() -> None:
    # A changed value is a changed definition, and needs a new version.
    assert DataTree().digest == 0xCF9B0E1E0EB22EB3


@pytest.mark.parametrize(
    "other",
    [
        tree_of(path=b"/b"),
        tree_of(data=b"datb"),
        tree_of(data=None),
        tree_of(data=b""),
        tree_of(acl=READERS),
        tree_of(acl=((2, b"world", b"anyone"),)),
        tree_of(owner=CONTAINER_OWNER),
        tree_of(owner=ttl_owner(1)),
        tree_of(owner=ttl_owner(2)),
        *(
            tree_of(stat=STAT[:at] + bytes([STAT[at] ^ 1]) + STAT[at + 1 :])
            for at in (7, 15, 23, 31, 35, 39, 43, 51, 55, 59, 67)
        ),
    ],
)
def test_covers(other: DataTree) -> None:
    assert other.digest != tree_of().digest
    assert other.digest == other.recompute_digest()


def test_swapped_data_of_two_znodes_is_seen() -> None:
    def pair(first: bytes, second: bytes) -> int:
        tree = tree_of(data=first)
        tree.install([(b"/b", second, None, STAT, 0, 0)])
        return tree.digest

    assert pair(b"data", b"atad") != pair(b"atad", b"data")


def test_the_way_to_a_tree_does_not_matter() -> None:
    rows = [(b"/n%d" % number, b"x" * number) for number in range(50)]
    digests = set()
    for seed in range(3):
        Random(seed).shuffle(rows)
        tree = DataTree()
        for path, data in rows:
            tree.install([(path, data, READERS, STAT, 0, 0)])
        digests.add(tree.digest)
    assert len(digests) == 1


def test_ids_of_lists_do_not_matter_their_content_does() -> None:
    one, two = DataTree(), DataTree()
    two.acls.intern(((5, b"world", b"anyone"),))
    for tree in (one, two):
        tree.apply(Txn(1, 0, 0, 0, 1, 1, b"/a", b"", (READERS, 0)))
    assert one.digest == two.digest
    one.apply(Txn(2, 0, 0, 0, 7, 1, b"/a", None, (READERS,)))
    two.apply(Txn(2, 0, 0, 0, 7, 1, b"/a", None, (((9, b"world", b"anyone"),),)))
    assert one.digest != two.digest
