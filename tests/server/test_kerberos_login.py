"""The steps of a login by Kerberos, with a library that accepts every token; `tests/conformance/test_kerberos.py` uses
the real one, where it is installed."""

from types import SimpleNamespace

import pytest

from zab.member.clients.kerberos import LoginStep
from zab.server.kerberos import GssapiLogin
from zab.wire.login.gssapi import offer

KERBEROS, SPNEGO = object(), object()
BOB = "bob@EXAMPLE.COM"
CHOICE = b"\1\0\0\0"


class Context:
    """A security context of bob, complete after one token. Wrapping changes nothing."""

    complete = True
    initiator_name = BOB

    def __init__(self, mech: object) -> None:
        self.mech = mech

    def step(self, token: bytes) -> bytes:
        return b"answer to " + token

    def wrap(self, message: bytes, is_encrypted: bool) -> SimpleNamespace:
        assert not is_encrypted
        return SimpleNamespace(message=message)

    def unwrap(self, message: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=message)


def login_of(mech: object = KERBEROS) -> GssapiLogin:
    library = SimpleNamespace(
        raw=SimpleNamespace(GSSError=ArithmeticError),
        MechType=SimpleNamespace(kerberos=KERBEROS),
        SecurityContext=lambda **_given: Context(mech),
    )
    return GssapiLogin(library, None)


@pytest.mark.parametrize("name", [b"", BOB.encode()])
def test_login_ends_with_the_principal_of_the_context(name: bytes) -> None:
    login = login_of()
    assert login.step(b"token") == LoginStep(b"answer to token")
    assert login.step(b"") == LoginStep(offer())
    assert login.step(CHOICE + name) == LoginStep(None, BOB)
    assert login.step(b"") is None, "a login ends once"


@pytest.mark.parametrize("name", [b"alice@EXAMPLE.COM", b"\xff"])
def test_user_may_not_act_for_another(name: bytes) -> None:
    login = login_of()
    login.step(b"token")
    login.step(b"")
    assert login.step(CHOICE + name) is None
    assert login.step(CHOICE) is None, "a failed login does not go on"


def test_only_kerberos_itself_is_accepted() -> None:
    login = login_of(SPNEGO)
    assert login.step(b"token") is None
    assert login.step(b"") is None
