"""Multis as rows, one for each part."""

import pytest

from datatree.opcodes import OpCode
from datatree.record import Part
from zab.pipeline.decoding.multi import unpack

CREATE: Part = (1, 4, b"/a", b"x", (None, 7))
SET: Part = (5, 3, b"/b", None, None)
CHECK: Part = (13, 2, b"/c", None, None)
ACL: Part = (7, 1, b"/d", None, (((1, b"ip", b"10.0.0.1"),),))


@pytest.mark.parametrize("multis", [{}, {0: (), 3: ()}])
def test_without_parts_nothing_changes(multis: dict[int, tuple[Part, ...]]) -> None:
    assert unpack(multis, 5) is None


def test_each_part_takes_the_place_of_the_whole() -> None:
    found = unpack({1: (CREATE, SET), 3: (), 4: (CHECK,)}, 6)
    assert found is not None
    assert found.base.tolist() == [0, 1, 1, 2, 3, 4, 5]
    assert found.order.tolist() == [0, 6, 7, 2, 3, 8, 5]
    assert found.columns["part"] == [0, 1, 0]
    assert found.columns["type"] == found.columns["operation"] == [1, 5, 13]


def test_a_part_has_the_columns_of_its_type() -> None:
    found = unpack({0: (CREATE, SET, CHECK, ACL)}, 1)
    assert found is not None
    columns = found.columns
    assert columns["path"] == ["/a", "/b", "/c", "/d"]
    assert columns["data"] == [b"x", None, None, None]
    assert columns["version"] == [4, 3, 2, 1]
    assert columns["acl"] == ["world:anyone:cdrwa", None, None, "ip:10.0.0.1:r"]
    assert columns["owner"] == [7, None, None, None]
    assert columns["error"] == [0] * 4
    assert columns["timeout"] == columns["paths"] == [None] * 4


@pytest.mark.parametrize(
    "parts",
    [
        ((-1, 0, b"", None, None), (-1, -101, b"", None, None), (-1, -2, b"", None, None)),
        # ZooKeeper logs what came before the refused part as if it had been done,
        (SET, (-1, -101, b"", None, None), (-1, -2, b"", None, None)),
        # or as an error, with the first bytes of what it was for its code.
        ((-1, 6, b"", None, None), (-1, -101, b"", None, None), (-1, -2, b"", None, None)),
    ],
)
def test_of_a_refused_multi_nothing_was_done(parts: tuple[Part, ...]) -> None:
    found = unpack({0: parts}, 1)
    assert found is not None
    assert found.columns["type"] == [OpCode.ERROR] * 3
    assert found.columns["error"] == [-2, -101, -2]
    assert found.columns["version"] == found.columns["data"] == [None] * 3
