"""The stores for TLS, and which versions and suites are spoken.

Not here: what is done with them (`zab.host.tls`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.blocks.cipher_suites import cipher_suites
from zab.configuration.fields import BOOLEAN, choice, setting, text_of, words

VERSIONS_OF_TLS: Final = frozenset({"TLSv1.2", "TLSv1.3"})
_STORE_TYPE: Final = choice(pem="pem", pkcs12="pkcs12", jks="jks", bcfks="bcfks")


def versions_of_tls(text: str) -> frozenset[str]:
    """Some of those that are spoken."""
    names = words(text)
    if not names or not names <= VERSIONS_OF_TLS:
        raise ValueError(f"{text!r} is not a list of TLSv1.2 and TLSv1.3")
    return names


@frozen(kw_only=True)
class TlsSettings:
    """Files, versions and cipher suites of one end."""

    key_store: str | None = setting(
        "keyStore.location",
        None,
        text_of,
        "path",
        "The key and certificate of this server: PEM, PKCS#12 or JKS.",
    )
    key_store_password: str | None = setting(
        "keyStore.password",
        None,
        str,
        "text",
        "Anyone who can read this file has it: passwordPath is better.",
        secret=True,
    )
    key_store_password_path: str | None = setting(
        "keyStore.passwordPath", None, text_of, "path", "Its first line is the password, and wins over password."
    )
    key_store_type: str | None = setting(
        "keyStore.type",
        None,
        _STORE_TYPE,
        "PEM/PKCS12/JKS",
        "Where the name does not say it.",
        shown="by the name",
    )
    trust_store: str | None = setting(
        "trustStore.location",
        None,
        text_of,
        "path",
        "The authorities whose certificates are accepted, and no others.",
    )
    trust_store_password: str | None = setting(
        "trustStore.password", None, str, "text", "As keyStore.password.", secret=True
    )
    trust_store_password_path: str | None = setting(
        "trustStore.passwordPath", None, text_of, "path", "As keyStore.passwordPath."
    )
    trust_store_type: str | None = setting(
        "trustStore.type",
        None,
        _STORE_TYPE,
        "PEM/PKCS12/JKS",
        "As keyStore.type.",
        shown="by the name",
    )
    enabled_protocols: frozenset[str] | None = setting(
        "enabledProtocols",
        None,
        versions_of_tls,
        "versions",
        "Older ones are broken, and are not spoken at all. ZooKeeper's default is 1.3 alone.",
        shown="by protocol",
    )
    cipher_suites: tuple[str, ...] = setting(
        "ciphersuites",
        (),
        cipher_suites,
        "suites",
        "As Java and IANA name them, best first. Of TLSv1.3 all three or none.",
        shown="OpenSSL's",
    )
    crl: bool = setting(
        "crl",
        False,
        BOOLEAN,
        "true/false",
        "true: the trust store has lists of revoked certificates; none of those is accepted.",
    )
    reloads: bool = setting(
        "certReload",
        False,
        BOOLEAN,
        "true/false",
        "true: stores and passwords are read again when a file changes; connections that are up stay up.",
    )
