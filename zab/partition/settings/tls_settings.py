"""TLS at the listeners of a broker, under Kafka's keys.

There is one key, with one set of authorities, for all listeners with TLS: Kafka's keys of single listeners
(`listener.name.NAME.ssl.…`) are refused. The settings that Kafka does not have are ZooKeeper's: files with the
passwords of the stores, and lists of revoked certificates.

Not here: reading the stores (`zab.tls.stores`), and the engine.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import frozen

from zab.configuration.blocks.cipher_suites import cipher_suites, versions_of
from zab.configuration.blocks.tls import VERSIONS_OF_TLS, versions_of_tls
from zab.configuration.fields import BOOLEAN, choice, setting, text_of

_STORE_TYPE: Final = choice(pem="pem", pkcs12="pkcs12", jks="jks", bcfks="bcfks")


class ClientAuth(StrEnum):
    """Whether clients show certificates."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


def _default_rules(text: str) -> str:
    if text != "DEFAULT":
        raise ValueError(f"only DEFAULT is supported, not {text!r}: a client is named by its whole subject")
    return text


@frozen(kw_only=True)
class ListenerTlsSettings:
    """The stores, versions and suites."""

    key_store: str | None = setting(
        "keystore.location",
        None,
        text_of,
        "path",
        "The key and certificate of this broker: PEM, PKCS#12 or JKS. Read again when it changes.",
    )
    key_store_password: str | None = setting(
        "keystore.password",
        None,
        text_of,
        "text",
        "Better in a file of its own (passwordPath): anyone who can read this file has it.",
        secret=True,
    )
    key_store_password_path: str | None = setting(
        "keystore.passwordPath",
        None,
        text_of,
        "path",
        "zab only. A file whose first line is the password. It wins over password.",
    )
    key_password: str | None = setting(
        "key.password", None, text_of, "text", "The password of the key, which is also that of its store.", secret=True
    )
    key_store_type: str | None = setting(
        *("keystore.type", None, _STORE_TYPE, "PEM/PKCS12/JKS", "Needed if the file name does not show the type."),
        shown="by the name",
    )
    trust_store: str | None = setting(
        "truststore.location",
        None,
        text_of,
        "path",
        "The authorities that sign the clients' certificates. No others are accepted.",
    )
    trust_store_password: str | None = setting(
        "truststore.password", None, text_of, "text", "As ssl.keystore.password.", secret=True
    )
    trust_store_password_path: str | None = setting(
        "truststore.passwordPath", None, text_of, "path", "zab only. As ssl.keystore.passwordPath."
    )
    trust_store_type: str | None = setting(
        "truststore.type", None, _STORE_TYPE, "PEM/PKCS12/JKS", "As ssl.keystore.type.", shown="by the name"
    )
    client_auth: ClientAuth = setting(
        "client.auth",
        ClientAuth.NONE,
        choice(**{each.value: each for each in ClientAuth}),
        "none/requested/required",
        "Whether clients are asked for a certificate, or must present one. Its subject is then their name: User:CN=….",
    )
    enabled_protocols: frozenset[str] = setting(
        *("enabled.protocols", VERSIONS_OF_TLS, versions_of_tls, "versions"),
        "The TLS versions that may be used. Older ones are broken and not available.",
    )
    cipher_suites: tuple[str, ...] = setting(
        "cipher.suites",
        (),
        cipher_suites,
        "suites",
        "The suites by their names in Java and IANA, best first. Of TLSv1.3 either all three or none.",
        shown="OpenSSL's",
    )
    crl: bool = setting(
        "crl",
        False,
        BOOLEAN,
        "true/false",
        "zab only. true: the trust store has lists of revoked certificates, and certificates on them are refused.",
    )
    principal_rules: str = setting(
        *("principal.mapping.rules", "DEFAULT", _default_rules, "DEFAULT"),
        "How a subject becomes a name. Only DEFAULT is supported: the whole subject.",
    )

    @property
    def password_of_key(self) -> str | None:
        """The password of the key and its store."""
        return self.key_store_password or self.key_password

    def why_unusable(self, *, is_needed: bool) -> str | None:
        """What is wrong, with its key first; None if nothing. `is_needed`: a listener speaks TLS."""
        if is_needed and self.key_store is None:
            return "ssl.keystore.location: a listener speaks TLS, so it needs a key and a certificate"
        if is_needed and self.client_auth is not ClientAuth.NONE and self.trust_store is None:
            return "ssl.truststore.location: clients show certificates, so say whose are accepted"
        if self.key_store_password and self.key_password and self.key_store_password != self.key_password:
            return "ssl.key.password: the key and its store have one password here: `keytool -keypasswd` sets it"
        spoken = versions_of(self.cipher_suites) if self.cipher_suites else self.enabled_protocols
        for version in sorted(spoken ^ self.enabled_protocols):
            has = "has no suite of" if version in self.enabled_protocols else "has suites of, and nobody may speak,"
            return f"ssl.cipher.suites: it {has} {version}: say so in ssl.enabled.protocols as well"
        return None
