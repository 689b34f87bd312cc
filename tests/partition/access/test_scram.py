"""SCRAM on the server's side: the example of RFC 7677, and each message that is refused."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.partition.access.scram_example import (
    CLIENT_FINAL,
    CLIENT_FIRST,
    NONCE,
    SERVER_FINAL,
    SERVER_FIRST,
    credential,
    server,
)
from zab.partition.access.scram import HASHES, Credential, LoginError, credential_in


def test_the_example_of_the_standard():
    one = server()
    assert one.first(CLIENT_FIRST.encode()).decode() == SERVER_FIRST
    assert one.final(CLIENT_FINAL.encode()).decode() == SERVER_FINAL
    assert one.user == "user"


@pytest.mark.parametrize(
    "message",
    [
        "",
        "n,,",
        "n,,n=,r=a",
        "n,,n=user",
        "n,,n=user,r=",
        "n,,n=user,r=a b",
        "n,,n=user,r=ä",
        "n,,n=us=er,r=a",
        "n,,n=us=2c,r=a",
        "n,,m=1,n=user,r=a",
        "n,,n=user,r=a,m",
        "n,a=admin,n=user,r=a",
        "p=tls-unique,,n=user,r=a",
        "x,,n=user,r=a",
        b"n,,n=\xff,r=a",
    ],
)
def test_first_messages_that_are_refused(message):
    with pytest.raises(LoginError):
        server().first(message if isinstance(message, bytes) else message.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dHzb", "dHzc"),
        ("c=biws", "c=eSws"),
        ("c=biws", "c=****"),
        ("r=rOpr", "r=rOps"),
        (NONCE, ""),
        ("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "p=AAAA"),
        ("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "p=*"),
        (",p=", ",q="),
        ("c=biws,", ""),
    ],
)
def test_last_messages_that_are_refused(old, new):
    one = server()
    one.first(CLIENT_FIRST.encode())
    assert old in CLIENT_FINAL
    with pytest.raises(LoginError):
        one.final(CLIENT_FINAL.replace(old, new, 1).encode())


def test_a_name_may_have_commas_and_signs_and_may_be_said_twice():
    one = server({"a,b=c": credential()})
    assert b"s=W22ZaJ0SNY7soEsUEjb6gQ==" in one.first(b"y,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=x,z=ext")
    assert one.user == "a,b=c"


def test_a_user_who_does_not_exist_is_answered_alike_each_time_and_fails_at_the_proof():
    first, second = server({}), server({})
    answers = {one.first(CLIENT_FIRST.encode()) for one in (first, second)}
    assert len(answers) == 1
    assert answers.pop().endswith(b",i=4096")
    with pytest.raises(LoginError, match="there is no such user, or it has another password"):
        first.final(CLIENT_FINAL.encode())


def test_a_credential_is_written_as_kafka_does():
    for mechanism in HASHES:
        one = credential(mechanism)
        assert credential_in(mechanism, str(one)) == one
        assert b64encode(one.salt).decode() not in repr(one)
    text = str(credential())
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert text.endswith(",iterations=4096")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: "", "a credential has salt"),
        (lambda text: f"{text},salt=AAAA", "a credential has salt"),
        (lambda text: f"{text},other=1", "a credential has salt"),
        (lambda text: text.replace("4096", "4095"), "at least 4096"),
        (lambda text: text.replace("4096", "many"), "are no number"),
        (lambda text: text.replace("4096", "9" * 5000), "are no number"),
        (lambda text: text.replace("salt=W", "salt=*"), "not Base64"),
        (lambda text: text.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""), "the keys are not those"),
        (lambda text: str(credential("SCRAM-SHA-512")), "the keys are not those"),
    ],
)
def test_credentials_that_are_refused(change, why):
    with pytest.raises(ValueError, match=why):
        credential_in("SCRAM-SHA-256", change(str(credential())))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_fail_and_nothing_else_happens(first, last):
    one = server()
    try:
        one.first(first)
    except LoginError:
        return
    with pytest.raises(LoginError):
        one.final(last)


def test_credentials_have_keys_of_their_mechanism():
    assert isinstance(credential(), Credential)
    assert [len(credential(each).stored_key) for each in HASHES] == [32, 64]
