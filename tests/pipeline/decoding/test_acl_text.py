"""ACLs as text: every list comes back, and nobody can write an id that reads as another list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree.record import AclList
from zab.client import format_acl, parse_acl
from zab.pipeline.decoding.acl_text import acl_text, parse_acl_text

INTS = st.one_of(st.integers(0, 31), st.integers(-(1 << 31), (1 << 31) - 1))
TEXTS = st.one_of(
    st.sampled_from(["world", "anyone", "a:r,world:anyone", "CN=a,O=b", "\\", ",", ":", "x:1"]), st.text(max_size=8)
).map(str.encode)
ACLS = st.one_of(st.none(), st.lists(st.tuples(INTS, TEXTS, TEXTS), max_size=4).map(tuple))


@pytest.mark.parametrize(
    ("acl", "text"),
    [
        (None, "world:anyone:cdrwa"),
        ((), ""),
        (((1, b"world", b"anyone"),), "world:anyone:r"),
        (((31, b"digest", b"ann:x="), (0, b"ip", b"::1")), "digest:ann:x=:cdrwa,ip:::1:"),
        (((1, b"x509", b"CN=a,O=b"),), "x509:CN=a\\,O=b:r"),
        (((33, b"world", b"anyone"),), "world:anyone:33"),
    ],
)
def test_text_of_a_list(acl: AclList, text: str) -> None:
    assert acl_text(acl) == text
    assert parse_acl_text(text) == acl


@given(ACLS)
def test_every_list_comes_back(acl: AclList) -> None:
    canonical = None if acl == ((31, b"world", b"anyone"),) else acl
    assert parse_acl_text(acl_text(acl)) == canonical


def test_ordinary_lists_are_what_the_command_line_takes() -> None:
    text = acl_text(((31, b"digest", b"ann:x="), (1, b"world", b"anyone")))
    assert format_acl(parse_acl(text)) == text


@pytest.mark.parametrize("text", ["world", "world:anyone", "world:anyone:x", "a:b:r,", ",", "a:b:r,,a:b:r", "a:b:\\"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no ACL"):
        parse_acl_text(text)
