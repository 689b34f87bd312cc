"""How members authenticate each other, and whether they speak TLS.

Not here: the stores for TLS (`zab.configuration.blocks.tls`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BOOLEAN, Read, choice, setting, text_of

HOSTS_ARE_CHECKED: Final = "the certificate is what proves which server speaks, by the host of its server line"


def _true_or_false(text: str) -> str:
    """`config` refuses false where members speak TLS, and warns where they do not."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower()


def _always(word: str, reason: str) -> Read:
    """Accept only this value; any other would open what its owner believes closed, or the reverse."""

    def read(text: str) -> str:
        if text.lower() != word:
            raise ValueError(f"{text!r} is not supported: {reason}. Only {word} is")
        return word

    return read


@frozen(kw_only=True)
class QuorumSettings:
    """The secret of the ensemble, and TLS between members."""

    secret_file: str | None = setting(
        "quorum.secretFile",
        None,
        text_of,
        "path",
        "zab only. The file with the secrets by which members authenticate each other. `zab secret` makes it.",
    )
    secret_required: bool = setting(
        "quorum.secretRequired",
        True,
        BOOLEAN,
        "true/false",
        "zab only. false: members without a secret are accepted, while an ensemble gets its first one.",
    )
    insecure: bool = setting(
        "quorum.insecure",
        False,
        BOOLEAN,
        "true/false",
        "zab only. true: members on other machines are accepted without authentication. Anyone who reaches "
        "their ports is a member then.",
    )
    tls_enabled: bool = setting(
        "sslQuorum", False, BOOLEAN, "true/false", "true: all traffic between members is inside TLS."
    )
    port_unification: bool = setting(
        "portUnification",
        False,
        BOOLEAN,
        "true/false",
        "true: members without TLS are accepted too, while the ensemble changes over member by member.",
    )
    tls_protocol: str = setting(
        "ssl.quorum.protocol",
        "TLSv1.3",
        choice(**{"tls": "TLSv1.3", "tlsv1.3": "TLSv1.3", "tlsv1.2": "TLSv1.2"}),
        "newest version",
        "The newest version, unless enabledProtocols names some. TLS means TLSv1.3.",
    )
    certificates: str = setting(
        "ssl.quorum.clientAuth",
        "need",
        _always("need", "a server without a certificate could join"),
        "need",
        "Both ends show a certificate.",
    )
    hostname_verification: str = setting(
        "ssl.quorum.hostnameVerification",
        "true",
        _true_or_false,
        "true",
        "A certificate must name the host of the server line, on both ends. ZooKeeper checks this only without FIPS.",
    )
    client_hostname_verification: str = setting(
        "ssl.quorum.clientHostnameVerification",
        "true",
        _true_or_false,
        "true",
        "The same check for the end that has dialled.",
    )

    @property
    def has_tls(self) -> bool:
        """Whether the ports for members take TLS."""
        return self.tls_enabled or self.port_unification

    @property
    def takes_plain(self) -> bool:
        return not self.tls_enabled or self.port_unification
