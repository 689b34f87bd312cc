"""The bits of ClickHouse Keeper's features, as a server tells them and a client reads them."""

import pytest

from zab.jute.keeper_features import KeeperFeature, features_of, flags_of

NONE: frozenset[KeeperFeature] = frozenset()


@pytest.mark.parametrize(
    ("features", "flags"),
    [
        (NONE, b"\x00\x00"),
        ({KeeperFeature.FILTERED_LIST}, b"\x80\x00"),
        ({KeeperFeature.PERSISTENT_WATCHES, KeeperFeature.CREATE_WITH_STATS}, b"\x01\x80"),
        (frozenset(KeeperFeature), b"\xff\xe0"),
    ],
)
def test_each_has_its_bit(features: frozenset[KeeperFeature], flags: bytes) -> None:
    assert flags_of(features) == flags
    assert features_of(flags) == features


@pytest.mark.parametrize("flags", [b"", b"\x00", b"\x00\x1f\xff\xff"])
def test_what_is_missing_is_none_and_what_nobody_knows_is_passed_over(flags: bytes) -> None:
    assert features_of(flags) == NONE


def test_a_server_with_fewer_bytes_has_the_first_ones() -> None:
    assert features_of(b"\x88") == {KeeperFeature.FILTERED_LIST, KeeperFeature.REMOVE_RECURSIVE}
