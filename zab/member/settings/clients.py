"""The keys of how clients come in, as fields that every `Config` has: over TLS, and who they prove to be.

Not here: what they do (`zab.host.loop.handshakes`, `authentication`), and the rules between them (`config`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.dynamic import CLIENT_HOST_DEFAULT
from zab.configuration.fields import BOOLEAN, COUNT, choice, integer, setting, text_of, words
from zab.member.settings.cipher_suites import cipher_suites
from zab.member.settings.schemes import ENSEMBLE, SASL, provider
from zab.member.settings.throttles import ThrottleSettings

VERSIONS_OF_TLS = {"TLSv1.2", "TLSv1.3"}
STORE_TYPE = choice(pem="pem", pkcs12="pkcs12", jks="jks", bcfks="bcfks")


def client_host(text: str) -> str:
    """A host name or address; brackets around an IPv6 address are taken off."""
    return text_of(text.removeprefix("[").removesuffix("]"))


def _port_or_none(text: str) -> int | None:
    """0 or less is ZooKeeper's way to say that there is none."""
    port = integer(-1, 65535)(text)
    assert isinstance(port, int)
    return port if port > 0 else None


def versions_of_tls(text: str) -> frozenset[str]:
    """Some of those that are spoken."""
    names = words(text)
    if not names or not names <= VERSIONS_OF_TLS:
        raise ValueError(f"{text!r} is not a list of TLSv1.2 and TLSv1.3")
    return names


def _version_of_tls(text: str) -> str:
    [name, *others] = versions_of_tls(text)
    if others:
        raise ValueError(f"{text!r} is more than one: ssl.enabledProtocols takes several")
    return name


def _default_rule(text: str) -> str:
    """Names of Kerberos by the rule that is ZooKeeper's own."""
    if text != "DEFAULT":
        raise ValueError(f"of rules for names only DEFAULT is known here, not {text!r}")
    return text


@frozen(kw_only=True)
class ClientSettings(ThrottleSettings):
    """See the module."""

    # --- Clients over TLS ---------------------------------------------------------------------------------------------
    secure_client_port: int | None = setting(
        "secureClientPort", None, _port_or_none, "port", "Where clients connect over TLS; 0 or none: nowhere."
    )
    secure_client_port_address: str = setting(
        "secureClientPortAddress", CLIENT_HOST_DEFAULT, client_host, "host", "As clientPortAddress."
    )
    client_port_unification: bool = setting(
        "client.portUnification",
        False,
        BOOLEAN,
        "true/false",
        "true: clientPort takes clients over TLS, too, while they change one by one.",
    )
    ssl_key_store: str | None = setting(
        "ssl.keyStore.location", None, text_of, "path", "The server's key and certificate, PEM, PKCS#12 or JKS."
    )
    ssl_key_store_password: str | None = setting(
        "ssl.keyStore.password", None, str, "text", "Who reads this file has it: better is passwordPath.", secret=True
    )
    ssl_key_store_password_path: str | None = setting(
        "ssl.keyStore.passwordPath", None, text_of, "path", "Its first line is the password; it counts."
    )
    ssl_key_store_type: str | None = setting(
        "ssl.keyStore.type", None, STORE_TYPE, "PEM/PKCS12/JKS", "Where the name does not say it.", shown="by the name"
    )
    ssl_trust_store: str | None = setting(
        "ssl.trustStore.location", None, text_of, "path", "The authorities who vouch for clients."
    )
    ssl_trust_store_password: str | None = setting(
        "ssl.trustStore.password", None, str, "text", "As ssl.keyStore.password.", secret=True
    )
    ssl_trust_store_password_path: str | None = setting(
        "ssl.trustStore.passwordPath", None, text_of, "path", "As ssl.keyStore.passwordPath."
    )
    ssl_trust_store_type: str | None = setting(
        "ssl.trustStore.type", None, STORE_TYPE, "PEM/PKCS12/JKS", "As ssl.keyStore.type.", shown="by the name"
    )
    ssl_client_auth: str = setting(
        "ssl.clientAuth",
        "need",
        choice(need="need", want="want", none="none"),
        "need/want/none",
        "need: no client without a certificate; want: one that is shown has to be good; none: nobody is asked.",
    )
    ssl_enabled_protocols: frozenset[str] | None = setting(
        "ssl.enabledProtocols",
        None,
        versions_of_tls,
        "versions",
        "Older ones are broken, and are not spoken at all. ZooKeeper speaks 1.3 alone by default.",
        shown="ssl.protocol",
    )
    ssl_protocol: str | None = setting(
        "ssl.protocol",
        None,
        _version_of_tls,
        "version",
        "The only one, unless ssl.enabledProtocols names some.",
        shown="TLSv1.2, TLSv1.3",
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        "ssl.ciphersuites",
        (),
        cipher_suites,
        "suites",
        "As Java and IANA name them, best first. Of TLSv1.3 all three or none.",
        shown="OpenSSL's",
    )
    client_cert_reload: bool = setting(
        "client.certReload",
        False,
        BOOLEAN,
        "true/false",
        "true: stores and their passwords are read again when one of the files changes; who is in stays in.",
    )
    ssl_crl: bool = setting(
        "ssl.crl",
        False,
        BOOLEAN,
        "true/false",
        "true: the trust store has lists of revoked certificates, and none of those is let in.",
    )
    outstanding_handshake_limit_count: int = setting(
        "netty.server.outstandingHandshake.limit",
        250,
        COUNT,
        "connections",
        "Whose handshake is not done; one more takes another's place. At most half of clients' descriptors; never off.",
    )

    # --- Who clients are ----------------------------------------------------------------------------------------------
    auth_providers: tuple[str, ...] = setting(
        "authProvider.*",
        (),
        provider,
        "class",
        "ZooKeeper's own, for ip, digest, sasl, x509, ensemble; what follows the dot says nothing.",
        shown="none",
    )
    x509_super_user: str | None = setting(
        "X509AuthenticationProvider.superUser",
        None,
        text_of,
        "subject",
        "Whoever proves it by a certificate passes every ACL: `CN=a,O=b`, as ACLs have it.",
    )
    sasl_users_file: str | None = setting(
        "sasl.usersFile",
        None,
        text_of,
        "path",
        "Ours. Who may log in by SASL DIGEST-MD5; `zab user` writes it.",
    )
    jaas_file: str | None = setting(
        "java.security.auth.login.config",
        None,
        text_of,
        "path",
        "Ours, named as for Java. A JAAS file: users of SASL DIGEST-MD5, or how the server logs in to Kerberos.",
    )
    jaas_section: str = setting("sasl.serverconfig", "Server", text_of, "name", "The section of that file.")
    sasl_super_password: str | None = setting(
        "SASLAuthenticationProvider.superPassword",
        None,
        text_of,
        "text",
        "In the place of the password of `user_super` in that file.",
        secret=True,
    )
    sasl_super_user: str | None = setting(
        "superUser", None, text_of, "user", "Who logs in so by SASL passes every ACL."
    )
    sasl_super_users: tuple[str, ...] = setting(
        "superUser.*", (), text_of, "user", "More of them; what follows the dot says nothing.", shown="none"
    )
    removes_kerberos_host: bool = setting(
        "kerberos.removeHostFromPrincipal",
        False,
        BOOLEAN,
        "true/false",
        "true: a client of Kerberos is known as name@REALM, without its host; not those of other realms.",
    )
    removes_kerberos_realm: bool = setting(
        "kerberos.removeRealmFromPrincipal",
        False,
        BOOLEAN,
        "true/false",
        "true: a client of Kerberos is known without the realm of the server; not those of other realms.",
    )
    auth_to_local: str | None = setting(
        "security.auth_to_local",
        None,
        _default_rule,
        "DEFAULT",
        "Other rules than DEFAULT for names of Kerberos are refused.",
        shown="DEFAULT",
    )
    any_sasl_user: str | None = setting(
        "letAnySaslUserDoX", None, text_of, "user", "What an ACL gives to this user of SASL, every one has."
    )
    keeps_sasl_failed: bool = setting(
        "allowSaslFailedClients",
        False,
        BOOLEAN,
        "true/false",
        "true keeps whose SASL login failed, without an identity, unless SASL is required.",
    )
    requires_sasl: bool = setting(
        "sessionRequireClientSASLAuth",
        False,
        BOOLEAN,
        "true/false",
        "true: whoever has not logged in by SASL is closed.",
    )
    required_client_scheme: str | None = setting(
        "requireClientAuthScheme",
        None,
        choice(sasl=SASL, none=None),
        "sasl/none",
        "sasl is sessionRequireClientSASLAuth=true, as whoever writes it believes; ZooKeeper 3.9 reads it no more.",
    )
    enforces_auth: bool | None = setting(
        "enforce.auth.enabled",
        None,
        BOOLEAN,
        "true/false",
        "true: whoever has proven nothing by one of enforce.auth.schemes is closed.",
        shown="false",
    )
    enforced_schemes: frozenset[str] = setting(
        "enforce.auth.schemes", frozenset(), words, "words", "One of them is enough. Every client has ip.", shown="none"
    )
    ensemble_names: frozenset[str] = setting(
        "ensembleAuthName",
        frozenset(),
        words,
        "words",
        "A client that asks for an ensemble of another name is closed, if it asks; it takes authProvider.* besides.",
        shown="none",
    )

    @property
    def has_tls_clients(self) -> bool:
        return self.secure_client_port is not None or self.client_port_unification

    @property
    def tls_versions(self) -> frozenset[str]:
        """Those that clients may speak."""
        if self.ssl_enabled_protocols is not None:
            return self.ssl_enabled_protocols
        return frozenset(VERSIONS_OF_TLS if self.ssl_protocol is None else {self.ssl_protocol})

    @property
    def offers_x509(self) -> bool:
        """Whether clients can prove who they are by a certificate."""
        return self.has_tls_clients and self.ssl_client_auth != "none"

    @property
    def offers_sasl(self) -> bool:
        """Whether clients can log in by SASL."""
        return self.sasl_users_file is not None or self.jaas_file is not None

    @property
    def required_schemes(self) -> frozenset[str]:
        """A client has to be proven by one of them before it may ask for anything; none: anybody may."""
        if self.requires_sasl or self.required_client_scheme is not None:
            return frozenset({SASL})
        return self.enforced_schemes if self.enforces_auth else frozenset()

    @property
    def asks_for_ensemble(self) -> bool:
        """Whether the scheme `ensemble` is there."""
        return ENSEMBLE in self.auth_providers
