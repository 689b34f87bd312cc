"""Lists of revoked certificates: whose count, and from when until when."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from zab.cli.servers.authority import Authority
from zab.tls.revocation import RevocationError, current_lists, lists_in

NOW = datetime(2026, 11, 24, tzinfo=UTC)
DAYS = 10


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new("members", NOW, DAYS)


def pem(*found: x509.CertificateRevocationList) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in found)


def test_lists_are_found_between_certificates(authority: Authority) -> None:
    first, second = authority.revoked({5: NOW}, 1, NOW), authority.revoked({5: NOW, 7: NOW}, 2, NOW)
    certificate = authority.certificate.public_bytes(Encoding.PEM)
    found = lists_in(b"a line\n" + pem(first) + certificate + pem(second).replace(b"\n", b"\r\n"))
    assert found == [first, second]
    assert [each.serial_number for each in found[1]] == [5, 7]
    assert lists_in(certificate) == []
    with pytest.raises(RevocationError, match="cannot be read"):
        lists_in(b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")


def test_each_authority_has_a_list_of_its_own(authority: Authority) -> None:
    other = Authority.new("members", NOW, DAYS)
    both = [authority.certificate, other.certificate]
    lists = [each.revoked({}, 1, NOW) for each in (authority, other)]
    assert current_lists(both, lists[::-1], NOW) == lists
    with pytest.raises(RevocationError, match=rf"signed by {other.certificate.subject.rfc4514_string()}$"):
        current_lists(both, lists[:1], NOW)
    # Another authority's, which only claims to belong to this one.
    forged = Authority(other.key, authority.certificate).revoked({}, 1, NOW)
    assert forged.issuer == authority.certificate.subject
    with pytest.raises(RevocationError, match=r"signed by "):
        current_lists([authority.certificate], [forged], NOW)


@pytest.mark.parametrize(
    ("now", "counts"),
    [
        (NOW, True),
        (NOW + timedelta(days=DAYS, seconds=-1), True),
        (NOW + timedelta(days=DAYS), False),
        (NOW - timedelta(hours=1), True),
        (NOW - timedelta(hours=1, seconds=1), False),
    ],
)
def test_a_list_counts_from_its_begin_to_its_end(authority: Authority, now: datetime, counts: bool) -> None:
    found = authority.revoked({}, 1, NOW)
    with contextlib.nullcontext() if counts else pytest.raises(RevocationError, match="is not valid now"):
        assert current_lists([authority.certificate], [found], now) == [found]


def test_the_newest_that_counts_is_taken(authority: Authority) -> None:
    first, second = authority.revoked({}, 1, NOW), authority.revoked({5: NOW}, 2, NOW)
    later = authority.revoked({}, 1, NOW + timedelta(seconds=1))
    early = authority.revoked({}, 3, NOW + timedelta(days=2))
    for lists in ([first, second, early], [early, second, first]):
        assert current_lists([authority.certificate], lists, NOW) == [second]
    assert current_lists([authority.certificate], [second, later], NOW) == [later]
