"""Access control lists: fix-up, permissions, the table of lists."""

from base64 import b64encode
from hashlib import sha1
from ipaddress import ip_address, ip_network

import pytest

from datatree import acl as module
from datatree.acl import (
    ADMIN,
    ALL,
    ANY_SASL,
    OPEN,
    READ,
    SUPER,
    WRITE,
    AclList,
    AclTable,
    Entries,
    Identity,
    acl_checksum,
    digest_identity,
    explicit,
    fix_up,
    masked,
    permits,
    size_of,
)
from datatree.errors import ErrorCode, Refused
from datatree.requests import WireAcl

ANYONE = (ALL, b"world", b"anyone")
LOCAL: Identity = (b"ip", b"127.0.0.1")
BOB: Identity = (b"digest", b"bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b"b\xe9b:p\xe4ss", "b\ufffdb:p\ufffdss"),
        (b"half:\xed\xa0\x80x", "half:\ufffdx"),
        (b"cut:\xe2\x82", "cut:\ufffd"),
        (b"long:\xc0\x80", "long:\ufffd\ufffd"),
        ("bör:pass€".encode(), "bör:pass€"),
    ],
)
def test_a_digest_of_what_is_no_text_is_that_of_what_zookeeper_reads(sent: bytes, read: str) -> None:
    """C's and Java's clients take any bytes for a password."""
    user, _, hashed = digest_identity(sent)[1].partition(b":")
    assert user.decode() == read.partition(":")[0]
    assert hashed == b64encode(sha1(read.encode(), usedforsecurity=False).digest())


def test_the_hash_of_a_digest_identity_is_zookeepers() -> None:
    assert digest_identity(b"bob:pw") == BOB


def test_a_digest_without_a_colon_is_hashed_whole() -> None:
    scheme, name = digest_identity(b"bob")
    assert scheme == b"digest"
    assert name.startswith(b"bob:")
    assert digest_identity(b"bob", "sha256") != (scheme, name)


class TestFixUp:
    @pytest.mark.parametrize(
        ("acl", "fixed"),
        [
            ((ANYONE,), None),
            ((ANYONE, ANYONE), None),
            (((READ, b"world", b"anyone"),), ((READ, b"world", b"anyone"),)),
            (((255, b"world", b"anyone"),), ((255, b"world", b"anyone"),)),
            (((READ, *BOB), (READ, *BOB), ANYONE), ((READ, *BOB), ANYONE)),
            (((ALL, b"auth", b""),), ((ALL, *BOB),)),
            (((READ, b"auth", b"ignored"), ANYONE), ((READ, *BOB), ANYONE)),
            (((READ, b"auth", None),), ((READ, *BOB),)),
            (
                ((READ, b"digest", b":b"), (READ, b"digest", b"a:b::")),
                ((READ, b"digest", b":b"), (READ, b"digest", b"a:b::")),
            ),
            (
                ((READ, b"digest", b"b\xe9b:h"), (READ, b"digest", b"b\xffb:h")),
                ((READ, b"digest", "b\ufffdb:h".encode()),),
            ),
            (((READ, b"ip", b"10.0.0.0/8"),), ((READ, b"ip", b"10.0.0.0/8"),)),
            (((READ, b"ip", b"10.1.2.3/8"),), ((READ, b"ip", b"10.1.2.3/8"),)),
            (((READ, b"ip", b"::1"),), ((READ, b"ip", b"::1"),)),
            (((READ, b"ip", b"fe80::/128"),), ((READ, b"ip", b"fe80::/128"),)),
            (((READ, b"x509", b"CN=a,O=b c"),), ((READ, b"x509", b"CN=a,O=b c"),)),
            (((READ, b"sasl", b"zk/host@REALM"),), ((READ, b"sasl", b"zk/host@REALM"),)),
        ],
    )
    def test_keeps_replaces_and_drops(self, acl: tuple[WireAcl, ...], fixed: AclList) -> None:
        assert fix_up(acl, (LOCAL, SUPER, BOB)) == fixed

    def test_auth_stands_for_every_authenticated_identity(self) -> None:
        alice = digest_identity(b"alice:pw")
        assert fix_up(((READ, b"auth", b""),), (LOCAL, BOB, alice)) == ((READ, *BOB), (READ, *alice))

    @pytest.mark.parametrize(
        "acl",
        [
            None,
            (),
            ((READ, None, b"anyone"),),
            ((READ, b"world", None),),
            ((READ, b"world", b"everyone"),),
            ((READ, b"auth", b""),),
            ((READ, b"super", b""),),
            ((READ, b"nosuch", b"x"),),
            ((READ, b"digest", b"bob"),),
            ((READ, b"digest", b"bob:"),),
            ((READ, b"digest", b":"),),
            ((READ, b"digest", b"a:b:c"),),
            ((READ, b"ip", b"10.0.0"),),
            ((READ, b"ip", b"10.0.0.1/33"),),
            ((READ, b"ip", b"10.0.0.1/255.0.0.0"),),
            ((READ, b"ip", b"::1/129"),),
            ((READ, b"ip", b"10.0.0.1/"),),
            ((READ, b"ip", b"fe80::1%eth0"),),
            ((READ, b"x509", b"nobody"),),
            ((READ, b"sasl", b"@REALM"),),
            (ANYONE, (READ, b"digest", b"bad")),
        ],
    )
    def test_refuses(self, acl: tuple[WireAcl, ...] | None) -> None:
        with pytest.raises(Refused) as refused:
            fix_up(acl, (LOCAL,))
        assert refused.value.code == ErrorCode.INVALIDACL

    def test_auth_stands_for_no_more_bytes_than_a_request_takes(self) -> None:
        alice, auth = digest_identity(b"alice:pw"), (READ, b"auth", b"")
        room = size_of(((READ, *BOB), (READ, *alice)))
        assert fix_up((auth,), (BOB, alice), bytes_max=room)
        for acl, bytes_max in (((auth,), room - 1), ((auth, (READ, b"auth", b"x")), room), ((auth,), 0)):
            with pytest.raises(Refused) as refused:
                fix_up(acl, (BOB, alice), bytes_max=bytes_max)
            assert refused.value.code == ErrorCode.INVALIDACL

    def test_ids_that_grow_as_they_become_text_take_no_more_bytes_than_a_request(self) -> None:
        acl = ((READ, b"digest", b"\xff\xff:h"),)
        room = size_of(((READ, b"digest", "\ufffd\ufffd:h".encode()),))
        assert fix_up(acl, (), bytes_max=room)
        with pytest.raises(Refused):
            fix_up(acl, (), bytes_max=room - 1)

    def test_auth_that_makes_too_many_entries_is_refused_before_one_is_made(self) -> None:
        """A list of 256 `auth` by somebody with 62 identities would be 16,000 entries."""

        class Counted(tuple[bytes, bytes]):
            unpacked = 0

            def __iter__(self):  # type: ignore[no-untyped-def]
                Counted.unpacked += 1
                return super().__iter__()

        identities = [Counted((b"digest", b"u%d:x" % number)) for number in range(62)]
        with pytest.raises(Refused):
            fix_up(tuple((READ, b"auth", b"%d" % number) for number in range(256)), identities)
        assert 0 < Counted.unpacked <= 256

    def test_takes_only_the_schemes_of_the_configuration(self) -> None:
        with pytest.raises(Refused):
            fix_up(((READ, b"sasl", b"zk"),), (), frozenset({b"digest", b"ip"}))


class TestPermits:
    @pytest.mark.parametrize(
        ("acl", "mask", "identities", "granted"),
        [
            (None, WRITE, (), True),
            ((), WRITE, (), True),
            (((READ, b"world", b"anyone"),), READ, (LOCAL,), True),
            (((READ, b"world", b"anyone"),), WRITE, (LOCAL,), False),
            (((READ, b"world", b"anyone"),), WRITE, (LOCAL, SUPER), True),
            (((READ, *BOB),), READ, (LOCAL, BOB), True),
            (((READ, *BOB),), READ, (LOCAL,), False),
            (((READ, *BOB),), READ, ((b"sasl", BOB[1]),), False),
            (((READ, *BOB),), READ | ADMIN, (BOB,), True),
            (((READ, *BOB), (WRITE, b"world", b"anyone")), WRITE, (), True),
            (((ALL, b"ip", b"127.0.0.1"),), READ, (LOCAL,), True),
            (((ALL, b"ip", b"127.0.0.0/8"),), READ, (LOCAL,), True),
            (((ALL, b"ip", b"10.0.0.0/8"),), READ, (LOCAL,), False),
            (((ALL, b"ip", b"0.0.0.0/0"),), READ, (LOCAL,), True),
            (((ALL, b"ip", b"::/0"),), READ, (LOCAL,), False),
            (((ALL, b"ip", b"fe80::/10"),), READ, ((b"ip", b"fe80::1"),), True),
            (((ALL, b"ip", b"127.0.0.1"),), READ, ((b"digest", b"127.0.0.1"),), False),
            (((READ, b"sasl", b"bob"),), READ, ((b"sasl", b"bob"),), True),
            (((READ, b"sasl", b"bob"),), READ, ((b"sasl", b"eve"),), False),
            (((READ, b"sasl", b"bob"),), READ, ((b"sasl", b"super"),), True),
            (((READ, b"sasl", b"bob"), (WRITE, b"sasl", b"eve")), WRITE, ((b"sasl", b"super"),), True),
            (((READ, b"sasl", b"bob"),), WRITE, ((b"sasl", b"super"),), False),
            (((READ, *BOB),), READ, ((b"sasl", b"super"),), False),
            (((READ, b"x509", b"CN=bob"),), READ, ((b"sasl", b"super"), (ANY_SASL, b"CN=bob")), False),
            (((READ, b"sasl", b"bob"),), READ, ((b"digest", b"super"),), False),
            (((READ, b"sasl", b"all"),), READ, ((ANY_SASL, b"all"),), True),
            (((READ, b"sasl", b"bob"),), READ, ((ANY_SASL, b"all"),), False),
        ],
    )
    def test_table(self, acl: AclList, mask: int, identities: tuple[Identity, ...], granted: bool) -> None:
        assert permits(acl, mask, identities) is granted


def test_check_reads_no_entry_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone who may create znodes with long lists, and asks for them again and again, costs nobody time."""
    parsed = []
    monkeypatch.setattr(module, "ip_network", lambda *given, **how: parsed.append(given) or ip_network(*given, **how))
    monkeypatch.setattr(module, "ip_address", lambda given: parsed.append(given) or ip_address(given))
    acl = fix_up(tuple((READ, b"ip", b"10.%d.0.0/16" % number) for number in range(256)), ())
    parsed.clear()
    for _ in range(1000):
        assert permits(acl, READ, [(b"ip", b"10.255.3.4")])
        assert not permits(acl, READ, [(b"ip", b"11.255.3.4")])
    assert len(parsed) == 256 + 2


def test_what_a_list_remembers_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADDRESSES_MAX", 10)
    acl = fix_up(((READ, b"ip", b"10.0.0.0/8"),), ())
    assert isinstance(acl, Entries)
    for number in range(256):
        assert permits(acl, READ, [(b"ip", b"10.0.0.%d" % number)])
        assert not permits(acl, READ, [(b"ip", b"11.0.0.%d" % number)])
        assert len(acl.grants._of_address) <= 10


@pytest.mark.parametrize("count", [256, 257])
def test_list_has_so_many_entries_at_most(count: int) -> None:
    acl = tuple((READ, b"digest", b"%d:x" % number) for number in range(count))
    if count == 256:
        assert fix_up(acl, ()) == acl
    else:
        with pytest.raises(Refused) as refused:
            fix_up(acl, ())
        assert refused.value.code == ErrorCode.INVALIDACL
        assert fix_up(acl, (), count_max=257) == acl
    many = [(b"digest", b"%d:x" % number) for number in range(count)]
    if count > 256:
        with pytest.raises(Refused):
            fix_up(((READ, b"auth", b""),), many)


def test_masking_hides_hashes_and_nothing_else() -> None:
    acl = ((READ, *BOB), ANYONE, (READ, b"ip", b"::1"))
    assert masked(acl) == ((READ, b"digest", b"bob:x"), ANYONE, (READ, b"ip", b"::1"))


def test_the_open_list_is_written_out_for_clients() -> None:
    assert explicit(None) == (ANYONE,)
    assert explicit(((READ, *BOB),)) == ((READ, *BOB),)


class TestTable:
    def test_equal_lists_share_an_id_until_the_last_reference_is_gone(self) -> None:
        table = AclTable()
        acl = ((READ, *BOB),)
        first = table.intern(acl)
        assert table.intern(((READ, *BOB),)) == first
        assert table.lists[first] == acl
        table.release(first)
        assert len(table) == 1
        table.release(first)
        assert len(table) == 0
        assert first not in table.lists

    def test_an_id_is_never_used_twice(self) -> None:
        table = AclTable()
        first = table.intern(((READ, *BOB),))
        table.release(first)
        assert table.intern(((READ, *BOB),)) != first

    def test_the_open_list_has_its_own_id_and_no_count(self) -> None:
        table = AclTable()
        assert table.intern(None) == OPEN
        table.release(OPEN)
        table.release(OPEN)
        assert table.lists[OPEN] is None
        assert len(table) == 0

    def test_a_reference_too_few_is_a_bug(self) -> None:
        table = AclTable()
        number = table.intern(((READ, *BOB),))
        table.release(number)
        with pytest.raises(KeyError):
            table.release(number)

    def test_the_checksum_covers_every_field_of_every_entry(self) -> None:
        lists = [
            None,
            ((READ, b"ip", b"ab"),),
            ((WRITE, b"ip", b"ab"),),
            ((READ, b"ipa", b"b"),),
            ((READ, b"ip", b"ac"),),
            ((READ, b"ip", b"ab"), (READ, b"ip", b"ab")),
        ]
        assert len({acl_checksum(acl) for acl in lists}) == len(lists)
