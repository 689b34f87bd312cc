"""How a service comes to the coordination service, whose client it is: TLS, and its login.

    why_unusable()          what does not go together
    why_nobody(key, …)      why it cannot keep its znodes to itself, as `key` says
    acl_of(path)            who may do what at a znode that it creates; a service overrides it

The keys are Kafka's, except for two, which have the names of properties of Java: the JAAS file with the login
(`java.security.auth.login.config`), and its section (`zookeeper.sasl.clientconfig`).

Not here: reading the stores (`zab.tls.stores`) and the JAAS file (`zab.client.access.ensemble_access`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import frozen

from zab.configuration.blocks.cipher_suites import cipher_suites, versions_of
from zab.configuration.blocks.tls import VERSIONS_OF_TLS, versions_of_tls
from zab.configuration.fields import BOOLEAN, choice, setting, text_of

NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
NIO: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
_STORE_TYPE: Final = choice(pem="pem", pkcs12="pkcs12", jks="jks", bcfks="bcfks")


class ZnodeAcl(StrEnum):
    """The permissions of a znode of a service."""

    OPEN = "every client may do everything"
    READABLE = "the service may do everything, and every client may read"
    PRIVATE = "the service may do everything, and nobody else anything"


def _socket(text: str) -> str:
    if text not in (NETTY, NIO):
        raise ValueError(f"{text!r} is neither {NETTY} nor {NIO}")
    return text


def _checks_host(text: str) -> bool:
    if text.strip().upper() not in ("HTTPS", ""):
        raise ValueError(f"{text!r} is not HTTPS; an empty value checks no host")
    return bool(text.strip())


def _no_ocsp(text: str) -> bool:
    if text.lower() != "false":
        raise ValueError("OCSP is not supported: use zookeeper.ssl.crl.enable")
    return False


@frozen(kw_only=True)
class EnsembleSettings:
    """TLS and login at the coordination service."""

    tls_enabled: bool = setting(
        *("zookeeper.ssl.client.enable", False, BOOLEAN, "true/false"),
        "Whether the connections to the members of the coordination service use TLS. The given ports are then TLS "
        "ports.",
    )
    client_socket: str | None = setting(
        *("zookeeper.clientCnxnSocket", None, _socket, "class"),
        "Not needed: zookeeper.ssl.client.enable decides whether TLS is used. Java's two classes are accepted.",
    )
    key_store: str | None = setting(
        *("zookeeper.ssl.keystore.location", None, text_of, "path"),
        "The key and certificate to present to members: PEM, PKCS#12 or JKS. Read again when it changes.",
    )
    key_store_password: str | None = setting(
        *("zookeeper.ssl.keystore.password", None, text_of, "text", "Better in a file of its own (passwordPath)."),
        secret=True,
    )
    key_store_password_path: str | None = setting(
        *("zookeeper.ssl.keystore.passwordPath", None, text_of, "path"),
        "zab only. A file whose first line is the password.",
    )
    key_store_type: str | None = setting(
        *(
            "zookeeper.ssl.keystore.type",
            None,
            _STORE_TYPE,
            "PEM/PKCS12/JKS",
            "Needed if the file name does not show the type.",
        ),
        shown="by the name",
    )
    trust_store: str | None = setting(
        *("zookeeper.ssl.truststore.location", None, text_of, "path"),
        "The authorities that sign the members' certificates. None: those that this machine trusts.",
    )
    trust_store_password: str | None = setting(
        *("zookeeper.ssl.truststore.password", None, text_of, "text", "As for the key store."), secret=True
    )
    trust_store_password_path: str | None = setting(
        *("zookeeper.ssl.truststore.passwordPath", None, text_of, "path"), "zab only. As for the key store."
    )
    trust_store_type: str | None = setting(
        *("zookeeper.ssl.truststore.type", None, _STORE_TYPE, "PEM/PKCS12/JKS", "As for the key store."),
        shown="by the name",
    )
    checks_host: bool = setting(
        *("zookeeper.ssl.endpoint.identification.algorithm", True, _checks_host, "HTTPS"),
        "A member's certificate has to name the host that is dialled. Empty: it may name any, so any client with "
        "a certificate of the authority can pose as a member.",
        shown="HTTPS",
    )
    protocol: frozenset[str] = setting(
        *("zookeeper.ssl.protocol", VERSIONS_OF_TLS, versions_of_tls, "version"),
        "The TLS version, unless zookeeper.ssl.enabled.protocols is set.",
    )
    enabled_protocols: frozenset[str] = setting(
        *("zookeeper.ssl.enabled.protocols", frozenset(), versions_of_tls, "versions"),
        "The TLS versions that may be used.",
        shown="zookeeper.ssl.protocol",
    )
    cipher_suites: tuple[str, ...] = setting(
        *("zookeeper.ssl.cipher.suites", (), cipher_suites, "suites"),
        "The suites by their names in Java and IANA, best first. Of TLSv1.3 either all three or none.",
        shown="OpenSSL's",
    )
    crl: bool = setting(
        *("zookeeper.ssl.crl.enable", False, BOOLEAN, "true/false"),
        "true: the trust store has lists of revoked certificates, and members whose certificates are on them are "
        "refused.",
    )
    ocsp: bool = setting(
        *("zookeeper.ssl.ocsp.enable", False, _no_ocsp, "false"), "Must be false: OCSP is not supported."
    )
    jaas_file: str | None = setting(
        *("java.security.auth.login.config", None, text_of, "path"),
        "zab only, with the name of Java's property. A JAAS file with the login at the coordination service, by SASL "
        "DIGEST-MD5. Only its owner may read it.",
    )
    jaas_section: str = setting(
        *("zookeeper.sasl.clientconfig", "Client", text_of, "section"),
        "zab only, with the name of Java's property. The section of that file.",
    )

    @property
    def versions(self) -> frozenset[str]:
        """The versions of TLS that are spoken."""
        return self.enabled_protocols or self.protocol

    def acl_of(self, _path: str) -> ZnodeAcl:
        """The permissions of a znode that the service creates."""
        return ZnodeAcl.OPEN

    def why_unusable(self) -> str | None:
        """What is wrong, with its key first; None if nothing."""
        if not self.tls_enabled and (self.key_store or self.trust_store):
            name = "keystore" if self.key_store else "truststore"
            return f"zookeeper.ssl.{name}.location: it has no effect without zookeeper.ssl.client.enable=true"
        if self.tls_enabled and self.client_socket == NIO:
            return f"zookeeper.clientCnxnSocket: {NIO} speaks no TLS: remove the line, or write {NETTY}"
        spoken = versions_of(self.cipher_suites) if self.cipher_suites else self.versions
        for version in sorted(spoken ^ self.versions):
            has = "has no suite of" if version in self.versions else "has suites of, and nobody may speak,"
            return f"zookeeper.ssl.cipher.suites: it {has} {version}: say so in zookeeper.ssl.enabled.protocols as well"
        return None

    def why_nobody(self, key: str, service: str) -> str | None:
        """Why the service, such as a broker, has nobody to keep its znodes for, as `key` says; None: it has."""
        if self.jaas_file or self.key_store:
            return None
        return (
            f"{key}: the {service} would be nobody to the coordination service: it needs a login "
            "(java.security.auth.login.config) or a certificate (zookeeper.ssl.keystore.location)"
        )
