"""DIGEST-MD5: the RFC's examples, what servers and clients of ZooKeeper say, and everything that proves nothing."""

from __future__ import annotations

from hashlib import md5

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zab.wire.login.digest_md5 import (
    MESSAGE_BYTES_MAX,
    ZOOKEEPER_REALM,
    ZOOKEEPER_URI,
    DigestMd5Error,
    challenge,
    check,
    key_of,
    respond,
)

ELWOOD = "elwood.innosoft.com"
EXAMPLES = [
    # RFC 2831, section 4: service, nonce, cnonce, response, rspauth.
    (
        "imap",
        "OA6MG9tEQGm2hh",
        "OA6MHXh6VqTrRk",
        "d388dad90d4bbd760a152321f2143af7",
        "ea40f60335c427b5527b84dbabcdfffd",
    ),
    (
        "acap",
        "OA9BSXrbuRhWay",
        "OA9BSuZWMSpW8m",
        "6084c6db3fede7352c551284490fd0fc",
        "2f0b3d7c3c2e486600ef710726aa2eae",
    ),
]
NONCE, CNONCE = b"nonce+/=", b"cnonce"
USERS = {name: key_of(name, ZOOKEEPER_REALM, "secret") for name in ("bob", "b\u00f6b", "\u0431\u043e\u0431", 'a"b\\c')}


def checked(response: bytes, nonce: bytes = NONCE) -> tuple[str, bytes]:
    return check(response, realm=ZOOKEEPER_REALM, nonce=nonce, uri=ZOOKEEPER_URI, key_of_user=USERS.get)


def response_of(user: str = "bob", password: str = "secret", nonce: bytes = NONCE, uri: bytes = ZOOKEEPER_URI) -> bytes:
    asked = challenge(ZOOKEEPER_REALM, nonce)
    return respond(asked, user=user, password=password, cnonce=CNONCE, uri=uri).message


def proof(key: bytes, *authzid: bytes) -> bytes:
    """A response by the holder of a key, perhaps with an authorization id."""
    a1 = md5(b":".join((key, NONCE, CNONCE, *authzid))).hexdigest()
    a2 = md5(b"AUTHENTICATE:" + ZOOKEEPER_URI).hexdigest()
    return md5(f"{a1}:{NONCE.decode()}:00000001:{CNONCE.decode()}:auth:{a2}".encode()).hexdigest().encode()


@pytest.mark.parametrize(("service", "nonce", "cnonce", "response", "rspauth"), EXAMPLES)
def test_examples_of_the_rfc(service: str, nonce: str, cnonce: str, response: str, rspauth: str) -> None:
    uri = f"{service}/{ELWOOD}".encode()
    asked = f'realm="{ELWOOD}",nonce="{nonce}",qop="auth",algorithm=md5-sess,charset=utf-8'.encode()
    said = respond(asked, user="chris", password="secret", cnonce=cnonce.encode(), uri=uri)
    assert said.message.decode() == (
        f'charset=utf-8,username="chris",realm="{ELWOOD}",nonce="{nonce}",nc=00000001,cnonce="{cnonce}",'
        f'digest-uri="{uri.decode()}",response={response},qop=auth'
    )
    key = key_of("chris", ELWOOD, "secret")
    answered = check(
        said.message, realm=ELWOOD, nonce=nonce.encode(), uri=uri, key_of_user=lambda user: {"chris": key}.get(user)
    )
    assert answered == ("chris", f"rspauth={rspauth}".encode())
    assert said.is_answered_by(answered[1])
    assert not said.is_answered_by(b"rspauth=" + b"0" * 32)
    assert rspauth not in repr(said)


def test_challenge_has_the_form_of_zookeepers() -> None:
    assert challenge(ZOOKEEPER_REALM, b"n+/=") == b'realm="zk-sasl-md5",nonce="n+/=",charset=utf-8,algorithm=md5-sess'


@pytest.mark.parametrize("user", USERS)
def test_names_of_any_kind_are_proven(user: str) -> None:
    assert checked(response_of(user))[0] == user


def test_without_charset_a_name_is_latin_1() -> None:
    asked = challenge(ZOOKEEPER_REALM, NONCE).replace(b"charset=utf-8,", b"")
    said = respond(asked, user="b\u00f6b", password="secret", cnonce=CNONCE, uri=ZOOKEEPER_URI).message
    assert b'username="b\xf6b"' in said
    assert checked(said)[0] == "b\u00f6b"
    with pytest.raises(DigestMd5Error, match="does not accept names"):
        respond(asked, user="\u0431", password="secret", cnonce=CNONCE, uri=ZOOKEEPER_URI)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # As the real ZooKeeper takes it.
        (b",qop=auth", b""),
        (b"charset=utf-8,", b""),
        (b",qop=auth", b',qop="auth"'),
        (b",qop=auth", b',qop=auth,authzid="bob"'),
        (b",qop=auth", b',qop=auth,other="1",other="2", ,\r\n ,'),
        (b"nc=00000001", b"NC = 00000001 "),
        (b'username="bob"', b'username="b\\ob"'),
        (b",qop=auth", b",qop=auth,maxbuf=65536"),
    ],
)
def test_what_may_be_said_otherwise(before: bytes, after: bytes) -> None:
    said = response_of()
    assert before in said
    if b"authzid" in after:
        after += b",response=" + proof(USERS["bob"], b"bob")
        said = said.replace(b",response=" + said[-41:-9], b"")
    assert checked(said.replace(before, after))[0] == "bob"


def test_uri_is_compared_as_java_does_without_case() -> None:
    assert checked(response_of(uri=b"ZooKeeper/ZK-sasl-md5"))[0] == "bob"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (response_of(password="other"), "no such user"),
        (response_of(user="eve"), "no such user"),
        (response_of(nonce=b"other"), "nonce is not the one"),
        (response_of(uri=b"zookeeper/localhost"), "another service"),
        (response_of(uri=b"imap/zk-sasl-md5"), "another service"),
        (response_of().replace(b"zk-sasl-md5", b"other", 1), "another realm"),
        (response_of().replace(b"nc=00000001", b"nc=00000002"), "used before"),
        (response_of().replace(b"nc=00000001", b"nc=1"), "used before"),
        (response_of().replace(b"qop=auth", b"qop=auth-int"), "quality of protection"),
        (response_of().replace(b"charset=utf-8", b"charset=utf-16"), "charset"),
        (response_of().replace(b'"bob"', b'"b\xffb"'), "not utf-8"),
        (response_of() + b',authzid="super"', "may not act for another"),
        (response_of() + b',authzid=""', "may not act for another"),
        (response_of() + b",x=" + b"y" * MESSAGE_BYTES_MAX, "longer than 4096"),
        (response_of() + b",", ""),
        (response_of() + b",=1", "list of directives"),
        (response_of() + b',x="', "list of directives"),
        (response_of() + b',x="\0"', "list of directives"),
        (response_of() + b",x=a b=c", "list of directives"),
        (response_of().replace(b"response=", b"response=00"), "no such user"),
        (response_of().replace(response_of()[-41:-9], response_of()[-41:-9].upper()), "no such user"),
        (b"", "username is missing"),
        (b"\0" * 100, "list of directives"),
    ],
)
def test_what_proves_nothing(said: bytes, reason: str) -> None:
    if not reason:
        assert checked(said)[0] == "bob"
        return
    with pytest.raises(DigestMd5Error, match=reason) as error:
        checked(said)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", [b"username", b"realm", b"nonce", b"nc", b"cnonce", b"digest-uri", b"response"])
def test_every_directive_is_there_once(name: bytes) -> None:
    parts = response_of().split(b",")
    [own] = [part for part in parts if part.startswith(name + b"=")]
    without = b",".join(part for part in parts if part is not own)
    for wrong, reason in [
        (without, "is missing"),
        (without + b"," + name + b'=""', "is missing"),
        (b",".join([*parts, own]), "twice"),
        (b",".join([*parts, own.replace(name, name.upper(), 1)]), "twice"),
    ]:
        with pytest.raises(DigestMd5Error, match=reason):
            checked(wrong)


@pytest.mark.parametrize("name", [b"qop", b"charset", b"authzid", b"maxbuf", b"cipher"])
def test_what_may_be_left_out_is_not_there_twice_either(name: bytes) -> None:
    value = {b"qop": b"auth", b"charset": b"utf-8", b"authzid": b"bob"}.get(name, b"1")
    with pytest.raises(DigestMd5Error, match="twice"):
        checked(response_of() + (b"," + name + b"=" + value) * 2)


@given(st.binary(max_size=300))
@example(b'username="\\')
def test_no_bytes_do_more_than_prove_nothing(said: bytes) -> None:
    for message in (said, response_of() + b"," + said, said + b"," + response_of()[:-9]):
        try:
            assert checked(message)[0] == "bob"
        except DigestMd5Error:
            continue
        assert response_of()[:-9] in message
    with pytest.raises(DigestMd5Error):
        respond(said + b',algorithm="x"', user="bob", password="secret", cnonce=CNONCE, uri=ZOOKEEPER_URI)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (b"algorithm=md5-sess", "nonce is missing"),
        (b'nonce="n",nonce="n",algorithm=md5-sess', "twice"),
        (b'nonce="n"', "algorithm"),
        (b'nonce="n",algorithm=md5', "algorithm"),
        (b'nonce="n",algorithm=md5-sess,qop="auth-int, auth-conf"', "does not offer"),
    ],
)
def test_challenges_that_no_client_answers(asked: bytes, reason: str) -> None:
    with pytest.raises(DigestMd5Error, match=reason):
        respond(asked, user="bob", password="secret", cnonce=CNONCE, uri=ZOOKEEPER_URI)


@pytest.mark.parametrize("key", [bytes(16), b"", *USERS.values()])
def test_nobody_has_the_key_of_a_user_who_is_not_there(key: bytes) -> None:
    said = response_of("eve")
    with pytest.raises(DigestMd5Error, match="no such user"):
        checked(said.replace(said[-41:-9], proof(key)))


def test_nobody_acts_for_another_user_even_with_his_own_password() -> None:
    said = response_of()
    with pytest.raises(DigestMd5Error, match="may not act for another"):
        checked(said.replace(said[-41:-9], proof(USERS["bob"], b"super")) + b',authzid="super"')


def test_users_that_are_not_there_take_as_much_work_as_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a refusal does not reveal which users exist."""
    counts = []
    hashed = []
    from zab.wire.login import digest_md5

    whole = digest_md5._hash
    monkeypatch.setattr(digest_md5, "_hash", lambda data: hashed.append(len(data)) or whole(data))
    for said in (response_of(user="bob", password="wrong"), response_of(user="eve", password="wrong")):
        hashed.clear()
        with pytest.raises(DigestMd5Error):
            checked(said)
        counts.append(list(hashed))
    assert counts[0] == counts[1]
