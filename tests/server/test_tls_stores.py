"""Key and trust stores of the client port: what is read, and what is said of those that cannot be."""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import tempfile
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.host.tls.holders import certificates, holder, member
from tests.host.tls.tls_client import FAR, Client, shake
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.java_key_stores import with_java_stores
from tests.rigs.quiet_core import quiet_ms, thread_ns
from zab.configuration.blocks.cipher_suites import TLS_1_2, TLS_1_3
from zab.host.tls.engine import TlsError, TlsSide
from zab.member.settings.zoo_cfg import parse
from zab.server.tls_settings import admin_stores, client_port_stores
from zab.tls.revocation import LISTS_BYTES_MAX
from zab.tls.stores import StoreError

__all__ = ["certificates", "holder", "member"]

SLICE_MS = 20
"""The longest delay of the loop's thread."""


def context(keys: Path | str, trusted: Path | str | None, *more: str) -> ssl.SSLContext:
    lines = ["dataDir=/d", "secureClientPort=2281", f"ssl.keyStore.location={keys}", *more]
    if trusted is not None:
        lines.append(f"ssl.trustStore.location={trusted}")
    return client_port_stores(parse("\n".join(lines), "zoo.cfg")).content


def passwords(directory: Path) -> list[str]:
    return [f"ssl.{store}.passwordPath={directory}/password" for store in ("keyStore", "trustStore")]


def meet(made: ssl.SSLContext, client: Client) -> None:
    """Both sides, and a byte each way."""
    side = TlsSide(made)
    shake(side, client)
    assert side.feed(client.seal(b"a"), FAR)[0] == b"a"
    assert client.open(side.seal(b"b")) == b"b"


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
def test_stores_of_all_kinds_let_in_whom_they_name(member, holder, kind):
    with_java_stores(member)
    made = context(member / f"keystore.{kind}", member / f"truststore.{kind}", *passwords(member))
    meet(made, Client(holder, holder=holder))
    with pytest.raises(TlsError, match="it shows no certificate"):
        meet(made, Client(holder))
    with pytest.raises(TlsError, match="its certificate is refused"):
        meet(made, Client(holder, holder=member))


def test_key_out_of_pkcs12_leaves_nothing_on_a_disk(member, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[bytes] = []
    load = ssl.SSLContext.load_cert_chain

    def spied(self, path, **others):
        assert Path(path).parent == tmp_path
        assert Path(path).stat().st_mode & 0o777 == 0o600
        seen.append(Path(path).read_bytes())
        load(self, path, **others)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spied)
    context(member / "keystore.p12", None, "ssl.clientAuth=none", *passwords(member)[:1])
    [text] = seen
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in text
    assert list(tmp_path.iterdir()) == []


def test_encrypted_key_in_pem_opens_with_its_password(member, holder, tmp_path):
    text = (member / "keystore.pem").read_bytes()
    key = load_pem_private_key(text, None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    store = tmp_path / "keystore.pem"
    store.write_bytes(encrypted + text[text.index(b"-----BEGIN CERTIFICATE") :])
    made = context(store, member / "truststore.pem", "ssl.keyStore.password=secret")
    meet(made, Client(holder, holder=holder))
    with pytest.raises(StoreError, match=r"the password does not open its key: see ssl\.keyStore\.passwordPath"):
        context(store, member / "truststore.pem", "ssl.keyStore.password=wrong")
    with pytest.raises(StoreError, match="its key is encrypted"):
        context(store, member / "truststore.pem")


def test_clients_may_be_asked_for_a_certificate_or_not(member, holder):
    wanting = context(member / "keystore.pem", member / "truststore.pem", "ssl.clientAuth=want")
    meet(wanting, Client(holder))
    meet(wanting, Client(holder, holder=holder))
    with pytest.raises(TlsError, match="its certificate is refused"):
        meet(wanting, Client(holder, holder=member))
    meet(context(member / "keystore.pem", None, "ssl.clientAuth=none"), Client(holder))


def test_versions_are_those_that_are_named(member, holder):
    made = context(member / "keystore.pem", member / "truststore.pem", "ssl.enabledProtocols=TLSv1.3")
    meet(made, Client(holder, holder=holder))
    with pytest.raises(TlsError, match="it has no version of TLS in common"):
        meet(made, Client(holder, holder=holder, version=ssl.TLSVersion.TLSv1_2))


def test_suites_are_those_that_are_named(member, holder):
    named = "ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ssl.protocol=TLSv1.2"
    client = Client(holder, holder=holder)
    meet(context(member / "keystore.pem", member / "truststore.pem", *named), client)
    assert client.tls.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
    for_rsa = "ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ssl.protocol=TLSv1.2"
    with pytest.raises(TlsError, match="it has no cipher in common"):
        meet(context(member / "keystore.pem", member / "truststore.pem", *for_rsa), Client(holder, holder=holder))


def test_every_suite_is_one_of_openssl():
    for name in TLS_1_2.values():
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.set_ciphers(name)
        assert [each["name"] for each in made.get_ciphers() if each["protocol"] == "TLSv1.2"] == [name]
        assert name in {each["name"] for each in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()}
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert [each["name"] for each in made.get_ciphers() if each["protocol"] == "TLSv1.3"] == list(TLS_1_3)


def test_client_that_guesses_another_group_first_is_let_in(member, holder):
    made = context(member / "keystore.pem", member / "truststore.pem")
    meet(made, Client(holder, holder=holder, version=ssl.TLSVersion.TLSv1_3))


def test_one_step_of_a_handshake_is_short_whatever_group_a_client_asks_for(member, holder):
    client = Client(holder, version=ssl.TLSVersion.TLSv1_3)
    client.tls.context.set_ecdh_curve("ffdhe8192")
    fresh = client.tls.context.wrap_bio(client.incoming, client.outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        fresh.do_handshake()
    hello = client.outgoing.read()
    assert len(hello) > 1024, "it has a share of that group"
    made = context(member / "keystore.pem", member / "truststore.pem")

    def took_ns() -> int:
        side = TlsSide(made)

        def step() -> None:
            with pytest.raises(TlsError, match="no suitable key share"):
                side.feed(hello, FAR)

        return thread_ns(step)

    assert quiet_ms(took_ns) < SLICE_MS


def test_nobody_comes_back_on_a_ticket(member, holder):
    made = context(member / "keystore.pem", member / "truststore.pem")
    assert made.num_tickets == 0
    assert made.options & ssl.OP_NO_TICKET
    assert made.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("keys", "trusted", "reason"),
    [
        ("{member}/none.pem", "{member}/truststore.pem", r"ssl\.keyStore\.location: .*none\.pem: it cannot be read"),
        ("{member}/keystore.pem", "{member}/none.p12", r"ssl\.trustStore\.location: .*none\.p12: it cannot be read"),
        ("{member}/truststore.pem", "{member}/truststore.pem", "it contains no key with its certificate"),
        ("{member}/none.jks", "{member}/truststore.pem", r"none\.jks: it cannot be read"),
        ("{member}/keystore.pem", "{member}/truststore.bcfks", "`keytool -importkeystore"),
        ("{member}/password", "{member}/truststore.pem", r"so set ssl\.keyStore\.type"),
        ("{member}/keystore.p12", "{member}/truststore.pem", "it needs a password"),
        ("{member}/keystore.pem", "{member}/password", r"so set ssl\.trustStore\.type"),
    ],
)
def test_store_that_cannot_be_used_is_named_with_its_key(member, keys, trusted, reason):
    with pytest.raises(StoreError, match=reason):
        context(keys.format(member=member), trusted.format(member=member))


def test_password_that_is_wrong_or_missing_is_said(member, tmp_path):
    wrong = tmp_path / "password"
    wrong.write_text("wrong\n")
    with pytest.raises(StoreError, match=r"the password does not open it") as caught:
        context(member / "keystore.p12", member / "truststore.pem", f"ssl.keyStore.passwordPath={wrong}")
    assert "wrong\n" not in str(caught.value)
    with pytest.raises(StoreError, match=r"ssl\.keyStore\.passwordPath: .*: it cannot be read"):
        context(member / "keystore.p12", member / "truststore.pem", f"ssl.keyStore.passwordPath={tmp_path}/none")


def test_password_that_no_store_can_have_is_said_and_not_shown(member, tmp_path):
    long = "p" * 1024
    with pytest.raises(StoreError, match=r"^ssl\.keyStore\.password: the password has more than 1023 bytes$"):
        context(member / "keystore.pem", member / "truststore.pem", f"ssl.keyStore.password={long}")
    file = tmp_path / "password"
    file.write_text(long)
    with pytest.raises(StoreError, match=r"^ssl\.trustStore\.passwordPath: .*more than 1023 bytes$"):
        context(member / "keystore.pem", member / "truststore.pem", f"ssl.trustStore.passwordPath={file}")


def test_path_that_no_file_can_have_is_said(member):
    with pytest.raises(StoreError, match=r"ssl\.keyStore\.location: .*: it is not a path"):
        context("/a\0b.pem", member / "truststore.pem")
    with pytest.raises(StoreError, match=r"ssl\.keyStore\.passwordPath: .*: it is not a path"):
        context(member / "keystore.pem", None, "ssl.clientAuth=none", "ssl.keyStore.passwordPath=/a\0b")


def test_key_store_is_no_trust_store(member):
    with pytest.raises(StoreError, match="it contains a key, so it is not a trust store"):
        context(member / "keystore.pem", member / "keystore.p12", *passwords(member))


@pytest.mark.parametrize("kind", ["p12", "jks"])
@pytest.mark.parametrize("changed", ["keystore.{}", "truststore.{}", "password"])
def test_stores_are_read_again_when_one_of_their_files_changes(member, tmp_path, kind, changed):
    here, changed = with_java_stores(shutil.copytree(member, tmp_path / "member")), changed.format(kind)
    lines = [f"{key}={value}" for key, value in client_store_lines(here, kind).items()]
    text = "\n".join(["dataDir=/d", "secureClientPort=2281", *lines])
    stores = client_port_stores(parse(text, "zoo.cfg"))
    before = stores.content
    assert not stores.read_again()
    content = (here / changed).read_bytes()
    (here / "aside").write_bytes(b"nothing useful")
    (here / "aside").chmod(0o600)
    os.replace(here / "aside", here / changed)
    for _ in range(2):
        with pytest.raises(StoreError):
            stores.read_again()
    assert stores.content is before
    (here / changed).write_bytes(content)
    assert stores.read_again()
    assert stores.content is not before
    assert not stores.read_again()
    (here / changed).unlink()
    assert not stores.read_again()


def test_stores_that_take_too_many_rounds_are_not_read_again(member, tmp_path, monkeypatch):
    """Python stands still while PKCS#12 is opened: the server would, too."""
    here = shutil.copytree(member, tmp_path / "member")
    lines = [f"{key}={value}" for key, value in client_store_lines(here, "p12").items()]
    stores = client_port_stores(parse("\n".join(["dataDir=/d", "secureClientPort=2281", *lines]), "zoo.cfg"))
    before = stores.content
    os.utime(here / "keystore.p12", ns=(1, 1))
    monkeypatch.setattr("zab.tls.stores.ROUNDS_MAX", 1)
    with pytest.raises(
        StoreError, match=r"^ssl\.keyStore\.location: .*keystore\.p12: its keys are derived in more than 1"
    ):
        stores.read_again()
    assert stores.content is before


def test_who_is_revoked_is_refused_and_told(certificates, member, holder, tmp_path):
    store = tmp_path / "truststore.pem"
    shutil.copy(member / "truststore.pem", store)
    mallory = certificates.client("mallory")
    certificates.revoke(store, mallory)
    made = context(member / "keystore.pem", store, "ssl.crl=true")
    meet(made, Client(holder, holder=holder))
    client = Client(holder, holder=mallory)
    with pytest.raises(TlsError, match="its certificate is refused: certificate revoked") as caught:
        meet(made, client)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REVOKED"):
        client.open(caught.value.farewell)
    # The newest list counts, wherever it stands.
    certificates.revoke(store, mallory, holder)
    made = context(member / "keystore.pem", store, "ssl.crl=true")
    with pytest.raises(TlsError, match="certificate revoked"):
        meet(made, Client(holder, holder=holder))
    # Nobody looks.
    meet(context(member / "keystore.pem", store), Client(holder, holder=mallory))


def test_authority_without_a_list_refuses_the_start(certificates, member, tmp_path):
    keys, store = member / "keystore.pem", tmp_path / "truststore.pem"
    shutil.copy(member / "truststore.pem", store)
    with pytest.raises(StoreError, match=rf"^ssl\.trustStore\.location: {store}: it has no list of revoked"):
        context(keys, store, "ssl.crl=true")
    certificates.revoke(store)
    context(keys, store, "ssl.crl=true")
    store.write_bytes(
        store.read_bytes() + Certificates(tmp_path / "others").member("other").joinpath("truststore.pem").read_bytes()
    )
    with pytest.raises(StoreError, match="it has no list of revoked certificates signed by CN=zab clients"):
        context(keys, store, "ssl.crl=true")
    store.write_bytes(store.read_bytes() + b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
    with pytest.raises(StoreError, match="a list of revoked certificates in it cannot be read"):
        context(keys, store, "ssl.crl=true")
    with pytest.raises(StoreError, match="lists of revoked certificates are only read from PEM"):
        context(member / "keystore.p12", member / "truststore.p12", "ssl.crl=true", *passwords(member))


def test_largest_list_keeps_a_step_short(certificates, member, holder, tmp_path):
    """Each handshake goes through its signature, and the first one sorts it."""
    store = tmp_path / "truststore.pem"
    shutil.copy(member / "truststore.pem", store)
    certificates.revoke(store, others=20_000)
    assert store.stat().st_size > LISTS_BYTES_MAX * 0.9

    def longest_ns() -> int:
        longest = 0
        side = TlsSide(context(member / "keystore.pem", store, "ssl.crl=true"))
        client = Client(holder, holder=holder)
        said = client.step(b"")
        while not side.is_ready:
            began_ns = time.thread_time_ns()
            _, answer = side.feed(said, FAR)
            longest = max(longest, time.thread_time_ns() - began_ns)
            said = client.step(answer)
        return longest

    assert quiet_ms(longest_ns) < SLICE_MS
    shutil.copy(member / "truststore.pem", store)
    certificates.revoke(store, others=21_000)
    with pytest.raises(StoreError, match=f"its lists of revoked certificates have more than {LISTS_BYTES_MAX} bytes"):
        context(member / "keystore.pem", store, "ssl.crl=true")


def test_a_key_that_others_may_read_is_refused_as_any_secret(member, tmp_path):
    """For clients, members and the admin server; an encrypted one is as secret as the file with its password."""
    key = tmp_path / "keystore.pem"
    shutil.copy(member / "keystore.pem", key)
    for mode in (0o644, 0o640, 0o602):
        key.chmod(mode)
        with pytest.raises(StoreError, match=rf"^ssl.keyStore.location: {key}: users other .*chmod 600 {key}"):
            context(key, None, "ssl.clientAuth=none")
    lines = ("dataDir=/d", "clientPort=2181", f"ssl.quorum.keyStore.location={key}", "admin.forceHttps=true")
    with pytest.raises(StoreError, match=r"^ssl.quorum.keyStore.location: .*users other than its owner"):
        admin_stores(parse("\n".join(lines), "zoo.cfg"))
    key.chmod(0o600)
    context(key, None, "ssl.clientAuth=none")

    with_java_stores(member)
    password = tmp_path / "password"
    for kind in ("p12", "jks"):
        encrypted = tmp_path / f"keystore.{kind}"
        shutil.copy(member / encrypted.name, encrypted)
        shutil.copy(member / "password", password)
        encrypted.chmod(0o644)
        context(encrypted, None, "ssl.clientAuth=none", *passwords(tmp_path)[:1])
        password.chmod(0o640)
        with pytest.raises(StoreError, match=rf"^ssl.keyStore.passwordPath: {password}: users other than its owner"):
            context(encrypted, None, "ssl.clientAuth=none", *passwords(tmp_path)[:1])
