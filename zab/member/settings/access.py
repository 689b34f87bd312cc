"""The identities of clients, and what they have to prove.

Not here: what is asked of them (`zab.member.clients.authentication`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, YES_NO, choice, setting, text_of, words
from zab.member.settings.schemes import ENSEMBLE, SASL, digest_algorithm, provider


@frozen(kw_only=True)
class AccessSettings:
    """The schemes that are offered and required, and the superusers."""

    skip_acl: bool = setting("skipACL", False, YES_NO, "yes/no", "yes opens everything to everybody.")
    digest_enabled: bool = setting(
        "DigestAuthenticationProvider.enabled", True, BOOLEAN, "true/false", "false refuses the scheme digest."
    )
    super_digest: str | None = setting(
        "DigestAuthenticationProvider.superDigest",
        None,
        text_of,
        "user:base64",
        "Whoever has its password passes every ACL.",
    )
    digest_algorithm: str = setting(
        "DigestAuthenticationProvider.digestAlg",
        "sha1",
        digest_algorithm,
        "hash",
        "Of passwords in ACLs and in superDigest; the same on all members. What is hashed otherwise fits nobody.",
        shown="SHA1",
    )
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
    sasl_super_user: str | None = setting(
        "superUser", None, text_of, "user", "Who logs in so by SASL passes every ACL."
    )
    sasl_super_users: tuple[str, ...] = setting(
        "superUser.*", (), text_of, "user", "More of them; what follows the dot says nothing.", shown="none"
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
    def required_schemes(self) -> frozenset[str]:
        """A client has to be proven by one of them before it may ask for anything; none: anybody may."""
        if self.requires_sasl or self.required_client_scheme is not None:
            return frozenset({SASL})
        return self.enforced_schemes if self.enforces_auth else frozenset()

    @property
    def asks_for_ensemble(self) -> bool:
        """Whether the scheme `ensemble` is there."""
        return ENSEMBLE in self.auth_providers
