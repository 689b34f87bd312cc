"""Principals: the identities of clients, as Kafka writes them: `User:NAME`.

Not here: proving it. TLS has checked a certificate before its subject is used.
"""

from __future__ import annotations

from typing import Final

USER: Final = "User:"
ANONYMOUS: Final = f"{USER}ANONYMOUS"


def of_subject(subject: str) -> str:
    """The principal of a client's certificate; nobody, where it showed none."""
    return f"{USER}{subject}" if subject else ANONYMOUS
