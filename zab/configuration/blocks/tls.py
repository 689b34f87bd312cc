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
        "Better in a file of its own (passwordPath): anyone who can read this file has it.",
        secret=True,
    )
    key_store_password_path: str | None = setting(
        "keyStore.passwordPath",
        None,
        text_of,
        "path",
        "A file whose first line is the password. It wins over password.",
    )
    key_store_type: str | None = setting(
        "keyStore.type",
        None,
        _STORE_TYPE,
        "PEM/PKCS12/JKS",
        "Needed if the file name does not show the type.",
        shown="by the name",
    )
    trust_store: str | None = setting(
        "trustStore.location",
        None,
        text_of,
        "path",
        "The authorities whose certificates are accepted. There are no others, while ZooKeeper also accepts Java's.",
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
        "The TLS versions that may be used. Older ones are broken and not available. ZooKeeper's default is TLSv1.3 "
        "alone.",
        shown="by protocol",
    )
    cipher_suites: tuple[str, ...] = setting(
        "ciphersuites",
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
        "true: the trust store contains lists of revoked certificates, and certificates on them are refused.",
    )
    reloads: bool = setting(
        "certReload",
        False,
        BOOLEAN,
        "true/false",
        "true: stores and their passwords are read again when a file changes. Open connections stay open.",
    )
