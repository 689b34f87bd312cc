"""The schemes by which clients prove their identity, as a `zoo.cfg` names them: providers, and hashes of passwords.

    class of ZooKeeper                    scheme      available
    IPAuthenticationProvider              ip          always
    DigestAuthenticationProvider          digest      unless it is switched off
    SASLAuthenticationProvider            sasl        with users (`sasl.usersFile`, or a JAAS file)
    X509AuthenticationProvider            x509        with TLS for clients, unless ssl.clientAuth=none
    EnsembleAuthenticationProvider        ensemble    only with this line

Any other class is refused: it is not available here, and a server that relies on it would be open without it.

Not here: the checks of each scheme (`authentication`), and its ids in ACLs (`datatree.acl`).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import algorithms_available
from typing import Final

IP: Final = "ip"
DIGEST: Final = "digest"
SASL: Final = "sasl"
X509: Final = "x509"
ENSEMBLE: Final = "ensemble"

_PACKAGE: Final = "org.apache.zookeeper.server.auth."
PROVIDERS: Final[Mapping[str, str]] = {
    f"{_PACKAGE}IPAuthenticationProvider": IP,
    f"{_PACKAGE}DigestAuthenticationProvider": DIGEST,
    f"{_PACKAGE}SASLAuthenticationProvider": SASL,
    f"{_PACKAGE}X509AuthenticationProvider": X509,
    f"{_PACKAGE}EnsembleAuthenticationProvider": ENSEMBLE,
}

# Java's name of a hash, in any case, and the name in `hashlib`.
_HASHES: Final[Mapping[str, str]] = {
    "SHA": "sha1",
    "SHA1": "sha1",
    "SHA-1": "sha1",
    "MD5": "md5",
    **{f"SHA-{bits}": f"sha{bits}" for bits in (224, 256, 384, 512)},
    **{f"SHA-512/{bits}": f"sha512_{bits}" for bits in (224, 256)},
    **{f"SHA3-{bits}": f"sha3_{bits}" for bits in (224, 256, 384, 512)},
}


def provider(text: str) -> str:
    """The scheme of a class."""
    if text not in PROVIDERS:
        raise ValueError(
            f"the class {text!r} is not supported here, so clients would not have to prove what it requires"
        )
    return PROVIDERS[text]


def digest_algorithm(text: str) -> str:
    """The hash of a digest, by its name in `hashlib`."""
    found = _HASHES.get(text.upper())
    if found is None or found not in algorithms_available:
        raise ValueError(f"{text!r} is not a supported hash: {', '.join(sorted(_HASHES))}")
    return found
