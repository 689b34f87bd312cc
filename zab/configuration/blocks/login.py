"""Logging in by SASL: DIGEST-MD5 and Kerberos."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BOOLEAN, setting, text_of

SECTION_DEFAULT: Final = "Server"


def _default_rule(text: str) -> str:
    """Names of Kerberos by the rule that is ZooKeeper's own."""
    if text != "DEFAULT":
        raise ValueError(f"the only supported rule for names is DEFAULT, not {text!r}")
    return text


@frozen(kw_only=True)
class LoginSettings:
    """The users of DIGEST-MD5, and the JAAS file for Kerberos."""

    users_file: str | None = setting(
        "sasl.usersFile",
        None,
        text_of,
        "path",
        "zab only. The users of SASL DIGEST-MD5. `zab user` writes the file.",
    )
    jaas_file: str | None = setting(
        "java.security.auth.login.config",
        None,
        text_of,
        "path",
        "zab only, with the name of Java's property. A JAAS file: users of SASL DIGEST-MD5, or the server's "
        "login to Kerberos.",
    )
    jaas_section: str = setting("sasl.serverconfig", SECTION_DEFAULT, text_of, "name", "The section of that file.")
    super_password: str | None = setting(
        "SASLAuthenticationProvider.superPassword",
        None,
        text_of,
        "text",
        "The password of `user_super`, in place of the one in that file.",
        secret=True,
    )
    removes_kerberos_host: bool = setting(
        "kerberos.removeHostFromPrincipal",
        False,
        BOOLEAN,
        "true/false",
        "true: ACLs know a client of this realm as name@REALM, without its host.",
    )
    removes_kerberos_realm: bool = setting(
        "kerberos.removeRealmFromPrincipal",
        False,
        BOOLEAN,
        "true/false",
        "true: ACLs know a client of this realm without the realm.",
    )
    auth_to_local: str | None = setting(
        "security.auth_to_local",
        None,
        _default_rule,
        "DEFAULT",
        "Rules for Kerberos names. Only DEFAULT is supported.",
        shown="DEFAULT",
    )

    @property
    def is_offered(self) -> bool:
        """Whether clients can log in by SASL."""
        return self.users_file is not None or self.jaas_file is not None
