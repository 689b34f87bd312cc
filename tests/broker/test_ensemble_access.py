"""The stores and the login of a broker at the coordination service: what is used, and what refuses the start."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.host.tls.holders import certificates, holder, member
from tests.rigs.certificates import Certificates, server_context
from tests.rigs.login_files import digest_section, private_file
from zab.broker.configuration import StartRefusedError, hints, load
from zab.client.access.ensemble_access import EnsembleAccess
from zab.client.core.hosts import Host
from zab.partition.settings.broker_config import read_config
from zab.testing.kit.ports import HOST

__all__ = ["certificates", "holder", "member"]

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


def stores(holder: Path, kind: str = "pem") -> str:
    names = ("keystore", "truststore")
    passwords = [f"zookeeper.ssl.{name}.passwordPath={holder}/password" for name in names if kind != "pem"]
    return "\n".join(
        [
            "zookeeper.ssl.client.enable=true",
            *(f"zookeeper.ssl.{name}.location={holder}/{name}.{kind}" for name in names),
            *passwords,
        ]
    )


def access_of(text: str) -> EnsembleAccess:
    return EnsembleAccess(read_config(text).ensemble)


async def subject_seen(access: EnsembleAccess, context: ssl.SSLContext, *, dialled: str = "localhost") -> str:
    """The common name of the certificate that a member sees when the broker dials it as `dialled`."""
    seen: list[str] = []
    assert access.dial is not None

    async def take(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError:
            return
        shown = secured.getpeercert()
        seen.extend(value for [(name, value)] in shown["subject"] if name == "commonName")
        await secured.send_all(b"seen")

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, take, 0, host=HOST))
        port = listener.socket.getsockname()[1]
        with trio.fail_after(30):
            async with await access.dial(Host(dialled, port)) as stream:
                assert await stream.receive_some(4) == b"seen"
        nursery.cancel_scope.cancel()
    return seen[0]


@pytest.mark.parametrize("kind", ["pem", "p12"])
async def test_a_member_sees_the_certificate_of_the_broker(member: Path, holder: Path, kind: str) -> None:
    assert await subject_seen(access_of(stores(holder, kind)), server_context(member)) == "alice"


async def test_new_connections_use_the_stores_as_last_read(certificates: Certificates, member: Path) -> None:
    own = certificates.client("before")
    access = access_of(stores(own))
    assert await subject_seen(access, server_context(member)) == "before"
    certificates.client("after").joinpath("keystore.pem").replace(own / "keystore.pem")
    reread = access.reread()
    assert reread is not None
    assert reread.watched.read_again()
    reread.changed()
    assert await subject_seen(access, server_context(member)) == "after"


async def test_the_host_of_a_member_is_checked_unless_the_settings_say_no(member: Path, holder: Path) -> None:
    checking = access_of(stores(holder))
    with pytest.RaisesGroup(pytest.RaisesExc(trio.BrokenResourceError, check=is_of_name), flatten_subgroups=True):
        await subject_seen(checking, server_context(member), dialled=HOST)
    access = access_of(f"{stores(holder)}\nzookeeper.ssl.endpoint.identification.algorithm=")
    assert await subject_seen(access, server_context(member), dialled=HOST) == "alice"


def is_of_name(error: BaseException) -> bool:
    return isinstance(error.__cause__, ssl.SSLCertVerificationError)


@pytest.mark.parametrize(
    ("enabled", "spoken", "other"),
    [
        ("TLSv1.2", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2),
    ],
)
async def test_a_version_that_is_not_enabled_is_not_spoken(
    member: Path, holder: Path, enabled: str, spoken: ssl.TLSVersion, other: ssl.TLSVersion
) -> None:
    access = access_of(f"{stores(holder)}\nzookeeper.ssl.protocol={enabled}")
    assert await subject_seen(access, speaking(member, spoken)) == "alice"
    refused = pytest.RaisesExc((trio.BrokenResourceError, ConnectionAbortedError))
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        await subject_seen(access, speaking(member, other))


def speaking(member: Path, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A member that speaks this version alone."""
    context = server_context(member)
    context.minimum_version = context.maximum_version = version
    return context


def test_without_tls_the_client_dials_itself() -> None:
    access = access_of("")
    assert (access.dial, access.reread(), access.login) == (None, None, None)


def jaas_of(directory: Path, text: str, mode: int = 0o600) -> Path:
    return private_file(directory / "jaas.conf", text, mode)


def test_the_login_is_that_of_the_section(tmp_path: Path) -> None:
    both = {"Client": ("a", "b"), "Other": ("c", "d")}
    text = "".join(digest_section(each, username=u, password=p) for each, (u, p) in both.items())
    line = f"java.security.auth.login.config={jaas_of(tmp_path, text)}\n"
    login, other = access_of(line).login, access_of(f"{line}zookeeper.sasl.clientconfig=Other\n").login
    assert (login.user, login.password, other.user) == ("a", "b", "c")
    assert "b" not in repr(login).replace("SaslLogin", "")


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (digest_section("Client", username="a", password="b"), 0o644, "run `chmod 600"),
        ("Client {", 0o600, "jaas.conf: line 1"),
        (digest_section("Server", username="a", password="b"), 0o600, "there is no section Client"),
        (digest_section("Client", username="a"), 0o600, "needs a username and a password"),
        ("Client { com.sun.security.auth.module.Krb5LoginModule required; };", 0o600, "only .*DigestLoginModule is"),
        (f"Client {{ {MODULE} required; {MODULE} required; }};", 0o600, "several login modules"),
    ],
)
def test_a_jaas_file_that_is_no_login_refuses_the_start(tmp_path: Path, text: str, mode: int, why: str) -> None:
    line = f"java.security.auth.login.config={jaas_of(tmp_path, text, mode)}\n"
    with pytest.raises(StartRefusedError, match=why):
        load(str(private_file(tmp_path / "server.properties", line)))


def test_a_key_that_others_can_read_refuses_the_start(certificates: Certificates, tmp_path: Path) -> None:
    own = certificates.client("careless")
    (own / "keystore.pem").chmod(0o644)
    with pytest.raises(StartRefusedError, match=r"zookeeper\.ssl\.keystore\.location: .*chmod 600"):
        load(str(private_file(tmp_path / "server.properties", stores(own))))


def test_a_store_that_is_missing_refuses_the_start(holder: Path, tmp_path: Path) -> None:
    file = private_file(tmp_path / "server.properties", stores(holder).replace("truststore.pem", "gone.pem"))
    with pytest.raises(
        StartRefusedError, match=r"zookeeper\.ssl\.truststore\.location: .*gone\.pem: it cannot be read"
    ):
        load(str(file))


def test_passwords_in_a_file_that_others_can_read_are_warned_of(holder: Path, tmp_path: Path) -> None:
    password = (holder / "password").read_text().strip()
    text = stores(holder, "p12").replace("passwordPath", "password").replace(f"{holder}/password", password)
    file = private_file(tmp_path / "server.properties", f"{text}\nssl.key.password=x\n")
    assert not [hint for hint in hints(load(str(file))) if "password" in hint]
    file.chmod(0o644)
    warned = [hint for hint in hints(load(str(file))) if "its value is a password" in hint]
    assert [hint.rpartition(" of ")[2] for hint in warned] == [
        "zookeeper.ssl.keystore.passwordPath",
        "zookeeper.ssl.truststore.passwordPath",
        "ssl.keystore.passwordPath",
    ]
    assert password not in "".join(warned)
