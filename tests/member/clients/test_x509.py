"""Clients who proved a name by their certificate, on whole members: TLS itself is not here."""

from __future__ import annotations

from typing import Any

import pytest

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import AddAuth, SetAcl
from tests.member.clients.asking import ask, who
from tests.rigs.direct.members import Ensemble
from zab.member.clients.audit import users
from zab.member.settings.zoo_cfg import parse
from zab.member.wire_protocols import client_protocol

OFFERED = {"secureClientPort": "2281", "ssl__keyStore__location": "/k.pem", "ssl__trustStore__location": "/t.pem"}
TLS_LINES = "secureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n"
PROVIDER = {"authProvider__x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider"}
ALICES = ((31, b"x509", b"CN=alice,O=o"),)


def an_ensemble(size: int = 1, **lines: Any) -> Ensemble:
    ensemble = Ensemble(size, **{**OFFERED, **lines})
    ensemble.settle()
    return ensemble


def test_subject_of_a_certificate_is_an_identity() -> None:
    ensemble = an_ensemble()
    alice = ensemble.session(subject="CN=alice,O=o")
    assert who(ensemble, alice) == [(b"ip", b"127.0.0.1"), (b"x509", b"CN=alice,O=o")]
    assert users(alice.connection.identities) == "ip:127.0.0.1,x509:CN=alice\\x2cO=o"
    assert who(ensemble, ensemble.session()) == [(b"ip", b"127.0.0.1")]


def test_acl_of_a_subject_is_for_it_alone() -> None:
    ensemble = an_ensemble(3)
    alice = ensemble.session(ensemble.follower, subject="CN=alice,O=o")
    others = [ensemble.session(ensemble.follower, subject=name) for name in ("", "CN=alice", "CN=ALICE,O=o")]
    assert ensemble.do(alice, alice.create(b"/a", acl=ALICES), alice.get(b"/a"))[1][1] == 0
    assert ensemble.do(alice, alice.create(b"/mine", acl=((31, b"auth", b""),)))[0][1] == 0
    for path in (b"/a", b"/mine"):
        for other in others:
            assert ensemble.do(other, other.get(path))[0][1] == ErrorCode.NOAUTH
        assert ensemble.do(alice, alice.get(path))[0][1] == 0
    assert ask(ensemble, alice, OpCode.SET_ACL, SetAcl(b"/a", ((1, b"x509", b"CN=alice,O=o"),), -1).encode())[0] == 0
    assert ensemble.do(alice, alice.set(b"/a", b"x"))[0][1] == ErrorCode.NOAUTH


def test_name_that_the_configuration_says_passes_every_acl() -> None:
    ensemble = an_ensemble(X509AuthenticationProvider__superUser="CN=root")
    alice, root = ensemble.session(subject="CN=alice,O=o"), ensemble.session(subject="CN=root")
    like_root = ensemble.session(subject="CN=root,O=o")
    ensemble.do(alice, alice.create(b"/a", acl=ALICES))
    assert ensemble.do(root, root.get(b"/a"))[0][1] == 0
    assert ensemble.do(like_root, like_root.get(b"/a"))[0][1] == ErrorCode.NOAUTH


def test_proof_may_be_required() -> None:
    ensemble = an_ensemble(enforce__auth__enabled="true", enforce__auth__schemes="x509")
    alice, nobody = ensemble.session(subject="CN=alice"), ensemble.session()
    assert ensemble.do(alice, alice.create(b"/a"))[0][1] == 0
    assert ensemble.do(nobody, nobody.create(b"/b"))[0][1] == ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH
    assert nobody.is_closed


def test_auth_request_proves_nothing_new() -> None:
    ensemble = an_ensemble()
    alice, nobody = ensemble.session(subject="CN=alice"), ensemble.session()
    asked = AddAuth(b"x509", b"CN=root").encode()
    assert ask(ensemble, alice, OpCode.AUTH, asked)[0] == 0
    assert (b"x509", b"CN=root") not in who(ensemble, alice)
    assert ask(ensemble, nobody, OpCode.AUTH, asked)[0] == ErrorCode.AUTHFAILED
    assert nobody.is_closed


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ({}, ErrorCode.INVALIDACL),
        (PROVIDER, 0),
        ({**OFFERED, "ssl__clientAuth": "none"}, ErrorCode.INVALIDACL),
        ({**OFFERED, "ssl__clientAuth": "none", **PROVIDER}, 0),
        ({**OFFERED, "ssl__clientAuth": "want"}, 0),
    ],
)
def test_lists_name_certificates_where_somebody_is_asked_for_one(lines: dict[str, str], error: int) -> None:
    ensemble = Ensemble(1, **lines)
    ensemble.settle()
    client = ensemble.session()
    assert ensemble.do(client, client.create(b"/a", acl=ALICES))[0][1] == error


def test_subject_is_no_identity_where_nobody_is_asked_for_a_certificate_or_it_is_empty() -> None:
    """As a socket makes a connection."""
    for lines, subject in ((TLS_LINES, ""), (TLS_LINES + "ssl.clientAuth=none\n", "CN=alice"), ("", "CN=alice")):
        connection = client_protocol(parse(f"dataDir=/d\nclientPort=1\n{lines}", "zoo.cfg")).connect(
            "10.0.0.1", 1, subject
        )
        assert connection.identities == ((b"ip", b"10.0.0.1"),)
    connection = client_protocol(parse(f"dataDir=/d\n{TLS_LINES}", "zoo.cfg")).connect("10.0.0.1", 1, "CN=alice")
    assert connection.identities == ((b"ip", b"10.0.0.1"), (b"x509", b"CN=alice"))
