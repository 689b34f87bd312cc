"""A bookie's file: BookKeeper's keys, those that are refused, those that change nothing."""

from __future__ import annotations

import sys

import pytest

from zab.bookie.address import advertised_host, listening_host
from zab.bookie.config_file import BookieSettingsError, read_settings
from zab.bookie.configuration import why_not
from zab.bookie.settings import PlaceSettings, ServiceUri
from zab.bookie.tls_settings import FACTORY
from zab.service.failure import ServerFailedError

LEAST = "ledgerDirectories=/data\n"
TLS = f"{LEAST}tlsProviderFactoryClass={FACTORY}\n"


def test_a_file_of_bookkeeper() -> None:
    """The keys that its documentation and its tests set."""
    settings = read_settings(
        LEAST + "bookiePort=3999\nzkServers=a:1,b:2\nzkLedgersRootPath=/l\njournalDirectory=/journal\n"
        "indexDirectories=/data\njournalSyncData=true\nautoRecoveryDaemonEnabled=false\nbookieAuthProviderFactoryClass=\n"
        "dbStorage_writeCacheMaxSizeMb=4\nallowLoopback=true\nnumAddWorkerThreads=8\n"
    )
    assert settings.place.port == 3999
    assert settings.metadata.uri == ServiceUri("a:1,b:2", "/l")
    assert (settings.journal_directory, settings.ledger_directory) == ("/journal", "/data")
    assert settings.core.flush_bytes == 4 << 20
    assert [each.partition(":")[0] for each in settings.warnings] == ["line 11", "line 12"]


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("zk+hierarchical://a:1;b:2/ledgers", ServiceUri("a:1,b:2", "/ledgers")),
        ("zk://a:1,b:2/chroot/ledgers", ServiceUri("a:1,b:2", "/chroot/ledgers")),
        ("zk+null://a:1/l", ServiceUri("a:1", "/l")),
    ],
)
def test_where_the_metadata_is(text: str, uri: ServiceUri) -> None:
    assert read_settings(f"{LEAST}metadataServiceUri={text}").metadata.uri == uri


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "ledgerDirectories"),
        ("ledgerDirectories=data", "no absolute path"),
        ("ledgerDirectories=/a,/b", "one directory"),
        (f"{LEAST}indexDirectories=/elsewhere", "line 2: indexDirectories"),
        (f"{LEAST}metadataServiceUri=zk+flat://a:1/ledgers", "line 2: metadataServiceUri: the layout 'flat'"),
        (f"{LEAST}metadataServiceUri=etcd:a", "line 2: metadataServiceUri"),
        (f"{LEAST}bookieId=readonly", "no name of a bookie"),
        (f"{LEAST}journalSyncData=false", "journalSyncData"),
        (f"{LEAST}journalWriteData=false", "journalWriteData"),
        (f"{LEAST}bookieAuthProviderFactoryClass=org.example.Auth", "no logins"),
        (f"{LEAST}tlsKeyStore=/k", f"tlsKeyStore: it has no effect without tlsProviderFactoryClass={FACTORY}"),
        (f"{LEAST}tlsClientAuthentication=true", "tlsClientAuthentication: it has no effect"),
        (f"{LEAST}tlsProviderFactoryClass=org.example.Tls", "line 2: tlsProviderFactoryClass: no class of Java"),
        (f"{LEAST}tlsProvider=BouncyCastle", "line 2: tlsProvider: TLS is provided by Python's OpenSSL"),
        (f"{LEAST}tlsSomething=1", "line 2: tlsSomething: it is not supported"),
        (f"{TLS}tlsTrustStore=/t", "tlsKeyStore: the bookie speaks TLS, so it needs"),
        (f"{TLS}tlsKeyStore=/k\ntlsClientAuthentication=true", "tlsTrustStore: clients show certificates"),
        (f"{TLS}tlsKeyStore=/k\ntlsKeyStoreType=JKS\ntlsCertificatePath=/c", "tlsCertificatePath: only a key in PEM"),
        (f"{TLS}tlsKeyStore=/k\ntlsEnabledProtocols=TLSv1.1", "line 4: tlsEnabledProtocols"),
        (
            f"{TLS}tlsKeyStore=/k\ntlsEnabledCipherSuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "tlsEnabledCipherSuites: it has no suite of TLSv1.3: say so in tlsEnabledProtocols",
        ),
        (f"{LEAST}bookiePort=x", "line 2: bookiePort"),
        (f"{LEAST}diskUsageThreshold=1.5", "from 0 to 1"),
        (f"{LEAST}nettyMaxFrameSizeBytes=1", "line 2: nettyMaxFrameSizeBytes"),
    ],
)
def test_what_is_refused_names_its_line(line: str, reason: str) -> None:
    with pytest.raises(BookieSettingsError) as refused:
        read_settings(line)
    assert reason in str(refused.value)


def test_tls_as_bookkeepers_documentation_sets_it() -> None:
    settings = read_settings(
        f"{TLS}tlsProvider=OpenSSL\ntlsKeyStoreType=JKS\ntlsKeyStore=/k.jks\ntlsKeyStorePasswordPath=/p\n"
        "tlsTrustStoreType=JKS\ntlsTrustStore=/t.jks\ntlsTrustStorePasswordPath=/p\ntlsClientAuthentication=true\n"
        "tlsCertFilesRefreshDurationSeconds=60\ntlsEnabledProtocols=TLSv1.2,TLSv1.3\n"
    )
    tls = settings.tls
    assert (tls.key_store_type, tls.key_store, tls.trust_store, tls.client_auth) == ("jks", "/k.jks", "/t.jks", True)
    assert (tls.is_enabled, tls.is_required, tls.checks_host) == (True, True, True)
    assert [each.partition(":")[0] for each in settings.warnings] == ["line 11"]


def test_without_the_factory_there_is_no_tls() -> None:
    for line in ("", "tlsProviderFactoryClass=\n", "tlsProvider=\ntlsClientAuthentication=false\n"):
        assert not read_settings(LEAST + line).tls.is_enabled


def test_an_unknown_key_names_the_one_that_was_meant() -> None:
    [warning] = read_settings(f"{LEAST}bookeiPort=1").warnings
    assert "bookiePort is known" in warning


@pytest.mark.parametrize(
    ("place", "listening", "advertised"),
    [
        (PlaceSettings(), "127.0.0.1", "127.0.0.1"),
        (PlaceSettings(advertised_address="127.0.0.1"), "127.0.0.1", "127.0.0.1"),
        (PlaceSettings(advertised_address="localhost"), "localhost", "localhost"),
        (PlaceSettings(advertised_address="b.example"), "", "b.example"),
        (PlaceSettings(interface="lo"), "127.0.0.1", "127.0.0.1"),
        (PlaceSettings(interface="lo", advertised_address="b.example"), "127.0.0.1", "b.example"),
    ],
)
def test_nobody_but_this_machine_reaches_a_bookie_that_says_nothing(
    place: PlaceSettings, listening: str, advertised: str
) -> None:
    assert (listening_host(place), advertised_host(place)) == (listening, advertised)


def test_an_interface_that_is_not_there() -> None:
    with pytest.raises(ServerFailedError, match=r"there are .*lo"):
        listening_host(PlaceSettings(interface="nowhere0"))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here even the package `google`, which would contain `google.protobuf`, is missing."""
    monkeypatch.delitem(sys.modules, "google.protobuf", raising=False)
    monkeypatch.setitem(sys.modules, "google", None)
    assert why_not() == "the libraries of ledgers are missing (google.protobuf): pip install 'zab[ledgers]'"
