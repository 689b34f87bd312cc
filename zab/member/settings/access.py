"""The settings for authentication of clients.

Not here: the checks (`zab.member.clients.authentication`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, YES_NO, choice, setting, text_of, words
from zab.member.settings.schemes import ENSEMBLE, SASL, digest_algorithm, provider


@frozen(kw_only=True)
class AccessSettings:
    """The schemes that are offered and required, and the superusers."""

    skip_acl: bool = setting(
        "skipACL", False, YES_NO, "yes/no", "yes: ACLs are not checked, and everything is open to everybody."
    )
    digest_enabled: bool = setting(
        "DigestAuthenticationProvider.enabled", True, BOOLEAN, "true/false", "false: the scheme digest is refused."
    )
    super_digest: str | None = setting(
        "DigestAuthenticationProvider.superDigest",
        None,
        text_of,
        "user:base64",
        "The superuser of the scheme digest, who passes every ACL.",
    )
    digest_algorithm: str = setting(
        "DigestAuthenticationProvider.digestAlg",
        "sha1",
        digest_algorithm,
        "hash",
        "The hash of passwords in ACLs and in superDigest, the same on all members. Existing hashes of a different "
        "kind match no password.",
        shown="SHA1",
    )
    auth_providers: tuple[str, ...] = setting(
        "authProvider.*",
        (),
        provider,
        "class",
        "ZooKeeper's own providers, for ip, digest, sasl, x509 and ensemble. The part after the dot has no meaning.",
        shown="none",
    )
    x509_super_user: str | None = setting(
        "X509AuthenticationProvider.superUser",
        None,
        text_of,
        "subject",
        "The superuser of the scheme x509, as ACLs write its subject: `CN=a,O=b`.",
    )
    sasl_super_user: str | None = setting("superUser", None, text_of, "user", "A SASL user that is a superuser.")
    sasl_super_users: tuple[str, ...] = setting(
        "superUser.*", (), text_of, "user", "More of them. The part after the dot has no meaning.", shown="none"
    )
    any_sasl_user: str | None = setting(
        "letAnySaslUserDoX", None, text_of, "user", "Every SASL user has the permissions that ACLs grant to this one."
    )
    keeps_sasl_failed: bool = setting(
        "allowSaslFailedClients",
        False,
        BOOLEAN,
        "true/false",
        "true: a client whose SASL login failed stays connected without an identity, unless SASL is required.",
    )
    requires_sasl: bool = setting(
        "sessionRequireClientSASLAuth",
        False,
        BOOLEAN,
        "true/false",
        "true: a client that has not logged in by SASL is disconnected.",
    )
    required_client_scheme: str | None = setting(
        "requireClientAuthScheme",
        None,
        choice(sasl=SASL, none=None),
        "sasl/none",
        "sasl: the same as sessionRequireClientSASLAuth=true. ZooKeeper 3.9 no longer reads this key.",
    )
    enforces_auth: bool | None = setting(
        "enforce.auth.enabled",
        None,
        BOOLEAN,
        "true/false",
        "true: a client that has authenticated by none of enforce.auth.schemes is disconnected.",
        shown="false",
    )
    enforced_schemes: frozenset[str] = setting(
        "enforce.auth.schemes",
        frozenset(),
        words,
        "words",
        "The schemes of which one is enough. Every client has ip.",
        shown="none",
    )
    ensemble_names: frozenset[str] = setting(
        "ensembleAuthName",
        frozenset(),
        words,
        "words",
        "The names of this ensemble: a client that asks for another one is disconnected. Needs authProvider.*.",
        shown="none",
    )

    @property
    def required_schemes(self) -> frozenset[str]:
        """A client must authenticate by one of these schemes before it may ask for anything; empty: nobody has to."""
        if self.requires_sasl or self.required_client_scheme is not None:
            return frozenset({SASL})
        return self.enforced_schemes if self.enforces_auth else frozenset()

    @property
    def asks_for_ensemble(self) -> bool:
        """Whether the scheme `ensemble` is available."""
        return ENSEMBLE in self.auth_providers
