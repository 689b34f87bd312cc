"""Whether an HTTP request is meant for this server, and comes from no page of another one.

A page of some website that runs in a browser of this machine reaches a port of this machine as well. Its requests are
told by their `Origin`, or by the name that the page resolved to this machine, which is in `Host`. Requests for an
address, for `localhost` and for the names of this server are answered; others are not.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address


def is_own_name(host: str, names: Collection[str]) -> bool:
    """Whether `Host` names this server: by an address, or one of its names. None of its port."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    name = name.lower().removesuffix(".")
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost" or name in names
    return True


def is_own_page(origin: str, host: str) -> bool:
    """Whether a request comes from a page of this server, if it comes from a page."""
    return origin.lower().partition("://")[2] == host.lower()
