"""Whether an HTTP request is meant for this server, and does not come from a web page of another one.

A web page in a browser on this machine can reach the ports of this machine. Its requests are recognized by their
`Origin`, or by the name in `Host` that the page made resolve to this machine. Only requests for an address, for
`localhost` and for the names of this server are answered.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address


def is_own_name(host: str, names: Collection[str]) -> bool:
    """Whether `Host` names this server, by an address or one of its names. The port is ignored."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    name = name.lower().removesuffix(".")
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost" or name in names
    return True


def is_own_page(origin: str, host: str) -> bool:
    """Whether a web page that sent a request belongs to this server."""
    return origin.lower().partition("://")[2] == host.lower()
