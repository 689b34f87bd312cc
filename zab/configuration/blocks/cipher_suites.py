"""The cipher suites of TLS, as Java and IANA name them, and as OpenSSL does.

Of TLS 1.2 there are those that keep what was said secret when the key is stolen later, and that are not broken. Of
TLS 1.3 there are all or none: `ssl` has no way to choose among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

TLS_1_2: Final[Mapping[str, str]] = {
    f"TLS_ECDHE_{key}_WITH_{java}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for java, openssl in (
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_256_CBC_SHA384", "AES256-SHA384"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
    )
}
TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def of_openssl(names: Iterable[str]) -> tuple[str, ...]:
    """The suites of TLS 1.2 among these, by the names that OpenSSL has for them."""
    return tuple([TLS_1_2[name] for name in names if name in TLS_1_2])


def cipher_suites(text: str) -> tuple[str, ...]:
    """Names between commas, best first."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in TLS_1_2 and name not in TLS_1_3:
            raise ValueError(f"{name!r} is not one of {', '.join((*TLS_1_3, *TLS_1_2))}")
    left_out = [name for name in TLS_1_3 if name not in names]
    if 0 < len(left_out) < len(TLS_1_3):
        raise ValueError(f"all suites of TLSv1.3 are needed, or none, and {' and '.join(left_out)} would be missing")
    return names


def versions_of(names: tuple[str, ...]) -> frozenset[str]:
    """The versions of TLS that can be spoken with these."""
    found = {"TLSv1.3"} if TLS_1_3[0] in names else set()
    return frozenset(found | {"TLSv1.2"} if any(name in TLS_1_2 for name in names) else found)
