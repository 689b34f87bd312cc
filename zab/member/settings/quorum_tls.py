"""The keys of TLS between members, as fields that every `Config` has.

    sslQuorum=true                      members dial in TLS, and take TLS only
    the same, and portUnification=true  members dial in TLS, and take connections without it, too
    portUnification=true alone          members dial without TLS, and take both

Not here: what they do (`zab.server.quorum_tls`), and the rules between them (`config`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BOOLEAN, Read, choice, setting, text_of
from zab.member.settings.cipher_suites import cipher_suites
from zab.member.settings.clients import STORE_TYPE, VERSIONS_OF_TLS, ClientSettings, versions_of_tls

HOSTS_ARE_CHECKED: Final = "the certificate is what proves which server speaks, by the host of its server line"


def _true_or_false(text: str) -> str:
    """`config` refuses false where members speak TLS, and warns where they do not."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower()


def _always(word: str, reason: str) -> Read:
    """The only value that there is; another one would leave open what its owner believes closed, or the reverse."""

    def read(text: str) -> str:
        if text.lower() != word:
            raise ValueError(f"{text!r} is not to be had: {reason}. Only {word} is")
        return word

    return read


@frozen(kw_only=True)
class QuorumTlsSettings(ClientSettings):
    """See the module."""

    ssl_quorum: bool = setting(
        "sslQuorum", False, BOOLEAN, "true/false", "true: all that members say to each other is inside of TLS."
    )
    port_unification: bool = setting(
        "portUnification",
        False,
        BOOLEAN,
        "true/false",
        "true: who dials without TLS is taken, too, while the members of an ensemble change one by one.",
    )
    ssl_quorum_reload_cert_files: bool = setting(
        "sslQuorumReloadCertFiles",
        False,
        BOOLEAN,
        "true/false",
        "true: stores that have changed are read again, for the connections from then on.",
    )
    ssl_quorum_key_store: str | None = setting(
        "ssl.quorum.keyStore.location",
        None,
        text_of,
        "path",
        "The key and certificate of this member, for both ends of a link: PEM, PKCS#12 or JKS.",
    )
    ssl_quorum_key_store_password: str | None = setting(
        "ssl.quorum.keyStore.password",
        None,
        str,
        "text",
        "Who reads this file has it: better is passwordPath.",
        secret=True,
    )
    ssl_quorum_key_store_password_path: str | None = setting(
        "ssl.quorum.keyStore.passwordPath", None, text_of, "path", "Its first line is the password; it counts."
    )
    ssl_quorum_key_store_type: str | None = setting(
        "ssl.quorum.keyStore.type",
        None,
        STORE_TYPE,
        "PEM/PKCS12/JKS",
        "Where the name does not say it.",
        shown="by the name",
    )
    ssl_quorum_trust_store: str | None = setting(
        "ssl.quorum.trustStore.location",
        None,
        text_of,
        "path",
        "The authorities who vouch for members; nobody else's is believed, where ZooKeeper believes Java's.",
    )
    ssl_quorum_trust_store_password: str | None = setting(
        "ssl.quorum.trustStore.password", None, str, "text", "As ssl.quorum.keyStore.password.", secret=True
    )
    ssl_quorum_trust_store_password_path: str | None = setting(
        "ssl.quorum.trustStore.passwordPath", None, text_of, "path", "As ssl.quorum.keyStore.passwordPath."
    )
    ssl_quorum_trust_store_type: str | None = setting(
        "ssl.quorum.trustStore.type",
        None,
        STORE_TYPE,
        "PEM/PKCS12/JKS",
        "As ssl.quorum.keyStore.type.",
        shown="by the name",
    )
    ssl_quorum_protocol: str = setting(
        "ssl.quorum.protocol",
        "TLSv1.3",
        choice(**{"tls": "TLSv1.3", "tlsv1.3": "TLSv1.3", "tlsv1.2": "TLSv1.2"}),
        "newest version",
        "The newest, where enabledProtocols does not say it. TLS is TLSv1.3.",
    )
    ssl_quorum_enabled_protocols: frozenset[str] | None = setting(
        "ssl.quorum.enabledProtocols",
        None,
        versions_of_tls,
        "versions",
        "Older ones are broken, and are not spoken at all.",
        shown="TLSv1.2 to protocol",
    )
    ssl_quorum_cipher_suites: tuple[str, ...] = setting(
        "ssl.quorum.ciphersuites", (), cipher_suites, "suites", "As ssl.ciphersuites.", shown="OpenSSL's"
    )
    ssl_quorum_crl: bool = setting("ssl.quorum.crl", False, BOOLEAN, "true/false", "As ssl.crl, for members.")
    ssl_quorum_client_auth: str = setting(
        "ssl.quorum.clientAuth",
        "need",
        _always("need", "whoever shows no certificate could join"),
        "need",
        "Both ends show a certificate.",
    )
    ssl_quorum_hostname_verification: str = setting(
        "ssl.quorum.hostnameVerification",
        "true",
        _true_or_false,
        "true",
        "A certificate is good for the host of the server line, on both ends. ZooKeeper checks it without FIPS only.",
    )
    ssl_quorum_client_hostname_verification: str = setting(
        "ssl.quorum.clientHostnameVerification",
        "true",
        _true_or_false,
        "true",
        "As hostnameVerification, for who has dialled.",
    )

    @property
    def has_tls_members(self) -> bool:
        """Whether the ports for members take TLS."""
        return self.ssl_quorum or self.port_unification

    @property
    def takes_plain_members(self) -> bool:
        return not self.ssl_quorum or self.port_unification

    @property
    def quorum_versions_of_tls(self) -> frozenset[str]:
        if self.ssl_quorum_enabled_protocols is not None:
            return self.ssl_quorum_enabled_protocols
        return frozenset(version for version in VERSIONS_OF_TLS if version <= self.ssl_quorum_protocol)
