"""Stat, permissions and ACL texts."""

import struct

import pytest

from zab.client.core.records import OPEN_ACL, Acl, Permission, Stat, State, format_acl, parse_acl


def test_stat_reads_its_68_bytes_in_order() -> None:
    fields = tuple(range(1, 12))
    assert Stat.from_wire(struct.pack(">qqqqiiiqiiq", *fields)) == Stat(*fields)


@pytest.mark.parametrize(
    ("text", "acl"),
    [
        ("world:anyone:cdrwa", OPEN_ACL),
        ("world:anyone:awrdc", OPEN_ACL),
        ("ip:10.0.0.1/8:r", (Acl(Permission.READ, "ip", "10.0.0.1/8"),)),
        ("ip:fe80::1:r", (Acl(Permission.READ, "ip", "fe80::1"),)),
        ("auth::cw", (Acl(Permission.CREATE | Permission.WRITE, "auth", ""),)),
        (
            "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:da,world:anyone:r",
            (
                Acl(Permission.DELETE | Permission.ADMIN, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="),
                Acl(Permission.READ, "world", "anyone"),
            ),
        ),
    ],
)
def test_acl_text(text: str, acl: tuple[Acl, ...]) -> None:
    assert parse_acl(text) == acl
    assert parse_acl(format_acl(acl)) == acl


@pytest.mark.parametrize("text", ["", "world", "world:anyone", ":anyone:r", "world:anyone:rx", "world:anyone:r,"])
def test_malformed_acl_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not scheme:id:permissions|unknown permission"):
        parse_acl(text)


def test_wire_form_of_an_acl_entry_and_back() -> None:
    entry = Acl(Permission.READ | Permission.ADMIN, "digest", "bob:x")
    assert entry.to_wire() == (17, b"digest", b"bob:x")
    assert Acl.from_wire(entry.to_wire()) == entry


def test_null_texts_of_an_acl_read_as_empty() -> None:
    assert Acl.from_wire((31, None, None)) == Acl(Permission.ALL, "", "")


def test_states_that_are_over_are_not_connected() -> None:
    assert {state for state in State if state.is_over} == {State.AUTH_FAILED, State.EXPIRED, State.CLOSED}
    assert {state for state in State if state.is_connected} == {State.CONNECTED, State.CONNECTED_READ_ONLY}
