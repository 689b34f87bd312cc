"""Logins at a listener of a broker: what comes before them, how they fail, and what follows."""

import hashlib

import pytest

from tests.partition.one_broker import OneBroker, metadata
from zab.coordination.driver import Connected, Expired
from zab.coordination.operations import Delete, Set
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.handshake import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from zab.kafka.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from zab.partition.access.scram import ScramServer, credential_in
from zab.partition.controller.znodes import decode_config, encode_config
from zab.partition.requests.login import LOGIN_FRAME_BYTES_MAX, LOGIN_MS
from zab.partition.settings.broker_config import BrokerConfigError, read_config

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_MODULE} required user_alice="open sesame";'
LISTENERS = "listeners=PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2"
LINES = f"{LISTENERS}\n{USERS}\nsasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
SALT = b"salt" * 4
ALICE = b"\0alice\0open sesame"


def joining(rig):
    return rig.client(listener="SASL_PLAINTEXT")


def chosen(rig, mechanism="PLAIN"):
    client = joining(rig)
    answer = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert (answer.error_code, answer.mechanisms) == (0, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
    return client


def said(client, token):
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


def upsertion(name, password, mechanism=1, iterations=4096):
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == 1 else "sha512", password, SALT, iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def alter(rig, *upsertions, deletions=()):
    asked = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    return {each.user: ErrorCode(each.error_code) for each in rig.client().ask(asked, 0).results}


def described(rig, *names):
    asked = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=name) for name in names) or None)
    return {
        each.user: (
            ErrorCode(each.error_code),
            {info.mechanism: info.iterations for info in each.credential_infos},
        )
        for each in rig.client().ask(asked, 0).results
    }


def begin_another_session(rig):
    """The session is over, and another one begins."""
    rig.tree.end_session(rig.session)
    rig.tree.fired.clear()
    rig.session = rig.tree.begin_session()
    rig.turn(Expired(), Connected(rig.session))


# ------------------------------------------------------------------------------------------------------ before a login


def test_before_the_login_there_are_versions_and_the_handshake_alone():
    rig = OneBroker(LINES)
    client = joining(rig)
    assert client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).error_code == 0
    assert not client.is_cut_off()
    client.send(metadata(), 12)
    assert client.is_cut_off()
    assert not client.answers()
    assert rig.reports == ["a connection of 10.0.0.1 is closed: request 3 came before the login"]


def test_nothing_of_a_request_before_the_login_is_read():
    rig = OneBroker(LINES)
    client = joining(rig)
    client.send_bytes(b"\0\0\0\x02\0\0")
    assert client.is_cut_off()
    assert "request 0 came before the login" in rig.reports[-1]


def test_frames_are_small_before_the_login_and_large_after_it():
    rig = OneBroker(LINES)
    client = joining(rig)
    client.send_bytes((LOGIN_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert client.is_cut_off()
    client = chosen(rig)
    assert said(client, ALICE).error_code == 0
    client.send_bytes((LOGIN_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert not client.is_cut_off()


def test_a_connection_that_does_not_log_in_is_closed():
    rig = OneBroker(LINES)
    known, late, plain = chosen(rig), joining(rig), rig.client()
    assert said(known, ALICE).error_code == 0
    rig.pass_time(LOGIN_MS - 1)
    assert not late.is_cut_off()
    rig.pass_time(1)
    assert late.is_cut_off()
    assert not known.is_cut_off()
    assert not plain.is_cut_off()
    assert rig.reports[-1] == "a connection of 10.0.0.1 is closed: it has not logged in in time"


def test_a_handshake_names_what_there_is():
    rig = OneBroker(LINES)
    client = joining(rig)
    answer = client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert said(client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_cut_off()


def test_a_login_is_one_and_at_a_listener_without_it_there_is_none():
    rig = OneBroker(LINES)
    client = chosen(rig)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert said(client, ALICE).error_code == 0
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert said(client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_cut_off()
    other = rig.client()
    assert other.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert said(other, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert other.is_cut_off()


# ---------------------------------------------------------------------------------------------------------------- PLAIN


def test_a_good_password_gives_a_name():
    rig = OneBroker(LINES)
    client = chosen(rig)
    answer = said(client, ALICE)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, None, b"")
    assert client.connection.principal == "User:alice"
    assert client.ask(metadata(), 12).brokers == ()


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice\0wrong",
        b"\0alice\0",
        b"\0bob\0open sesame",
        b"\0\0",
        b"bob\0alice\0open sesame",
        b"alice\0open sesame",
        b"\0alice\0open sesame\0",
        b"\0al\xffice\0open sesame",
    ],
)
def test_a_failed_login_is_answered_after_a_delay_and_closed(token):
    rig = OneBroker(f"{LINES}\nconnection.failed.authentication.delay.ms=300")
    client = chosen(rig)
    client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    rig.pass_time(299)
    assert not client.answers()
    # Nothing else is tried meanwhile.
    client.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
    rig.pass_time(1)
    answer = client.answers()[0]
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "the login has failed: wrong name or password"
    assert client.is_cut_off()
    assert client.connection.principal == "User:ANONYMOUS"
    assert "a login by PLAIN failed" in rig.reports[-1]
    assert "sesame" not in rig.reports[-1]


def test_a_failed_login_whose_client_has_gone_is_not_answered():
    rig = OneBroker(LINES)
    client = chosen(rig)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0x"), 2)
    client.leave()
    rig.pass_time(1000)
    assert not client.taken


# ---------------------------------------------------------------------------------------------------------------- SCRAM


def proof(password, mechanism, first, last_bare):
    """What a client of SCRAM computes, by its own way."""
    import hmac
    from base64 import b64encode

    name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password, SALT, 4096)
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), first + b"," + last_bare, name)
    return b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))


def logged_in(rig, name, password, mechanism="SCRAM-SHA-256"):
    """The client, and the last answer."""
    client = chosen(rig, mechanism)
    bare = b"n=" + name + b",r=client"
    first = said(client, b"n,," + bare).auth_bytes
    last_bare = b"c=biws," + first.partition(b",")[0]
    client.send(
        SaslAuthenticateRequest(
            auth_bytes=last_bare + b",p=" + proof(password, mechanism, bare + b"," + first, last_bare)
        ),
        2,
    )
    rig.pass_time(100)
    [answer] = client.answers()
    return client, answer


@pytest.mark.parametrize(("number", "mechanism"), [(1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")])
def test_a_user_of_the_znodes_logs_in_until_it_is_removed(number, mechanism):
    rig = OneBroker(LINES)
    assert alter(rig, upsertion("bob", b"secret", number)) == {"bob": ErrorCode.NONE}
    client, answer = logged_in(rig, b"bob", b"secret", mechanism)
    assert answer.error_code == 0
    assert answer.auth_bytes.startswith(b"v=")
    assert client.connection.principal == "User:bob"
    _, wrong = logged_in(rig, b"bob", b"guess", mechanism)
    _, unknown = logged_in(rig, b"eve", b"secret", mechanism)
    assert wrong == unknown
    assert wrong.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    gone = ScramCredentialDeletion(name="bob", mechanism=number)
    assert alter(rig, deletions=[gone]) == {"bob": ErrorCode.NONE}
    assert logged_in(rig, b"bob", b"secret", mechanism)[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not client.is_cut_off(), "a login holds for as long as its connection"


def test_users_are_in_kafkas_znodes_and_are_known_again_after_a_restart():
    rig = OneBroker(LINES)
    alter(rig, upsertion("zoë/x", b"secret"), upsertion("zoë/x", b"other", 2, 8192))
    path = "/config/users/zo%C3%AB%2Fx"
    written = decode_config(path, rig.tree.data(path))
    assert set(written) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    credential_in("SCRAM-SHA-256", written["SCRAM-SHA-256"])
    rig.restart()
    assert described(rig) == {"zoë/x": (ErrorCode.NONE, {1: 4096, 2: 8192})}
    assert logged_in(rig, "zoë/x".encode(), b"secret")[1].error_code == 0


def test_a_user_who_was_removed_while_nobody_looked_cannot_log_in():
    rig = OneBroker(LINES)
    alter(rig, upsertion("bob", b"secret"))
    rig.tree.apply(rig.session, Delete("/config/users/bob"))
    begin_another_session(rig)
    assert described(rig) == {}
    assert logged_in(rig, b"bob", b"secret")[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_credential_that_cannot_be_read_is_reported_and_counts_as_none():
    rig = OneBroker(LINES)
    alter(rig, upsertion("bob", b"secret"))
    rig.tree.apply(rig.session, Set("/config/users/bob", encode_config({"SCRAM-SHA-256": "salt=x"})))
    begin_another_session(rig)
    assert "user 'bob' cannot log in by SCRAM-SHA-256: a credential has salt" in "".join(rig.reports)
    assert described(rig, "bob")["bob"][0] is ErrorCode.RESOURCE_NOT_FOUND
    assert logged_in(rig, b"bob", b"secret")[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_changes_that_are_refused():
    rig = OneBroker(LINES)
    refused = {
        upsertion("", b"x"): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        upsertion("<default>", b"x"): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        upsertion("x" * 201, b"x"): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        upsertion("a", b"x", iterations=4095): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        upsertion("a", b"x", iterations=16385): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        upsertion("a", b"x", mechanism=3): ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ScramCredentialUpsertion(
            name="a", mechanism=1, iterations=4096, salt=b"", salted_password=b"x"
        ): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ScramCredentialUpsertion(
            name="a", mechanism=1, iterations=4096, salt=b"s" * 1025, salted_password=b"x"
        ): ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ScramCredentialUpsertion(
            name="a", mechanism=1, iterations=4096, salt=SALT, salted_password=b""
        ): ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
    for asked, error in refused.items():
        assert alter(rig, asked) == {asked.name: error}
    gone = ScramCredentialDeletion(name="a", mechanism=1)
    assert alter(rig, deletions=[gone]) == {"a": ErrorCode.RESOURCE_NOT_FOUND}
    twice = [upsertion("a", b"x"), upsertion("a", b"y")]
    assert alter(rig, *twice, upsertion("b", b"x")) == {"a": ErrorCode.DUPLICATE_RESOURCE, "b": ErrorCode.NONE}
    assert described(rig, "a", "b", "b") == {
        "a": (ErrorCode.RESOURCE_NOT_FOUND, {}),
        "b": (ErrorCode.DUPLICATE_RESOURCE, {}),
    }
    assert alter(rig) == {}


@pytest.mark.parametrize("salt", [b"s", b"salt", b"s" * 1024])
def test_the_salt_is_the_clients(salt):
    rig = OneBroker(LINES)
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", salt, 4096)
    asked = ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=salt, salted_password=salted)
    assert alter(rig, asked) == {"bob": ErrorCode.NONE}
    assert described(rig, "bob") == {"bob": (ErrorCode.NONE, {1: 4096})}


def test_a_conversation_of_scram_has_two_steps_and_a_new_nonce():
    rig = OneBroker(LINES)
    answers = {said(chosen(rig, "SCRAM-SHA-256"), b"n,,n=bob,r=x").auth_bytes for _ in range(3)}
    assert len(answers) == 3
    assert ScramServer("SCRAM-SHA-256", lambda _name: None, "x").user == ""


# ------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (f"{LISTENERS}\nsasl.enabled.mechanisms=PLAIN", "PLAIN is enabled, and has no users"),
        (f"listeners=PLAINTEXT://127.0.0.1:1\n{USERS}", "SASL_PLAINTEXT is no listener with a login"),
        (
            f"listeners=SASL_PLAINTEXT://10.0.0.1:2\n{USERS}\nsasl.enabled.mechanisms=PLAIN",
            "PLAIN would send passwords in clear text to SASL_PLAINTEXT://10.0.0.1:2: use SASL_SSL",
        ),
        ("sasl.enabled.mechanisms=GSSAPI", "GSSAPI is not supported"),
        ("sasl.enabled.mechanisms=", "there is no mechanism"),
        ("connections.max.reauth.ms=1000", "1000 is not between 0 and 0"),
        ("sasl.kerberos.service.name=kafka", "it is not supported here"),
        ("listener.name.a.plain.sasl.jaas.config=other required user_a=b;", "other is not supported"),
        (f'listener.name.a.plain.sasl.jaas.config={PLAIN_MODULE} required password="x";', "it names no users"),
        (f'listener.name.a.plain.sasl.jaas.config={PLAIN_MODULE} required user_a="";', "it names no users"),
        (f'listener.name.a.plain.sasl.jaas.config={PLAIN_MODULE} required user_a="b"', "line 1"),
        ("listener.name.a.plain.sasl.jaas.config=", "one login module is expected"),
        ("listeners=SASL_SSL://127.0.0.1:1", "ssl.keystore.location: a listener speaks TLS"),
    ],
)
def test_settings_that_refuse_the_start(lines, why):
    with pytest.raises(BrokerConfigError) as refused:
        read_config(lines)
    assert why in str(refused.value)
    assert "sesame" not in str(refused.value)


def test_passwords_are_in_no_text_of_the_settings():
    config = read_config(LINES)
    assert config.plain_users == {"SASL_PLAINTEXT": {"alice": "open sesame"}}
    assert "sesame" not in repr(config)
