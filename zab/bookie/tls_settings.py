"""TLS between clients and a bookie, under BookKeeper's keys.

The same keys are those of auto-recovery, which is a client of all bookies: it accepts the authorities of the trust
store, and shows the certificate of the key store if clients have to show one.

Not here: reading the stores (`zab.tls.stores`), the protocol (`zab.ledger.wire.tls_start`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.blocks.cipher_suites import cipher_suites, versions_of
from zab.configuration.blocks.tls import VERSIONS_OF_TLS, versions_of_tls
from zab.configuration.fields import BOOLEAN, choice, setting, text_of

FACTORY: Final = "org.apache.bookkeeper.tls.TLSContextFactory"
_STORE_TYPE: Final = choice(pem="pem", pkcs12="pkcs12", jks="jks", bcfks="bcfks")


def _factory(text: str) -> bool:
    if text not in ("", FACTORY):
        raise ValueError(f"no class of Java runs here: of factories only {FACTORY} is known, and means TLS by OpenSSL")
    return bool(text)


@frozen(kw_only=True)
class BookieTlsSettings:
    """The stores, versions and suites."""

    is_enabled: bool = setting(
        *("tlsProviderFactoryClass", False, _factory, "class"),
        f"`{FACTORY}`: clients can begin TLS at the bookie's port, and auto-recovery does so at all bookies.",
        shown="none",
    )
    is_required: bool = setting(
        *("tlsRequired", True, BOOLEAN, "true/false"),
        "zab only. Whether a client without TLS is refused (EUA). false, as with BookKeeper: such a client may do "
        "everything. Use false only until all clients and bookies use TLS.",
    )
    client_auth: bool = setting(
        *("tlsClientAuthentication", False, BOOLEAN, "true/false"),
        "Whether clients have to present a certificate from an authority in tlsTrustStore. Auto-recovery then "
        "presents the bookie's.",
    )
    key_store: str | None = setting(
        *("tlsKeyStore", None, text_of, "path"),
        "The key of this bookie with its certificate: PKCS#12, JKS or PEM. Read again when it changes.",
    )
    key_store_type: str | None = setting(
        *("tlsKeyStoreType", None, _STORE_TYPE, "PEM/PKCS12/JKS", "JKS also accepts PKCS#12."),
        shown="by the name, else JKS",
    )
    key_store_password_path: str | None = setting(
        *("tlsKeyStorePasswordPath", None, text_of, "path"), "A file whose first line is the password of tlsKeyStore."
    )
    certificate: str | None = setting(
        *("tlsCertificatePath", None, text_of, "path"),
        "The certificate of a PEM key, with its chain, if tlsKeyStore does not contain them.",
    )
    trust_store: str | None = setting(
        *("tlsTrustStore", None, text_of, "path"),
        "The authorities that sign the certificates of clients and of bookies. None: for bookies, those that this "
        "machine trusts. Read again when it changes.",
    )
    trust_store_type: str | None = setting(
        *("tlsTrustStoreType", None, _STORE_TYPE, "PEM/PKCS12/JKS", "As tlsKeyStoreType."),
        shown="by the name, else JKS",
    )
    trust_store_password_path: str | None = setting(
        *("tlsTrustStorePasswordPath", None, text_of, "path"),
        "A file whose first line is the password of tlsTrustStore.",
    )
    enabled_protocols: frozenset[str] = setting(
        *("tlsEnabledProtocols", VERSIONS_OF_TLS, versions_of_tls, "versions"),
        "The TLS versions that may be used. Older ones are broken and not available.",
    )
    cipher_suites: tuple[str, ...] = setting(
        *("tlsEnabledCipherSuites", (), cipher_suites, "suites"),
        "The suites by their names in Java and IANA, best first. Of TLSv1.3 either all three or none.",
        shown="OpenSSL's",
    )
    checks_host: bool = setting(
        *("tlsHostnameVerificationEnabled", True, BOOLEAN, "true/false"),
        "Whether the certificate of a bookie has to name the host that auto-recovery dials. false: anyone with a "
        "certificate of the authority can pose as a bookie. BookKeeper's default is false.",
    )

    def why_unusable(self) -> str | None:
        """What is wrong, with its key first; None if nothing."""
        if not self.is_enabled:
            unused = (self.key_store, "tlsKeyStore"), (self.trust_store, "tlsTrustStore")
            for value, key in (*unused, (self.client_auth, "tlsClientAuthentication")):
                if value:
                    return f"{key}: it has no effect without tlsProviderFactoryClass={FACTORY}"
            return None
        if self.key_store is None:
            return "tlsKeyStore: the bookie speaks TLS, so it needs a key and a certificate"
        if self.client_auth and self.trust_store is None:
            return "tlsTrustStore: clients show certificates, so say whose are accepted"
        if self.certificate is not None and self.key_store_type not in ("pem", None):
            return "tlsCertificatePath: only a key in PEM has its certificate in another file: set tlsKeyStoreType=PEM"
        spoken = versions_of(self.cipher_suites) if self.cipher_suites else self.enabled_protocols
        for version in sorted(spoken ^ self.enabled_protocols):
            has = "has no suite of" if version in self.enabled_protocols else "has suites of, and nobody may speak,"
            return f"tlsEnabledCipherSuites: it {has} {version}: say so in tlsEnabledProtocols as well"
        return None
